"""One failover, from its cause to its end: what was asked, its steps, how it ended. Values.

Times are seconds since the epoch (of Unix), as the clock driver gives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile

from vcrecovery.core.evidence import Confirmation, Evidence, Failed, Restored
from vcrecovery.core.power import Power


class Step(StrEnum):
    """The steps of an operation, in the order in which the promises want them.

    POWER_ON is only there where the secondary is off until a failover needs it, and RESTORE when the operator names a
    restore point; SHUTDOWN and LAST_FILES only in a switchover, and
    TAKE_BACK when one of its steps has failed before its standby has started. BOOT to HAND_OVER, and KEEP are
    those of a failback, in which START has the standby serve again. A move has COPY, STOP, LAST_COPY and TAKE_BACK;
    that of a standby that waits has RECEIVE and SYNC, too.
    """

    CONFIRM = "confirm"
    SHUTDOWN = "shutdown"
    LAST_FILES = "last files"
    TAKE_BACK = "take back"
    BOOT = "boot"
    COPY = "copy"
    STOP = "stop"
    LAST_COPY = "last copy"
    HAND_OVER = "hand over"
    RECEIVE = "receive"
    SYNC = "sync"
    FENCE = "fence"
    POWER_ON = "power on"
    RESTORE = "restore"
    START = "start"
    PROBE = "probe"
    SWITCH = "switch"
    VERIFY = "verify"
    KEEP = "keep"


#: The first of what is done to whoever serves: what was begun must be brought to its end.
ACTS = (Step.FENCE, Step.SHUTDOWN, Step.STOP)
#: How the timeline names a step that is done.
DONE_WORD: Mapping[Step, str] = {
    Step.CONFIRM: "confirmed",
    Step.SHUTDOWN: "shut down",
    Step.LAST_FILES: "complete",
    Step.TAKE_BACK: "taken back",
    Step.BOOT: "VM is up",
    Step.COPY: "copied",
    Step.STOP: "stopped",
    Step.LAST_COPY: "all copied",
    Step.HAND_OVER: "handed over",
    Step.RECEIVE: "takes files",
    Step.SYNC: "in sync",
    Step.FENCE: "fenced",
    Step.POWER_ON: "powered on",
    Step.RESTORE: "restored",
    Step.START: "started",
    Step.PROBE: "ports open",
    Step.SWITCH: "DNS switched",
    Step.VERIFY: "DNS checked",
    Step.KEEP: "kept",
}


class Outcome(StrEnum):
    """How an episode ended."""

    DONE = "done"
    REFUSED = "refused"
    FALSE_ALARM = "false alarm"
    #: The operator has brought the primary back before the failover was done.
    GIVEN_UP = "given up"
    #: The primary was seen to serve after all, while its fence was tried and not proved: nothing has happened to it.
    WITHDRAWN = "withdrawn"
    #: A planned move has failed before the other side took over, and who served before serves again.
    TAKEN_BACK = "taken back"


#: Nothing has happened to the primary, and the reason is worth a look.
CAME_TO_NOTHING = frozenset({Outcome.REFUSED, Outcome.FALSE_ALARM, Outcome.WITHDRAWN})


class Symptom(StrEnum):
    """What a detector saw: why it believes that the primary has failed. An operator need not say."""

    NONE = ""
    #: libvirt calls it a failure.
    ENDED = "ended"
    #: Zabbix does.
    VM = "vm"
    CPU_ZERO = "cpu-zero"
    CPU_HIGH = "cpu-high"
    HOST = "host"
    #: Our own fence may have ended it, after its failover was withdrawn.
    LATE_FENCE = "late-fence"
    #: It is off, or no hypervisor has it any more, and no shutdown was seen.
    LOST = "lost"
    #: A fault has paused it, and nobody has resumed it.
    STALLED = "stalled"
    #: The standby, which serves, has ended without anybody's wish.
    STANDBY_ENDED = "standby-ended"
    #: Its VM runs, and is unwell by its own word, and its ports do not answer.
    SERVICE_DOWN = "service-down"
    #: The secondary on which its standby serves does not answer, nor does the standby; or it was away, and is back.
    SECONDARY = "secondary"


#: Whoever saw one of these saw the VM end, or stand still: one that no hypervisor has any more is gone with that.
SEEN_TO_END = frozenset({Symptom.ENDED, Symptom.VM, Symptom.LATE_FENCE, Symptom.LOST, Symptom.STALLED})


@dataclass(frozen=True)
class StepRecord:
    """One try of a step. `ended_at` is None while it runs, or when its controller died in it.

    `evidence` is None until it has ended. `sentence` says why it was decided; it is empty for steps of before that was
    written down.
    """

    step: Step
    begun_at: float
    ended_at: float | None = None
    ok: bool = False
    evidence: Evidence | None = None
    sentence: str = ""

    @property
    def saw(self) -> Confirmation:
        """What a confirmation saw that was `done`. Raises TypeError for any other try."""
        if not isinstance(self.evidence, Confirmation):
            raise TypeError(f"{self.step} has left no confirmation")
        return self.evidence

    @property
    def was_done(self) -> bool:
        """Whether it ended well. A confirmation that cannot be read any more is none."""
        return self.ok and (self.step is not Step.CONFIRM or isinstance(self.evidence, Confirmation))

    def is_recent(self, valid_for: float, now: float) -> bool:
        """What seems to come from the future is not recent: a clock has jumped back."""
        return self.ended_at is not None and 0 <= now - self.ended_at <= valid_for

    @property
    def summary(self) -> str:
        """What it did, in a few words; empty when it was not done."""
        return "" if self.evidence is None or isinstance(self.evidence, Failed) else self.evidence.summary

    @property
    def error(self) -> str:
        """Why it was not done."""
        return self.evidence.error if isinstance(self.evidence, Failed) else ""


class How(StrEnum):
    """What a move carries over: the files of one that has ended, or its memory and its connections too."""

    WARM = "warm"
    STATEFUL = "stateful"


@dataclass(frozen=True)
class Request:
    """What the operator said beside the service's name."""

    automatic: bool = False
    force: bool = False
    primary_is_down: bool = False
    #: What they said was said of several services at once: of a host, a site or a group.
    of_several: bool = False
    by: str = "operator"
    restore_point: str | None = None
    #: What the detector saw; it says which second signal counts.
    symptom: Symptom = Symptom.NONE
    #: When the failure began, if the detector knows; the episode is opened when it was noticed.
    began_at: float | None = None
    #: The standby is the one that serves, and does not answer: it is brought up again, under a new epoch.
    again: bool = False
    #: A switchover: the primary is shut down, and nothing that it has written is lost.
    planned: bool = False
    #: A failback: the standby serves until its VM has everything, and then the VM does.
    back: bool = False
    #: Into a VM that was rebuilt: it is booted anew first, since it does not know yet that its standby serves.
    rebuilt: bool = False
    #: Seconds from the end of a failback for which what its standby was is kept; None: the default.
    commit_after: float | None = None
    #: The secondary on which a standby that serves is to go on. With `planned` it is a move, and loses nothing.
    to: str | None = None
    #: The operator's word that the secondary on which it serves is off.
    secondary_is_down: bool = False
    #: Of a move.
    how: How = How.WARM
    #: Of a move of a standby that waits for its VM: the secondary on which it does. None: it serves.
    leaves: str | None = None

    @property
    def verb(self) -> str:
        """As an operator calls it."""
        if self.moves:
            return "move"
        return "failback" if self.back else "switchover" if self.planned else "failover"

    def typed(self, service: str) -> str:
        """What an operator types to go on with it."""
        return f"{self.verb} {service}" + (f" --to {self.to}{self._how_said}" if self.moves else "")

    @property
    def looks_for(self) -> str:
        """What a confirmation looks at beside the primary: one for something else does not count. A failover: empty."""
        memory = [self.how.value] if self.carries_memory else []
        return " ".join([*([] if self.verb == "failover" else [self.verb]), *([self.to] if self.to else []), *memory])

    @property
    def moves(self) -> bool:
        """Whether a standby is moved while nothing has failed."""
        return self.planned and self.to is not None

    @property
    def carries_memory(self) -> bool:
        """Whether what runs goes on there as it is: there is no way back once it does."""
        return self.moves and self.how is How.STATEFUL

    @property
    def _how_said(self) -> str:
        return f" --how {self.how}" if self.carries_memory else ""

    @property
    def ends_the_standby(self) -> bool:
        """Whether a standby that serves is to stop for it, where it is: it serves as ever until then."""
        return self.back or (self.moves and self.leaves is None)

    @property
    def keeps_up(self) -> bool:
        """Whether the watcher brings up again what serves, and has ended."""
        return self.again and self.automatic


