"""The cool-down and its acknowledgement, whatever the clock does between them."""

from __future__ import annotations

from pathlib import Path

import pytest
from journal_cases import finish

from vcrecovery.core.episode import Request
from vcrecovery.store.journal import Journal

COOL_DOWN = 100.0
#: The clock is right, set back by an hour, or set forward by one.
JUMPS = [0.0, -3600.0, 3600.0]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.db")


def fail_over(journal: Journal, at: float) -> None:
    finish(journal, journal.open("web", "a test", Request(), at), at)


@pytest.mark.parametrize("jump", JUMPS)
def test_an_acknowledgement_ends_the_cool_down(journal: Journal, jump: float) -> None:
    fail_over(journal, 5000.0)
    now = 5001.0 + jump
    journal.acknowledge("web", now)
    assert not journal.state("web").cools(COOL_DOWN, now)


@pytest.mark.parametrize("jump", JUMPS)
def test_an_acknowledgement_is_for_the_failovers_before_it(journal: Journal, jump: float) -> None:
    fail_over(journal, 5000.0)
    journal.acknowledge("web", 5001.0)
    now = 5002.0 + jump
    fail_over(journal, now)
    assert journal.state("web").cools(COOL_DOWN, now + 1)
    assert journal.state("web").cools(COOL_DOWN, now + COOL_DOWN - 1)
    assert not journal.state("web").cools(COOL_DOWN, now + COOL_DOWN)


def test_an_acknowledgement_without_a_failover_counts_for_none_of_later(journal: Journal) -> None:
    journal.acknowledge("web", 5000.0)
    fail_over(journal, 1400.0)
    assert journal.state("web").cools(COOL_DOWN, 1401.0)
