"""What the decision core knows of a service: immutable values, no I/O.

Times are seconds since the epoch (of Unix), as the clock driver gives them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile

from vcrecovery.core.evidence import Confirmation, Evidence, Failed, Restored
from vcrecovery.core.power import ENDED_BY_A_FENCE, Power
from vcrecovery.core.sighting import Sighting


class Step(StrEnum):
    """The steps of a failover, in the order in which the promises want them.

    RESTORE is only there when the operator names a restore point.
    """

    CONFIRM = "confirm"
    FENCE = "fence"
    RESTORE = "restore"
    START = "start"
    PROBE = "probe"
    SWITCH = "switch"
    VERIFY = "verify"


#: How the timeline names a step that is done.
DONE_WORD: Mapping[Step, str] = {
    Step.CONFIRM: "confirmed",
    Step.FENCE: "fenced",
    Step.RESTORE: "restored",
    Step.START: "started",
    Step.PROBE: "ports open",
    Step.SWITCH: "DNS switched",
    Step.VERIFY: "DNS checked",
}


class Side(StrEnum):
    """Who serves."""

    PRIMARY = "primary"
    STANDBY = "standby"


class Outcome(StrEnum):
    """How an episode ended."""

    DONE = "done"
    REFUSED = "refused"
    FALSE_ALARM = "false alarm"
    #: The operator has brought the primary back before the failover was done.
    GIVEN_UP = "given up"
    #: The primary was seen to serve after all, while its fence was tried and not proved: nothing has happened to it.
    WITHDRAWN = "withdrawn"


#: Nothing has happened to the primary, and the reason is worth a look.
CAME_TO_NOTHING = frozenset({Outcome.REFUSED, Outcome.FALSE_ALARM, Outcome.WITHDRAWN})


#: Seconds after the withdrawal of a failover in which its fence may act all the same: libvirtd had it in its queue.
FENCE_ACTS_WITHIN = 60.0


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

    @property
    def summary(self) -> str:
        """What it did, in a few words; empty when it was not done."""
        return "" if self.evidence is None or isinstance(self.evidence, Failed) else self.evidence.summary

    @property
    def error(self) -> str:
        """Why it was not done."""
        return self.evidence.error if isinstance(self.evidence, Failed) else ""


@dataclass(frozen=True)
class Request:
    """What the operator said beside the service's name."""

    automatic: bool = False
    force: bool = False
    primary_is_down: bool = False
    by: str = "operator"
    restore_point: str | None = None
    #: What the detector saw; it says which second signal counts.
    symptom: Symptom = Symptom.NONE
    #: When the failure began, if the detector knows; the episode is opened when it was noticed.
    began_at: float | None = None


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

    @property
    def ever_fenced(self) -> bool:
        """Whether the primary was proved off at least once, however long ago: from then on it must not serve."""
        return any(record.step is Step.FENCE and record.ok for record in self.steps)

    @property
    def first_confirmed(self) -> StepRecord | None:
        """What the decision to fence rested on: the newest confirmation before the first try of it."""
        begun = next((n for n, record in enumerate(self.steps) if record.step is Step.FENCE), len(self.steps))
        return replace(self, steps=self.steps[:begun]).done(Step.CONFIRM)

    @property
    def looked_since_the_fence(self) -> StepRecord | None:
        """The newest confirmation, if it came after the newest try of the fence."""
        begun = max((n for n, record in enumerate(self.steps) if record.step is Step.FENCE), default=-1)
        return replace(self, steps=self.steps[begun + 1 :]).done(Step.CONFIRM)

    @property
    def seen_running_for(self) -> float:
        """Seconds over which every look, up to the newest, has found it running; 0 after one, or when that did not."""
        looks = [record for record in reversed(self.steps) if record.step is Step.CONFIRM and record.was_done]
        running = list(takewhile(lambda look: look.saw.power is Power.RUNNING, looks))
        return running[0].begun_at - running[-1].begun_at if running else 0.0

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


class Phase(StrEnum):
    """How far an episode is: derived from its steps and nowhere stored.

    Those that end in -ing have begun and not ended well yet, or not for good.
    """

    OPENED = "opened"
    CONFIRMING = "confirming"
    CONFIRMED = "confirmed"
    FENCING = "fencing"
    #: It was proved off before, and may be back.
    FENCING_AGAIN = "fencing again"
    FENCED = "fenced"
    RESTORING = "restoring"
    RESTORED = "restored"
    STARTING = "starting"
    STARTED = "started"
    PROBING = "probing"
    PROBED = "probed"
    SWITCHING = "switching"
    SWITCHED = "switched"
    VERIFYING = "verifying"
    VERIFIED = "verified"
    CLOSED = "closed"


def phase_of(episode: Episode) -> Phase:
    """What counts is the newest finished try of each step: what failed since is to be done again."""
    if episode.closed_at is not None:
        return Phase.CLOSED
    if not episode.tried(Step.FENCE):
        if episode.done(Step.CONFIRM) is None:
            return Phase.CONFIRMING if episode.tried(Step.CONFIRM) else Phase.OPENED
        return Phase.CONFIRMED
    if episode.done(Step.FENCE) is None:
        return Phase.FENCING_AGAIN if episode.ever_fenced else Phase.FENCING
    if episode.done(Step.START) is None:
        return _before_the_start(episode)
    if episode.done(Step.SWITCH) is not None:
        if episode.done(Step.VERIFY) is not None:
            return Phase.VERIFIED
        return Phase.VERIFYING if episode.tried(Step.VERIFY) else Phase.SWITCHED
    if episode.done(Step.PROBE) is not None:
        return Phase.SWITCHING if episode.tried(Step.SWITCH) else Phase.PROBED
    return Phase.PROBING if episode.tried(Step.PROBE) else Phase.STARTED


