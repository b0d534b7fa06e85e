"""`vcrecovery report` as an operator has it: from a journal to three files."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import pytest
from journal_cases import finish
from warm_program import vcrecovery

from vcrecovery.core.ages import of_ages
from vcrecovery.core.drill import DrillOutcome
from vcrecovery.core.episode import Request
from vcrecovery.errors import ExitCode
from vcrecovery.plan.load import load_plan
from vcrecovery.report.periodic import charts
from vcrecovery.store.drills import DrillBook
from vcrecovery.store.freshness_book import NAME, FreshnessBook, hour_of
from vcrecovery.store.journal import Journal
from vcrecovery.store.outages import OutageBook


def journal_of(plan: Path) -> Journal:
    return Journal(load_plan(plan).state_dir / "journal.db")


def report(plan: Path, *words: str) -> str:
    done = vcrecovery("report", "--within", "0.2", *words, "--plan", plan)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_journal_with_a_bit_of_everything(local_plan: Path, tmp_path: Path) -> None:
    now, state = time.time(), load_plan(local_plan).state_dir
    journal = journal_of(local_plan)
    finish(
        journal, journal.open("web", "libvirt: shutoff (crashed)", Request(began_at=now - 3700), now - 3600), now - 3500
    )
    journal.open("gone", "it was asked for", Request(), now - 400 * 86400)
    OutageBook(journal).write({"web": (now - 40 * 86400, "refused")}, {})
    FreshnessBook(state).add({("web", hour_of(now)): of_ages([2.0, 3.0])}, now)
    local_plan.write_text(
        local_plan.read_text().replace("max_staleness: 2m", "max_staleness: 2m\n    targets: {rto: 60s}")
    )
    text = report(local_plan)
    assert re.search(r"\| web +\| failover 1 +\| done +\| 3 min 20 s \(ports open\), MISSED 60 s", text)
    # One that began before the period, of a service that has left the plan, and never ended.
    assert re.search(r"\| gone +\| failover 2 +\| not finished +\| 400 d \(so far\)", text)
    # Its outage counts in the period only.
    assert re.search(r"\| web +\| +1 \| +30 d \| +0.000 % \| yes", text)
    assert re.search(r"\| web +\| +2\.\d s \|", text)
    found = json.loads(report(local_plan, "--json"))
    assert found["freshness"]["web"]["most"] == 3.0
    assert [one["number"] for one in found["operations"]] == [1, 2]
    kept = tmp_path / "kept"
    said = report(local_plan, "--since", "2d", "--output", str(kept)).split()
    assert [Path(file).suffix for file in said] == [".html", ".md", ".json"]
    assert "MISSED" in Path(said[0]).read_text()
    assert ("<svg" in Path(said[0]).read_text()) is charts.is_available()


def test_without_matplotlib_there_are_tables(local_plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vcrecovery.cli import reports

    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_svg", None)
    assert not charts.is_available()
    reports.make(local_plan, "30d", tmp_path / "kept", 0.2, as_json=False)
    text = next((tmp_path / "kept").glob("*.html")).read_text()
    assert "<svg" not in text
    assert "pip install 'vcrecovery[report]'" in text


def test_freshness_that_cannot_be_read_is_a_sentence(local_plan: Path) -> None:
    state = load_plan(local_plan).state_dir
    state.mkdir(exist_ok=True)
    (state / NAME).write_bytes(b"no database" * 1000)
    assert "Not known: " in report(local_plan)


def test_costs_that_cannot_be_reckoned_are_a_sentence(local_plan: Path) -> None:
    local_plan.write_text(f"{local_plan.read_text()}costs: {{prices: [{{file: /nowhere/prices.yml}}]}}\n")
    assert "The cost cannot be reckoned: " in report(local_plan)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--since", "soon"], "is no time"),
        (["--since", "2999-01-01"], "is in the future"),
        (["--scheduled"], "has no `report`"),
        (["--scheduled", "--since", "2d"], "--scheduled goes with none"),
        (["--output", "x", "--json"], "--output writes JSON too"),
    ],
)
def test_words_that_are_wrong(local_plan: Path, words: list[str], said: str) -> None:
    done = vcrecovery("report", *words, "--plan", local_plan)
    assert done.returncode == ExitCode.USAGE
    assert said in done.stderr


def test_a_place_that_cannot_be_written(local_plan: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = vcrecovery("report", "--within", "0.2", "--output", tmp_path / "file/below", "--plan", local_plan)
    assert done.returncode == ExitCode.EXTERNAL
    assert "cannot be written" in done.stderr


def made(plan: Path, since: str) -> str:
    """The report as data."""
    from vcrecovery.cli import reports

    kept = plan.parent / "kept"
    reports.make(plan, since, kept, 0.2, as_json=False)
    return next(kept.glob("*.json")).read_text()


def test_of_too_many_operations_the_newest_are_read(local_plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vcrecovery.report.periodic import gather

    now, journal = time.time(), journal_of(local_plan)
    for n in range(9):
        finish(journal, journal.open("web", "x", Request(), now - 100 + n), now - 50)
    monkeypatch.setattr(gather, "MOST", 5)
    found = json.loads(made(local_plan, "1d"))
    assert [one["number"] for one in found["operations"]] == [5, 6, 7, 8, 9]
    assert found["operations_left_out"] == 4


def test_a_service_that_flaps_hides_no_outage_of_another(local_plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vcrecovery.report.periodic import gather

    now, book = time.time(), OutageBook(journal_of(local_plan))
    book.write({"web": (now - 5 * 86400, "refused")}, {})
    book.write({}, {"web": now - 2 * 86400})
    for n in range(9):
        book.write({"other": (now - 1000 + 100 * n, "refused")}, {})
        book.write({}, {"other": now - 1000 + 100 * n + 10})
    monkeypatch.setattr(gather, "MOST", 5)
    assert json.loads(made(local_plan, "10d"))["availability"]["web"]["seconds"] == pytest.approx(3 * 86400)


def test_of_too_many_drills_the_newest_are_read(local_plan: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vcrecovery.report.periodic import gather

    now, book = time.time(), DrillBook(journal_of(local_plan))
    for n in range(9):
        service = "web" if n < 2 else "other"
        book.end(book.begin([service], now - 100 + n, "timer")[service], DrillOutcome.FAILED, "x", now - 50)
    monkeypatch.setattr(gather, "MOST", 5)
    found = json.loads(made(local_plan, "1d"))
    assert [one["number"] for one in found["drills"]] == [5, 6, 7, 8, 9]
    assert found["drills_left_out"] == 4
    text = next((local_plan.parent / "kept").glob("*.md")).read_text()
    assert "9 drills, the newest 5 of them listed" in text
    assert "There were 4 more drills: only the newest 5 are listed." in text
    assert "Without a drill" not in text
    assert "not passed" not in text
