"""From readings of a VM's CPU time to a suspicion: it hangs, or has too much to do. Pure.

Times in seconds, CPU time in nanoseconds over all vCPUs, utilisation in per cent of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from vcrecovery.core.episode import Symptom
from vcrecovery.plan.monitoring import Detection

#: Two readings further apart than this say nothing of what was between them.
GAP = 20.0


@dataclass(frozen=True)
class CpuSample:
    """What a hypervisor said at `at`."""

    at: float
    used: int
    vcpus: int


@dataclass(frozen=True)
class SeenSymptom:
    """A doubt, and what was seen. `answering`: the ports that answer all the same; None when nobody has asked yet."""

    symptom: Symptom
    sentence: str
    answering: tuple[str, ...] | None = None


def utilisation(before: CpuSample, after: CpuSample) -> float | None:
    """Per cent between two readings; None when they do not belong together (a restart, a clock that was set)."""
    seconds = after.at - before.at
    if seconds <= 0 or after.used < before.used or after.vcpus != before.vcpus or not after.vcpus:
        return None
    return min(100.0, (after.used - before.used) / 1e7 / seconds / after.vcpus)


def with_sample(samples: tuple[CpuSample, ...], new: CpuSample, keep: float) -> tuple[CpuSample, ...]:
    """The history with one more reading; what is not needed to look back `keep` seconds is dropped."""
    if samples and (new.at - samples[-1].at > GAP or utilisation(samples[-1], new) is None):
        return (new,)
    # One reading at or before the beginning of the window stays: from there the window is covered.
    beyond = [index for index, sample in enumerate(samples) if new.at - sample.at >= keep]
    return (*samples[beyond[-1] if beyond else 0 :], new)


def symptom_in(samples: tuple[CpuSample, ...], detection: Detection) -> SeenSymptom | None:
    """What the history up to its newest reading makes likely."""
    # The sentences name the thresholds, not how long it really was: each is said once, for as long as it holds.
    if _lasts(samples, 0.0, 0.0) >= detection.cpu_zero_for:
        return SeenSymptom(Symptom.CPU_ZERO, f"has used no CPU for {detection.cpu_zero_for:g} s")
    if _lasts(samples, detection.cpu_high, 100.0) >= detection.cpu_high_for:
        return SeenSymptom(
            Symptom.CPU_HIGH, f"has used {detection.cpu_high:g} % or more of its CPUs for {detection.cpu_high_for:g} s"
        )
    return None


def _lasts(samples: tuple[CpuSample, ...], low: float, high: float) -> float:
    """For how many seconds, up to the newest reading, each has been between the two."""
    lasted = 0.0
    for before, after in zip(reversed(samples[:-1]), reversed(samples), strict=False):
        used = utilisation(before, after)
        if used is None or not low <= used <= high:
            break
        lasted = samples[-1].at - before.at
    return lasted
