"""What a history of CPU times makes likely."""

from __future__ import annotations

import pytest

from vcrecovery.core.cpu import CpuSample, symptom_in, utilisation, with_sample
from vcrecovery.core.episode import Symptom
from vcrecovery.plan.monitoring import Detection

DETECTION = Detection(cpu_zero_for=60, cpu_high_for=60, cpu_high=95)


def history(*percents: float, vcpus: int = 2, every: float = 5.0, keep: float = 60.0) -> tuple[CpuSample, ...]:
    samples: tuple[CpuSample, ...] = (CpuSample(0.0, 0, vcpus),)
    for percent in percents:
        last = samples[-1]
        used = last.used + int(percent * 1e7 * every * vcpus)
        samples = with_sample(samples, CpuSample(last.at + every, used, vcpus), keep)
    return samples


@pytest.mark.parametrize(
    ("percents", "symptom"),
    [
        ([0.0] * 12, Symptom.CPU_ZERO),
        ([0.0] * 11, None),
        ([50.0, *[0.0] * 12], Symptom.CPU_ZERO),
        ([0.0] * 6 + [0.2] + [0.0] * 6, None),
        ([0.2] * 200, None),
        ([96.0] * 12, Symptom.CPU_HIGH),
        ([96.0] * 11, None),
        ([96.0] * 11 + [94.0] + [96.0] * 11, None),
        ([94.0] * 100, None),
    ],
)
def test_a_doubt_needs_the_whole_window(percents: list[float], symptom: Symptom | None) -> None:
    found = symptom_in(history(*percents), DETECTION)
    assert (found.symptom if found else None) is symptom


def test_a_restart_a_gap_and_other_vcpus_begin_a_new_history() -> None:
    samples = history(*[0.0] * 12)
    last = samples[-1]
    assert len(with_sample(samples, CpuSample(last.at + 5, last.used - 1, 2), 60)) == 1
    assert len(with_sample(samples, CpuSample(last.at + 20, last.used, 2), 60)) > 1
    assert len(with_sample(samples, CpuSample(last.at + 20.1, last.used, 2), 60)) == 1
    assert len(with_sample(samples, CpuSample(last.at + 5, last.used, 4), 60)) == 1
    assert len(with_sample(samples, CpuSample(last.at - 5, last.used, 2), 60)) == 1
    assert len(with_sample(samples, CpuSample(last.at, last.used, 2), 60)) == 1


def test_a_history_does_not_grow() -> None:
    assert len(history(*[1.0] * 10_000)) <= 14


def test_a_history_begins_with_the_reading_that_is_as_old_as_the_window() -> None:
    samples = history(*[1.0] * 20)
    assert samples[-1].at - samples[0].at == 60.0


def test_two_readings_say_something_and_one_says_nothing() -> None:
    at_once = Detection(cpu_zero_for=1, cpu_high_for=1)
    assert symptom_in((CpuSample(0.0, 0, 2),), at_once) is None
    assert symptom_in((CpuSample(0.0, 0, 2), CpuSample(1.0, 0, 2)), at_once) is not None


def test_one_vcpu_of_two_is_half() -> None:
    assert utilisation(CpuSample(0, 0, 2), CpuSample(1, 10**9, 2)) == 50.0
    assert utilisation(CpuSample(0, 0, 2), CpuSample(1, 10**10, 2)) == 100.0
    assert utilisation(CpuSample(0, 0, 0), CpuSample(1, 0, 0)) is None
