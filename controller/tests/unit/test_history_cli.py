"""`history` and `explain` as an operator has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from warm_program import vcrecovery

from vcrecovery.errors import ExitCode
from vcrecovery.store.journal import Journal
from vcrecovery.store.outages import OutageBook

#: Before the failover of the fixture.
BEFORE = 1_780_000_000.0


def test_explain(failed_over: Path) -> None:
    by_number = vcrecovery("explain", "1", "--plan", failed_over)
    assert by_number.returncode == 0
    for word in ("last", "web", "#1"):
        assert vcrecovery("explain", word, "--plan", failed_over).stdout == by_number.stdout
    for part in (
        "web, epoch 1, episode 1: done after 2.435 s",
        "every port answers: switching DNS",
        "1.300 s (the biggest part)  ports open: 10.20.0.10:80",
        "ports that answer  none",
        "where the 2.435 s went",
    ):
        assert part in by_number.stdout
    data = json.loads(vcrecovery("explain", "--json", "--plan", failed_over).stdout)
    assert data["steps"][1]["sentence"].startswith("failure confirmed (hv1: shutoff (crashed)")
    assert data["shares"][0]["name"] == "probe"


def test_explain_says_what_an_open_failover_waits_for(stopped: Path) -> None:
    said = vcrecovery("explain", "--plan", stopped).stdout
    assert "not finished after" in said
    assert "waits for a controller: the last one ended in step start" in said
    assert "step fence: the primary was fenced a while ago, and may be back: fencing it again" in said
    assert "`vcrecovery failover web` continues" in said
    data = json.loads(vcrecovery("explain", "--json", "--plan", stopped).stdout)
    assert data["waits_for"]
    assert data["to_do"]
    check = vcrecovery("status", "--check", "--plan", stopped)
    assert "epoch 1 is not finished" in check.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["explain", "7"], "no episode 7 (the newest is 1)"),
        (["explain", "wbe"], "did you mean web?"),
        (["explain", "99999999999999999999999"], "has no service"),
        (["explain", "\x1b[2J"], "has no service '\\x1b[2J'"),
        (["history", "--since", "soon"], "'soon' is no time; write 2h"),
        (["completion", "tcsh"], "bash"),
    ],
)
def test_errors(failed_over: Path, words: list[str], said: str) -> None:
    plan = [] if words[0] == "completion" else ["--plan", str(failed_over)]
    done = vcrecovery(*words, *plan)
    assert done.returncode == ExitCode.USAGE
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr


def test_explain_without_any_failover(local_plan: Path) -> None:
    assert vcrecovery("explain", "--plan", local_plan).stdout == "no failover yet\n"


def test_a_service_that_has_left_the_plan_can_still_be_explained(failed_over: Path) -> None:
    failed_over.write_text(failed_over.read_text().replace("  web:\n", "  shop:\n"))
    assert "web, epoch 1" in vcrecovery("explain", "web", "--plan", failed_over).stdout


def test_history_since(failed_over: Path) -> None:
    def episodes(*words: str) -> list[int]:
        said = vcrecovery("history", "--json", *words, "--plan", failed_over).stdout
        return [episode["episode"] for episode in json.loads(said)["episodes"]]

    assert episodes() == episodes("--since", "2026-09-20") == episodes("web", "--limit", "1") == [1]
    assert episodes("--since", "2026-09-23T00:00+00:00") == []
    said = vcrecovery("history", "--since", "1s", "--plan", failed_over).stdout
    assert said == "no failover since 1s\n"
    assert "episode 1" in vcrecovery("history", "--plan", failed_over).stdout


def test_outages_stand_between_failovers(failed_over: Path) -> None:
    book = OutageBook(Journal(failed_over.parent / "state/journal.db"))
    book.write({"web": (BEFORE, "10.10.0.10:80: connection refused")}, {})
    book.write({}, {"web": BEFORE + 310})
    book.write({"web": (BEFORE + 1.2e7, "evil\x1b[2J")}, {})
    said = vcrecovery("history", "--plan", failed_over).stdout
    first, *rest = [line for line in said.splitlines() if line.startswith("web")]
    assert first.startswith("web: down from 20")
    assert first.endswith(", 5 min 10 s: 10.10.0.10:80: connection refused")
    assert rest[0].startswith("web  epoch 1")
    assert " so far: evil\\x1b[2J" in rest[1]
    found = json.loads(vcrecovery("history", "--json", "--plan", failed_over).stdout)["outages"]
    assert [(outage["service"], outage["began_at"], outage["ended_at"]) for outage in found] == [
        ("web", BEFORE, BEFORE + 310),
        ("web", BEFORE + 1.2e7, None),
    ]
