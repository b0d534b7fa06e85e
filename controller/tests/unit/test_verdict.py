"""What counts as a failure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vcrecovery.detect.verdict import Kind, judge
from vcrecovery.recover.states import Pause, Power, ServiceState, Side

SEEN = ServiceState("web", seen_running_at=1.0)
NOW = 100.0


@pytest.mark.parametrize(
    ("power", "reason", "kind"),
    [
        (Power.RUNNING, "", Kind.HEALTHY),
        (Power.PAUSED, "", Kind.HEALTHY),
        (Power.SHUTOFF, "crashed", Kind.FAILED),
        (Power.SHUTOFF, "failed", Kind.FAILED),
        (Power.SHUTOFF, "daemon", Kind.FAILED),
        (Power.CRASHED, "", Kind.FAILED),
        (Power.ABSENT, "failed", Kind.FAILED),
        (Power.SHUTOFF, "destroyed", Kind.INTENDED),
        (Power.SHUTOFF, "shutdown", Kind.INTENDED),
        (Power.SHUTOFF, "migrated", Kind.INTENDED),
        (Power.SHUTOFF, "saved", Kind.INTENDED),
        (Power.SHUTOFF, "", Kind.INTENDED),
        (Power.ABSENT, "", Kind.UNKNOWN),
        (Power.UNREACHABLE, "", Kind.UNKNOWN),
    ],
)
def test_libvirts_word_decides(power: Power, reason: str, kind: Kind) -> None:
    assert judge(SEEN, power, reason, NOW).kind is kind


def test_a_pause_covers_a_crash_and_ends() -> None:
    paused = replace(SEEN, pause=Pause(since=50.0, until=150.0, reason="work"))
    assert judge(paused, Power.SHUTOFF, "crashed", NOW).kind is Kind.PAUSED
    assert judge(paused, Power.SHUTOFF, "crashed", 150.0).kind is Kind.FAILED
    forever = replace(SEEN, pause=Pause(since=50.0, until=None, reason="work"))
    assert judge(forever, Power.SHUTOFF, "crashed", 1e9).kind is Kind.PAUSED


def test_a_primary_that_was_never_seen_running_has_not_failed() -> None:
    assert judge(ServiceState("web"), Power.SHUTOFF, "crashed", NOW).kind is Kind.UNKNOWN


def test_after_a_failover_a_primary_that_runs_again_is_reported() -> None:
    moved = replace(SEEN, side=Side.STANDBY)
    assert judge(moved, Power.SHUTOFF, "crashed", NOW).kind is Kind.FAILED_OVER
    assert judge(moved, Power.RUNNING, "", NOW).kind is Kind.STALE_PRIMARY