@dataclass(frozen=True)
class Episode:
    """One failover of one service, from its cause to its end."""

    id: int
    service: str
    epoch: int
    cause: str
    request: Request
    opened_at: float
    steps: tuple[StepRecord, ...] = ()
    closed_at: float | None = None
    outcome: Outcome | None = None
    reason: str = ""

    def last(self, step: Step) -> StepRecord | None:
        """The newest finished try of `step`."""
        return next((r for r in reversed(self.steps) if r.step is step and r.ended_at is not None), None)

    def newest(self, step: Step) -> StepRecord | None:
        """The newest try of `step`, finished or not."""
        return next((record for record in reversed(self.steps) if record.step is step), None)

    def tried(self, step: Step) -> bool:
        """Whether `step` has begun at least once, whatever came of it."""
        return any(record.step is step for record in self.steps)

    def done(self, step: Step) -> StepRecord | None:
        """The newest try of `step`, if it ended well."""
        record = self.last(step)
        return record if record and record.was_done else None

    def failure_of(self, step: Step) -> str:
        """Why the newest finished try of `step` came to nothing; empty without one, and if it ended well."""
        record = self.last(step)
        if record is None or record.was_done:
            return ""
        return record.error or f"{step} left nothing that can be read"

    @property
    def has_acted(self) -> bool:
        """Whether something was done to whoever serves. What is done to a standby that waits is nothing to its VM."""
        return self.request.leaves is None and any(self.tried(step) for step in ACTS)

    @property
    def leaves_it_alone(self) -> bool:
        """Whether nothing is done to the standby, or its service, yet: one that waits is copied."""
        return self.request.leaves is not None and not self.tried(Step.STOP)

    @property
    def goes_on_first(self) -> tuple[str, str]:
        """Why nothing else is begun beside it, and what brings it to its end."""
        doing = self.request
        return (
            f"a {doing.verb} of {self.service} is under way, at epoch {self.epoch}",
            f"`vcrecovery {doing.typed(self.service)}` goes on with it",
        )

    @property
    def vm_has_everything(self) -> bool:
        """Of a failback: whether its VM has all that the standby wrote, and is to be told that it serves."""
        waits = self.done(Step.LAST_COPY) is not None and self.done(Step.HAND_OVER) is None
        return self.request.back and waits and not self.tried(Step.START)

    @property
    def ever_fenced(self) -> bool:
        """Whether the primary was proved off at least once, however long ago: from then on it must not serve.

        Not so any more once we have started it again.
        """
        started = max((n for n, record in enumerate(self.steps) if record.step is Step.TAKE_BACK), default=-1)
        return any(record.step is Step.FENCE and record.ok for record in self.steps[started + 1 :])

    @property
    def fence(self) -> StepRecord | None:
        """The newest try of it, if it ended well and the primary was not started again since."""
        return self.done(Step.FENCE) if self.ever_fenced else None

    @property
    def started(self) -> StepRecord | None:
        """The newest try of it, if it ended well and was not taken back since."""
        return self._done_since(Step.START, Step.TAKE_BACK)

    @property
    def first_confirmed(self) -> StepRecord | None:
        """What the decision to fence rested on: the newest confirmation before the first try of it."""
        begun = next((n for n, record in enumerate(self.steps) if record.step is Step.FENCE), len(self.steps))
        return replace(self, steps=self.steps[:begun]).done(Step.CONFIRM)

    @property
    def looked_since_the_fence(self) -> StepRecord | None:
        """The newest confirmation, if it came after the newest try of the fence."""
        return self._done_since(Step.CONFIRM, Step.FENCE)

    def ports_seen_open(self, valid_for: float, now: float) -> bool:
        """Whether they were just now, and no switch was tried since: one may wait long for a name server."""
        probe = self._done_since(Step.PROBE, Step.SWITCH)
        return probe is not None and probe.is_recent(valid_for, now)

    @property
    def ports_opened(self) -> StepRecord | None:
        """The newest look at them, if it ended well; once the names have changed, the newest before that."""
        switched = self.done(Step.SWITCH)
        return replace(self, steps=self.steps[: None if switched is None else self.steps.index(switched)]).done(
            Step.PROBE
        )

    @property
    def ports_failed_since_the_switch(self) -> str:
        """Why the newest look at the ports of who serves by its names came to nothing; empty where none did."""
        switched = self.done(Step.SWITCH)
        if switched is None:
            return ""
        since = self.steps[self.steps.index(switched) + 1 :]
        return replace(self, steps=since).failure_of(Step.PROBE)

    def _done_since(self, step: Step, other: Step) -> StepRecord | None:
        """The newest try of `step` after that of `other`, if it ended well."""
        begun = max((n for n, record in enumerate(self.steps) if record.step is other), default=-1)
        return replace(self, steps=self.steps[begun + 1 :]).done(step)

    @property
    def seen_running_for(self) -> float:
        """Seconds over which every look, up to the newest, has found it running; 0 after one, or when that did not."""
        looks = [record for record in reversed(self.steps) if record.step is Step.CONFIRM and record.was_done]
        running = list(takewhile(lambda look: look.saw.power is Power.RUNNING, looks))
        return running[0].begun_at - running[-1].begun_at if running else 0.0

    @property
    def is_powered_on(self) -> bool:
        """Whether the secondary was, and nothing that was to be done there has failed since, or was cut short."""
        since = list(takewhile(lambda record: record.step is not Step.POWER_ON, reversed(self.steps)))
        if len(since) == len(self.steps) or self.done(Step.POWER_ON) is None:
            return False
        return all(record.ok for record in since if record.step in (Step.RESTORE, Step.START))

    @property
    def to_restore(self) -> str | None:
        """The restore point that was asked for and is not in place yet."""
        asked, newest = self.request.restore_point, self.newest(Step.RESTORE)
        if asked is None:
            return None
        # One that was cut short has left half of another one there.
        proof = newest.evidence if newest is not None and newest.ok else None
        in_place = isinstance(proof, Restored) and asked in (proof.asked, proof.restore_point)
        return None if in_place else asked
