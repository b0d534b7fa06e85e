"""A drill while it goes on, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vcrecovery.cli.options import colour, is_terminal
from vcrecovery.cli.output import say
from vcrecovery.core.drill import Drill, DrillOutcome, DrillStep, StepDone
from vcrecovery.core.text import day_and_time, plain
from vcrecovery.errors import ExitCode
from vcrecovery.report.drills import as_data, result_line, step_line

_RUNNING_WORD = {
    DrillStep.CLONE: "copying the standby",
    DrillStep.START: "starting the clone",
    DrillStep.PORTS: "waiting for its ports",
    DrillStep.COMMAND: "running its command",
    DrillStep.REMOVE: "removing the clone",
}
#: What each outcome means for the exit status.
EXIT_CODES = {
    DrillOutcome.PASSED: ExitCode.DONE,
    DrillOutcome.FAILED: ExitCode.EXTERNAL,
    DrillOutcome.GAVE_WAY: ExitCode.BUSY,
    DrillOutcome.INTERRUPTED: ExitCode.EXTERNAL,
}


class LiveDrill:
    """Prints each step when it is done; on a terminal, also the one in progress. `width`: of the longest name."""

    def __init__(self, width: int, alone: bool) -> None:
        self._width, self._alone = width, alone
        self._live = is_terminal()
        self._opened = False

    def _say(self, text: str) -> None:
        say(f"\r\033[K{text}" if self._live else text)

    def _prefix(self, drill: Drill) -> str:
        return "" if self._alone else f"{drill.service:<{self._width}}"

    def doing(self, drill: Drill, step: DrillStep) -> None:
        if not self._opened:
            self._opened = True
            self._say(f"{drill.service + '  ' if self._alone else ''}drill  {day_and_time(drill.began_at)}")
        if self._live:
            say(f"\r\033[K  {self._prefix(drill)}  {_RUNNING_WORD[step]} ...".rstrip(), nl=False)

    def did(self, drill: Drill, done: StepDone) -> None:
        self._say(self._prefix(drill) + step_line(done, drill.began_at, lambda word: colour(word, "green")))

    def ended(self, drill: Drill) -> None:
        good = drill.outcome is DrillOutcome.PASSED
        self._say(colour(result_line(drill), "green" if good else "red"))


class SilentDrill:
    """For machines, which get the result only."""

    def doing(self, drill: Drill, step: DrillStep) -> None: ...

    def did(self, drill: Drill, done: StepDone) -> None: ...

    def ended(self, drill: Drill) -> None: ...


def for_machines(drills: Sequence[Drill]) -> dict[str, Any]:
    return {
        "ok": all(drill.outcome is DrillOutcome.PASSED for drill in drills),
        "drills": [
            {**as_data(drill), "exit_code": int(EXIT_CODES[drill.outcome or DrillOutcome.INTERRUPTED])}
            for drill in drills
        ],
    }


def missing(drills: Sequence[Drill]) -> str:
    """The services that did not pass."""
    return plain(", ".join(drill.service for drill in drills if drill.outcome is not DrillOutcome.PASSED))
