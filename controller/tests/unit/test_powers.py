"""What Zabbix is told of secondaries that are not always there, by the controller's books."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from vcrecovery.core.lease import LeaseState
from vcrecovery.cost.month import month_of
from vcrecovery.detect.zabbix_health import SeenPower
from vcrecovery.report import powers
from vcrecovery.store.journal import Journal
from vcrecovery.store.leases import LeaseBook
from vcrecovery.store.powered import PoweredBook

NOW = 1_795_700_000.0
BEGUN = month_of(None, NOW).begin


class Clock:
    def now(self) -> float:
        return NOW


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(powers, "on_demand_secondaries", lambda _env: ["sec1", "sec2"])
    return SimpleNamespace(clock=Clock(), journal=Journal(tmp_path / "journal.db"))


def told(env: Any) -> dict[str, SeenPower]:
    return dict(powers.powers(cast(Any, env)))


def test_one_on_demand(env: Any) -> None:
    book = PoweredBook(env.journal)
    # From before the month on.
    book.is_on("sec1", BEGUN - 1000, "web")
    book.is_off("sec1", BEGUN + 600)
    book.is_on("sec1", NOW - 60, "web")
    assert told(env) == {"sec1": SeenPower(powers.ON, 660.0), "sec2": SeenPower(powers.OFF, 0.0)}


def test_one_that_is_made_for_a_while(env: Any) -> None:
    book = LeaseBook(env.journal)
    lease = book.ask("t", "too much", "10.30.1.1/24", {}, NOW - 100, 2)
    assert lease is not None

    def said() -> SeenPower:
        return told(env)["elastic-1"]

    assert said() == SeenPower(powers.BEING_MADE, 0.0)
    lease = book.change(lease, LeaseState.MADE, made_at=NOW - 90)
    assert said() == SeenPower(powers.BEING_MADE, 90.0)
    lease = book.change(lease, LeaseState.JOINED, joined_at=NOW - 80)
    assert said() == SeenPower(powers.ON, 90.0)
    lease = book.change(lease, LeaseState.RELEASING, releasing_at=NOW - 10)
    assert said() == SeenPower(powers.BEING_GIVEN_BACK, 90.0)
    book.change(lease, LeaseState.GONE, gone_at=NOW)
    assert "elastic-1" not in told(env)
