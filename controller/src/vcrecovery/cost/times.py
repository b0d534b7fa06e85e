"""How long a service takes to come back, and how much it loses: what its own drills and failovers took. Pure.

What was never measured here is taken from measurements elsewhere, and says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from vcrecovery.core.drill import Drill
from vcrecovery.core.episode import Episode, Outcome, Step
from vcrecovery.core.evidence import Confirmation, Started
from vcrecovery.plan.model import Service
from vcrecovery.plan.modes import Mode

#: Seconds, on two emulated cores: docs/standby-modes.md. From the failure to its fence; from the start to open ports;
#: from there to DNS.
BEFORE, AFTER = 2.5, 0.2
UP: Mapping[Mode, float] = {Mode.COLD: 5.0, Mode.WARM: 1.0, Mode.FROZEN: 0.3, Mode.HOT: 0.3}
#: How a standby waited, by LXD's word, and the mode in which it does.
_MODE_OF = {"Stopped": Mode.COLD, "Frozen": Mode.FROZEN, "Running": Mode.HOT}


@dataclass(frozen=True)
class Measured:
    """Seconds. `samples`: how often it was measured here; 0 for one that is taken from elsewhere."""

    seconds: float
    samples: int = 0
    least: float = 0.0
    most: float = 0.0

    @property
    def spread(self) -> str:
        if not self.samples:
            return "not measured"
        of = f"{self.samples} time{'s' if self.samples > 1 else ''}"
        return f"{of}, {self.least:.1f} to {self.most:.1f} s" if self.samples > 1 else of


@dataclass(frozen=True)
class Times:
    """`up`: from the start to open ports, by mode. `lost`: the age of the standby's files when the failure began."""

    before: Measured
    up: Mapping[Mode, Measured]
    after: Measured
    lost: Measured

    def alone(self, mode: Mode) -> float:
        """Seconds without service, when no other service starts at the same time."""
        return self.before.seconds + self.up[mode].seconds + self.after.seconds


def times_of(service: Service, episodes: Iterable[Episode], drills: Iterable[Drill]) -> Times:
    """Of failovers that came to their end; of drills how long a boot takes."""
    found = [e for e in episodes if e.outcome is Outcome.DONE and not (e.request.back or e.request.planned)]
    up: dict[Mode, list[float]] = {mode: [] for mode in Mode}
    up[Mode.COLD] += [drill.recovery for drill in drills if drill.recovery is not None]
    before: list[float] = []
    after: list[float] = []
    lost: list[float] = []
    for episode in found:
        if not episode.request.again and (fenced := _ended(episode, Step.FENCE)) is not None:
            before.append(fenced - (episode.request.began_at or episode.opened_at))
        started, probe = episode.newest(Step.START), episode.ports_opened
        probed = probe.ended_at if probe is not None else None
        if started is not None and probed is not None and isinstance(started.evidence, Started):
            mode = _MODE_OF.get(started.evidence.waited)
            # One that runs may also be warm: its units start with it.
            if mode is Mode.HOT and service.mode is Mode.WARM:
                mode = Mode.WARM
            if mode is not None and not episode.request.again:
                up[mode].append(probed - started.begun_at)
        switched = _ended(episode, Step.VERIFY)
        if switched is not None and probed is not None:
            after.append(switched - probed)
        saw = episode.first_confirmed
        if saw is not None and isinstance(saw.evidence, Confirmation) and saw.evidence.freshness is not None:
            lost.append(saw.evidence.freshness)
    return Times(
        _of(before, BEFORE),
        {mode: _of(samples, UP[mode]) for mode, samples in up.items()},
        _of(after, AFTER if service.dns or service.virtual_ip else 0.0),
        _of(lost, expected_loss(service)),
    )


def expected_loss(service: Service) -> float:
    """By the plan: what is gathered before it is sent, and how often the primary says that all has arrived."""
    sync = service.sync
    return sync.reconcile if sync.engine == "periodic" else sync.delay + sync.heartbeat


def _ended(episode: Episode, step: Step) -> float | None:
    record = episode.done(step)
    return record.ended_at if record is not None else None


def _of(samples: Sequence[float], else_: float) -> Measured:
    # Below zero where a clock was set back.
    good = sorted(sample for sample in samples if sample >= 0)
    return Measured(median(good), len(good), good[0], good[-1]) if good else Measured(else_)