def _before_the_start(episode: Episode) -> Phase:
    restore = episode.newest(Step.RESTORE)
    if episode.to_restore is not None or (restore is not None and not restore.ok):
        return Phase.RESTORING
    if episode.tried(Step.START):
        return Phase.STARTING
    return Phase.FENCED if restore is None else Phase.RESTORED


_NO = frozenset({Outcome.REFUSED, Outcome.FALSE_ALARM})
_GIVEN_UP = frozenset({Outcome.GIVEN_UP})

#: What may begin in each phase, or end the episode in it. The journal writes nothing else: whatever is wrong above it,
#: no standby starts without a fence, or from half of a restore point, and no name moves to ports that nobody asked.
#: Before the fence a failover can be refused, and until it is proved withdrawn; after that, only finished, or given up
#: by the operator.
ALLOWED: Mapping[Phase, frozenset[Step | Outcome]] = {
    Phase.OPENED: _NO | {Step.CONFIRM},
    Phase.CONFIRMING: _NO | {Step.CONFIRM},
    Phase.CONFIRMED: _NO | {Step.CONFIRM, Step.FENCE},
    # Before each further try somebody looks whether it serves.
    Phase.FENCING: _GIVEN_UP | {Step.CONFIRM, Step.FENCE, Outcome.WITHDRAWN},
    Phase.FENCING_AGAIN: _GIVEN_UP | {Step.FENCE},
    # What was fenced long ago is fenced again.
    Phase.FENCED: _GIVEN_UP | {Step.FENCE, Step.START},
    Phase.RESTORING: _GIVEN_UP | {Step.FENCE, Step.RESTORE},
    Phase.RESTORED: _GIVEN_UP | {Step.FENCE, Step.START},
    Phase.STARTING: _GIVEN_UP | {Step.FENCE, Step.START},
    Phase.STARTED: _GIVEN_UP | {Step.PROBE},
    Phase.PROBING: _GIVEN_UP | {Step.PROBE},
    # Done without a switch: where no DNS name follows the service.
    Phase.PROBED: _GIVEN_UP | {Step.PROBE, Step.SWITCH, Outcome.DONE},
    Phase.SWITCHING: _GIVEN_UP | {Step.PROBE, Step.SWITCH, Outcome.DONE},
    Phase.SWITCHED: _GIVEN_UP | {Step.VERIFY},
    Phase.VERIFYING: _GIVEN_UP | {Step.VERIFY},
    Phase.VERIFIED: _GIVEN_UP | {Outcome.DONE},
    Phase.CLOSED: frozenset(),
}


@dataclass(frozen=True)
class Suspension:
    """The operator's word that automatic failover of this service stops for a while."""

    since: float
    until: float | None
    reason: str

    def holds(self, now: float) -> bool:
        return self.until is None or now < self.until


@dataclass(frozen=True)
class ServiceState:
    """What the journal knows of a service.

    `failed_over_at` is the end of its newest failover that was done, `withdrawn_at` of the newest that was withdrawn.
    `seen` is what a hypervisor said last of its primary.
    """

    service: str
    epoch: int = 0
    side: Side = Side.PRIMARY
    seen_running_at: float | None = None
    suspension: Suspension | None = None
    open_episode: Episode | None = None
    failed_over_at: float | None = None
    acknowledged_at: float | None = None
    withdrawn_at: float | None = None
    seen: Sighting | None = None

    def may_be_our_doing(self, reason: str, now: float) -> bool:
        """Whether an end for libvirt's `reason` may be the fence of a failover that was withdrawn, acting late."""
        if reason not in ENDED_BY_A_FENCE or self.withdrawn_at is None:
            return False
        return 0 <= now - self.withdrawn_at < FENCE_ACTS_WITHIN

    def suspension_at(self, now: float) -> Suspension | None:
        """The suspension that holds at that time."""
        return self.suspension if self.suspension is not None and self.suspension.holds(now) else None

    def cools_until(self, cool_down: float) -> float | None:
        """Until when no failover of it begins by itself; None when its newest one was acknowledged, or there is none.

        The time may be over already. `cool_down` in seconds.
        """
        if self.failed_over_at is None:
            return None
        if self.acknowledged_at is not None and self.acknowledged_at >= self.failed_over_at:
            return None
        return self.failed_over_at + cool_down

    def cools(self, cool_down: float, now: float) -> bool:
        until = self.cools_until(cool_down)
        return until is not None and now < until


@dataclass(frozen=True)
class Policy:
    """The part of the plan that decisions depend on. Seconds."""

    max_staleness: float = 900.0
    confirmation_valid_for: float = 15.0
    #: After that a standby that could not be started since is not started without another fence.
    fence_valid_for: float = 60.0
    probe_valid_for: float = 15.0
    has_dns: bool = True
    cpu_high: float = 95.0
    cpu_high_for: float = 60.0
    cpu_zero_for: float = 60.0
    host_silent_for: float = 15.0
    cool_down: float = 3600.0
    stalled_for: float = 30.0

    def noticed_after(self, symptom: Symptom) -> float:
        """For how long a failure lasts before such a doubt arises: so long before, it still worked."""
        after = {
            Symptom.CPU_ZERO: self.cpu_zero_for,
            Symptom.CPU_HIGH: self.cpu_high_for,
            Symptom.HOST: self.host_silent_for,
        }
        return after.get(symptom, 0.0)
