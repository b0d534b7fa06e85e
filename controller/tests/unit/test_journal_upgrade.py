"""A journal of the version before sentences were kept."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from journal_cases import finish

from vcrecovery.core.episode import Outcome, Request, Step
from vcrecovery.core.policy import Policy
from vcrecovery.report import explain
from vcrecovery.store.connection import Connection
from vcrecovery.store.drills import DrillBook
from vcrecovery.store.journal import Journal
from vcrecovery.store.leases import LeaseBook
from vcrecovery.store.quarantines import QuarantineBook
from vcrecovery.store.schema import LEASE_SCHEMA

#: As version 0.1.0 made it.
OLD = """
CREATE TABLE service (
    name TEXT PRIMARY KEY, epoch INTEGER NOT NULL DEFAULT 0, side TEXT NOT NULL DEFAULT 'primary',
    seen_running_at REAL, paused_since REAL, paused_until REAL, pause_reason TEXT
) STRICT;
CREATE TABLE episode (
    id INTEGER PRIMARY KEY AUTOINCREMENT, service TEXT NOT NULL, epoch INTEGER NOT NULL,
    cause TEXT NOT NULL, request TEXT NOT NULL, opened_at REAL NOT NULL,
    closed_at REAL, outcome TEXT, reason TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE step (
    id INTEGER PRIMARY KEY AUTOINCREMENT, episode INTEGER NOT NULL REFERENCES episode (id),
    service TEXT NOT NULL, epoch INTEGER NOT NULL, step TEXT NOT NULL,
    begun_at REAL NOT NULL, ended_at REAL, ok INTEGER, evidence TEXT NOT NULL DEFAULT '{}'
) STRICT;
INSERT INTO service (name, epoch, side) VALUES ('web', 1, 'standby');
INSERT INTO episode VALUES
    (1, 'web', 1, 'libvirt: crashed', '{"automatic": true, "by": "watch"}', 10.0, NULL, NULL, '');
INSERT INTO step VALUES (1, 1, 'web', 1, 'confirm', 10.0, 10.5, 1, '{"summary": "shutoff"}');
INSERT INTO step VALUES (2, 1, 'web', 1, 'fence', 10.5, NULL, NULL, '{}');
"""


def old_journal(folder: Path) -> Path:
    path = folder / "journal.db"
    database = sqlite3.connect(path)
    database.executescript(OLD)
    database.close()
    return path


def test_an_old_journal_is_taken_over(tmp_path: Path) -> None:
    path = old_journal(tmp_path)
    journal = Journal(path)
    (episode,) = journal.history("web")
    assert [record.sentence for record in episode.steps] == ["", ""]
    assert any("did not write it down" in line for line in explain.lines(episode, Policy(), 20.0))
    journal.begin(episode, Step.FENCE, 12.0, "because")
    (again,) = Journal(path).history("web")
    assert [record.sentence for record in again.steps] == ["", "", "because"]


def test_an_old_journal_learns_what_starts_with_its_host(tmp_path: Path) -> None:
    journal = Journal(old_journal(tmp_path))
    assert not journal.started_with_its_host("web")
    journal.note_that_it_started_with_its_host("web")
    assert journal.started_with_its_host("web")
    assert not journal.started_with_its_host("mail")


def test_the_version_before_can_still_write(tmp_path: Path) -> None:
    """Two versions may be at work for a moment, while one replaces the other."""
    path = old_journal(tmp_path)
    before = sqlite3.connect(path, isolation_level=None)
    Journal(path)
    before.execute("INSERT INTO step (episode, service, epoch, step, begun_at) VALUES (1, 'web', 1, 'start', 13.0)")
    before.close()
    assert Journal(path).history("web")[0].steps[-1].step is Step.START


def test_the_version_before_reads_what_an_operator_asked_for(tmp_path: Path) -> None:
    """It knows no other words, and one that it does not know ends its `history` and its `status`."""
    path = old_journal(tmp_path)
    Journal(path).open("mail", "asked for", Request(force=True), 20.0)
    with closing(sqlite3.connect(path)) as database:
        (said,) = database.execute("SELECT request FROM episode WHERE service = 'mail'").fetchone()
    assert set(json.loads(said)) <= {"automatic", "force", "primary_is_down", "by", "restore_point", "doubt"}


@pytest.mark.parametrize("is_new", [False, True], ids=("an old one", "a new one"))
def test_many_controllers_take_it_over_at_once(tmp_path: Path, is_new: bool) -> None:
    """Whoever comes second waits, also where SQLite itself does not: one of twelve rounds failed at once."""
    errors: list[Exception] = []
    for number in range(40):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = folder / "journal.db" if is_new else old_journal(folder)
        barrier = threading.Barrier(8)

        def take(path: Path = path, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            try:
                assert len(Journal(path).history("web")) == (0 if is_new else 1)
            except Exception as error:  # noqa: BLE001  any is a failure of this test
                errors.append(error)

        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert errors == []


def test_what_the_views_ask_the_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    for number, (service, outcome) in enumerate(
        [("web", Outcome.DONE), ("web", Outcome.REFUSED), ("db", Outcome.DONE), ("web", Outcome.REFUSED)]
    ):
        episode, at = journal.open(service, "c", Request(), 100.0 * number), 100.0 * number + 5
        if outcome is Outcome.DONE:
            finish(journal, episode, at, "r")
        else:
            journal.close(episode, outcome, "r", at)
    assert journal.outcomes() == {("web", Outcome.DONE): 1, ("web", Outcome.REFUSED): 2, ("db", Outcome.DONE): 1}
    assert [episode.id for episode in journal.history(since=100.0)] == [4, 3, 2]
    assert [episode.id for episode in journal.history("web", since=100.0, limit=1)] == [4]
    newest = journal.newest_done("web")
    assert newest is not None
    assert newest.id == 1
    assert journal.newest_done("mail") is None


HOLDS = """
CREATE TABLE hold (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    service TEXT NOT NULL, epoch INTEGER NOT NULL, uuid TEXT NOT NULL,
    found_at REAL NOT NULL, held_at REAL, released_at REAL, released TEXT
) STRICT;
CREATE UNIQUE INDEX one_open_hold ON hold (service) WHERE released_at IS NULL;
INSERT INTO hold VALUES (1, 'web', 1, 'its uuid', 5.0, 6.0, NULL, NULL);
"""


def test_what_is_held_stays_so_and_another_hypervisor_may_hold_it_too(tmp_path: Path) -> None:
    path = old_journal(tmp_path)
    with sqlite3.connect(path, factory=Connection) as database:
        database.executescript(HOLDS)
    database.close()
    book = QuarantineBook(Journal(path))
    held = book.open("web", ["hv1", ""])
    assert held is not None
    assert (held.id, held.held_at, held.host) == (1, 6.0, "")
    # The same one where the plan has it, a new one elsewhere.
    assert book.begin("web", 1, "its uuid", 7.0, ["hv1", ""]) == 1
    assert book.begin("web", 1, "its uuid", 7.0, ["hv2"]) == 2
    assert book.begin("web", 1, "its uuid", 8.0, ["hv2"]) == 2
    assert [hold.host for hold in book.all_open("web")] == ["hv2", ""]
    assert book.open("web", ["hv3"]) is None


def test_an_old_journal_gets_its_table_of_drills(tmp_path: Path) -> None:
    path = old_journal(tmp_path)
    book = DrillBook(Journal(path))
    assert book.all() == {}
    book.begin(["web"], 5.0, "root")
    assert [drill.service for drill in DrillBook(Journal(path)).history()] == ["web"]
    # Its failovers are untouched, and none of them is a drill.
    assert len(Journal(path).history()) == 1


def test_a_machine_of_before_has_the_options_of_the_plan(tmp_path: Path) -> None:
    path = old_journal(tmp_path)
    column = ", options TEXT NOT NULL DEFAULT 'null'"
    assert column in LEASE_SCHEMA
    with sqlite3.connect(path, factory=Connection) as database:
        database.executescript(LEASE_SCHEMA.replace(column, ""))
        database.execute(
            "INSERT INTO lease (token, state, why, network, asked_at) VALUES ('a', 'joined', 'x', '10.30.1.1/24', 5.0)"
        )
    database.close()
    book = LeaseBook(Journal(path))
    (before,) = book.open()
    assert (before.token, before.options) == ("a", None)
    asked = book.ask("b", "x", "10.30.2.1/24", {}, 6.0, 2, {"region": "eu-1"})
    assert asked is not None
    assert asked.options == {"region": "eu-1"}
