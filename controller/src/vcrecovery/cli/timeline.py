"""A failover while it goes on."""

from __future__ import annotations

from vcrecovery.cli.options import colour, is_terminal
from vcrecovery.cli.output import say
from vcrecovery.core.episode import DONE_WORD, Episode, Step
from vcrecovery.core.evidence import Proof
from vcrecovery.core.text import clock_time, day_and_time
from vcrecovery.report.timeline import line, of_episode

__all__ = ["LiveTimeline", "clock_time", "day_and_time", "line", "of_episode"]

_RUNNING_WORD = {
    Step.CONFIRM: "confirming",
    Step.SHUTDOWN: "shutting the VM down",
    Step.LAST_FILES: "looking whether its last files have arrived",
    Step.TAKE_BACK: "starting the VM again",
    Step.BOOT: "waiting for the VM, which starts no service",
    Step.COPY: "the VM fetches what the standby has written",
    Step.STOP: "stopping the standby",
    Step.LAST_COPY: "the VM fetches the rest",
    Step.HAND_OVER: "the VM takes over",
    Step.RECEIVE: "its container there is to take the VM's files",
    Step.SYNC: "waiting for the VM's sync",
    Step.FENCE: "fencing the primary",
    Step.POWER_ON: "booting the secondary",
    Step.RESTORE: "restoring the standby",
    Step.START: "starting the standby",
    Step.PROBE: "waiting for its ports",
    Step.SWITCH: "switching DNS",
    Step.VERIFY: "asking the DNS servers",
    Step.KEEP: "keeping what the standby was",
}


class LiveTimeline:
    """Prints each step when it is done; on a terminal, also the one in progress.

    `prefix` is for one of several that go on at the same time: it stands before each line, and only whole lines come.
    """

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._live = is_terminal() and not prefix
        self._opened: int | None = None

    def _say(self, text: str) -> None:
        say(f"\r\033[K{text}" if self._live else self._prefix + text)

    def _open(self, episode: Episode) -> None:
        if self._opened != episode.id:
            self._opened = episode.id
            for text in of_episode(episode):
                self._say(text.removesuffix("not finished").rstrip())

    def begun(self, episode: Episode, step: Step, sentence: str) -> None:
        self._open(episode)
        if step is Step.FENCE and (seen := episode.looked_since_the_fence) and episode.tried(Step.FENCE):
            # Whoever asked for it should know what is about to be done, and to what.
            self._say(line(f"{'fencing':<12}", seen.ended_at or episode.opened_at, episode.opened_at, sentence))
        if self._live:
            say(f"\r\033[K  {_RUNNING_WORD[step]} ...", nl=False)

    def ended(self, episode: Episode, step: Step, at: float, evidence: Proof) -> None:
        text = line(colour(f"{DONE_WORD[step]:<12}", "green"), at, episode.opened_at, evidence.summary)
        self._say(text)

    def failed(self, episode: Episode, step: Step, at: float, error: str) -> None:
        self._say(line(colour(f"{'failed':<12}", "red"), at, episode.opened_at, f"{step}: {error}"))

    def waiting(self, episode: Episode, at: float, sentence: str) -> None:
        self._open(episode)
        self._say(line(f"{'waits':<12}", at, episode.opened_at, sentence))

    def further(self, episode: Episode, at: float, sentence: str) -> None:
        self._open(episode)
        self._say(line(f"{'goes on':<12}", at, episode.opened_at, sentence))


class NoTimeline:
    """For machines, which get the result only."""

    def begun(self, episode: Episode, step: Step, sentence: str) -> None: ...

    def ended(self, episode: Episode, step: Step, at: float, evidence: Proof) -> None: ...

    def failed(self, episode: Episode, step: Step, at: float, error: str) -> None: ...

    def waiting(self, episode: Episode, at: float, sentence: str) -> None: ...

    def further(self, episode: Episode, at: float, sentence: str) -> None: ...
