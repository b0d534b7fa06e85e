"""Drills: their order, when one is due, what is said of them, and what a clone keeps of its original."""

from __future__ import annotations

import logging
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from view_cases import NOW, PLAN, view

from lab.waiting import wait_for
from vcrecovery.cli.drill_timeline import SilentDrill
from vcrecovery.core.drill import (
    AGAIN_AFTER,
    MARGIN,
    Drill,
    DrillOutcome,
    DrillsOf,
    DrillStep,
    StepDone,
    clone_name,
    is_due,
    is_overdue,
    longest_waiting_first,
    overdue_sentence,
    room_problem,
    size,
    step_plan,
    with_needs,
)
from vcrecovery.core.episode import Request
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.drivers.lxd import Instance
from vcrecovery.errors import BusyError, ExternalError
from vcrecovery.operations import drill as drill_operation
from vcrecovery.operations import drill_loop
from vcrecovery.operations.drill_clones import OWNER_KEY, config_of_clone, devices_of_clone, is_ours, left_out
from vcrecovery.operations.drill_loop import command, due_now, keep_drilling
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.load import load_plan
from vcrecovery.plan.model import Plan
from vcrecovery.plan.problems import PlanError
from vcrecovery.report.drills import in_a_line, result_line, step_lines
from vcrecovery.report.findings import findings
from vcrecovery.report.status import as_data, detail
from vcrecovery.standby.container import ROLE_KEY
from vcrecovery.store.connection import Connection
from vcrecovery.store.drills import KEPT, DrillBook
from vcrecovery.store.journal import Journal
from vcrecovery.store.lock import drill_lock
from vcrecovery.transfer.tree_walk import size_of_tree

DAY = 86400.0
STEPS = (
    StepDone(DrillStep.CLONE, NOW + 1, 1.0, "container drill-web on sec1"),
    StepDone(DrillStep.START, NOW + 1.5, 0.5),
    StepDone(DrillStep.PORTS, NOW + 3, 1.5, "10.20.0.10:80"),
    StepDone(DrillStep.REMOVE, NOW + 4, 1.0),
)


def drill(days_ago: float, outcome: DrillOutcome | None = DrillOutcome.PASSED, reason: str = "") -> Drill:
    at = NOW - days_ago * DAY
    return Drill(1, "web", at - 4, "root", at if outcome else None, outcome, reason, STEPS)


def with_drill(plan_file: Path, **wanted: Any) -> Plan:
    data = load_plan(plan_file).model_dump(mode="json", by_alias=False)
    data["services"]["web"]["drill"] = wanted
    return Plan.model_validate(data)


# -- which, and when -----------------------------------------------------------------------------------------------


def test_what_a_service_needs_is_rehearsed_with_it_and_boots_first() -> None:
    needs = {"web": ["app", "db"], "app": ["db"], "db": [], "mail": []}
    assert with_needs(["web"], needs.__getitem__) == ["db", "app", "web"]
    assert set(with_needs(["mail", "app"], needs.__getitem__)) == {"mail", "db", "app"}
    assert with_needs(["db", "db"], needs.__getitem__) == ["db"]


def test_names_of_clones_are_those_that_lxd_takes() -> None:
    assert clone_name("web") == "drill-web"
    assert clone_name("a" * 57) == "drill-" + "a" * 57
    long = ["a" * 62 + end for end in "xy"]
    names = [clone_name(name) for name in long]
    assert [len(name) for name in names] == [63, 63]
    assert names[0] != names[1]


@pytest.mark.parametrize(
    ("good", "last", "due", "overdue"),
    [
        (None, None, True, True),
        (drill(1), drill(1), False, False),
        # Early enough for a good one never to be late.
        (drill(6.5), drill(6.5), True, False),
        (drill(6.3), drill(6.3), True, False),
        (drill(7), drill(7), True, False),
        (drill(7.5), drill(7.5), True, True),
        (drill(8), drill(0.01, DrillOutcome.FAILED), False, True),
        (drill(8), drill(AGAIN_AFTER / DAY, DrillOutcome.FAILED), True, True),
        (drill(8), drill(0.1, DrillOutcome.FAILED), True, True),
        (drill(8), drill(0.1, DrillOutcome.GAVE_WAY), True, True),
        (None, drill(0.01, DrillOutcome.INTERRUPTED), False, True),
        # The clock was set back since.
        (drill(-30), drill(-30), True, True),
    ],
)
def test_when_one_is_due(good: Drill | None, last: Drill | None, due: bool, overdue: bool) -> None:
    assert is_due(7 * DAY, DrillsOf(good, last), NOW) is due
    assert is_overdue(7 * DAY, good, NOW) is overdue
    assert not is_due(None, DrillsOf(good, last), NOW)
    assert not is_overdue(None, good, NOW)


def test_the_longest_wait_comes_first() -> None:
    known = {"a": DrillsOf(last=drill(2)), "b": DrillsOf(last=drill(9)), "c": DrillsOf()}
    assert longest_waiting_first(["a", "b"], known.__getitem__) == ["b", "a"]
    assert longest_waiting_first(["a", "b", "c"], known.__getitem__) == ["c", "b", "a"]


def test_the_watchers_choice(plan_file: Path) -> None:
    env = Environment(with_drill(plan_file, every="7d"))
    assert due_now(env) == ["web"]
    numbers = DrillBook(env.journal).begin(["web"], env.clock.now(), "the watcher")
    DrillBook(env.journal).end(numbers["web"], DrillOutcome.PASSED, "", env.clock.now())
    assert due_now(env) == []
    assert due_now(Environment(with_drill(plan_file))) == []


@pytest.mark.parametrize(
    ("refused", "chosen"), [((), "web"), (("web",), "mail"), (("mail",), "web"), (("web", "mail"), "web")]
)
def test_one_that_cannot_be_rehearsed_keeps_no_other_waiting(
    plan_file: Path, monkeypatch: pytest.MonkeyPatch, refused: tuple[str, ...], chosen: str
) -> None:
    env = Environment(with_drill(plan_file, every="7d"))
    env.plan.services["mail"] = env.plan.services["web"].model_copy(update={"needs": ()})
    book, then = DrillBook(env.journal), env.clock.now() - 30 * DAY
    book.end(book.begin(["mail"], then, "the watcher")["mail"], DrillOutcome.PASSED, "", then)
    monkeypatch.setattr(drill_loop, "objections", lambda _env, names: [name for name in names if name in refused])
    assert due_now(env) == [chosen]


def test_who_carries_it_out() -> None:
    assert command(Path("/etc/plan.yml"), "vcrecovery-drill.service")[-1] == "vcrecovery-drill.service"
    assert command(Path("/etc/plan.yml"), None)[1:] == ["-m", "vcrecovery", "drill", "--due", "--plan", "/etc/plan.yml"]


def test_the_watcher_says_once_why_none_is_done(
    plan_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It goes on trying, and what one that is killed has left comes first."""
    left = ["drill-web"]
    monkeypatch.setattr(drill_loop, "left_over", lambda env: [(env.lxd["sec1"], name) for name in left])
    calls, stop = tmp_path / "calls", threading.Event()
    script = f"echo called >> {calls}; echo 'vcrecovery: error: no drill: web: too old' >&2; exit 3"
    env = Environment(with_drill(plan_file, every="20ms"))
    with caplog.at_level(logging.INFO, "vcrecovery.watch"):
        loop = threading.Thread(target=keep_drilling, args=(env, ["sh", "-c", script], stop))
        loop.start()

        def called(times: int) -> bool:
            return calls.exists() and len(calls.read_text().splitlines()) >= times

        wait_for(lambda: called(2), "the removal", 30)
        left.clear()
        times = len(calls.read_text().splitlines())
        wait_for(lambda: called(times + 3), "the drills", 30)
        stop.set()
        loop.join(30)
    assert not loop.is_alive()
    said = [record.getMessage() for record in caplog.records]
    assert said[0] == "drill: drill-web of an interrupted drill will be removed"
    assert "drill: web will be rehearsed" in said
    assert said.count("drill: no drill: web: too old") == 1


def test_no_drill_while_a_failover_is_open(plan_file: Path) -> None:
    env = Environment(with_drill(plan_file, every="7d"))
    env.journal.open("web", "requested by root", Request(), env.clock.now())
    assert due_now(env) == []


def test_nor_where_one_begins_while_it_is_chosen(plan_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = Environment(with_drill(plan_file, every="7d"))

    def begins(env: Environment, _names: object) -> list[str]:
        env.journal.open("mail", "a test", Request(automatic=True), env.clock.now())
        return []

    monkeypatch.setattr(drill_loop, "objections", begins)
    assert due_now(env) == []


class NoNetwork:
    """In the place of a drill's own."""

    def __init__(self, _addresses: object) -> None:
        self.closing = threading.Event()

    def __enter__(self) -> NoNetwork:
        return self

    def __exit__(self, *_error: object) -> None: ...

    def plug(self) -> str:
        return "vcrd1-0"


def test_a_failover_that_begins_while_it_is_checked_ends_it(plan_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the copies take is measured file by file, after it was seen that none was open."""
    env = Environment(with_drill(plan_file))

    def begins(env: Environment, _names: object) -> list[str]:
        env.journal.open("web", "a test", Request(automatic=True), env.clock.now())
        return []

    monkeypatch.setattr(drill_operation, "objections", begins)
    monkeypatch.setattr(drill_operation, "clean_up", lambda _env: [])
    monkeypatch.setattr(drill_operation, "DrillNetwork", NoNetwork)
    (only,) = drill_operation.rehearse(env, ["web"], "root", SilentDrill())
    assert (only.outcome, only.reason) == (DrillOutcome.GAVE_WAY, "a failover of web has begun")


# -- the plan ------------------------------------------------------------------------------------------------------


def test_the_plans_keys(plan_file: Path) -> None:
    found = with_drill(plan_file, command=["psql", "-c", "SELECT 1"], every="7d").services["web"].drill
    assert (found.timeout, found.every) == (60.0, 7 * DAY)
    assert load_plan(plan_file).services["web"].drill.every is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{every: never}", "services.web.drill.every"),
        ("{every: 0s}", "is not longer than zero"),
        ("{command: psql}", "services.web.drill.command"),
        ('{command: [""]}', "services.web.drill.command"),
        ("{comand: [psql]}", "services.web.drill.comand"),
        ("{timeout: -1}", "services.web.drill.timeout"),
    ],
)
def test_what_is_wrong_in_the_plan_is_named(plan_file: Path, text: str, said: str) -> None:
    plan_file.write_text(f"{plan_file.read_text()}    drill: {text}\n")
    with pytest.raises(PlanError) as caught:
        load_plan(plan_file)
    assert said in str(caught.value)


# -- the clone -----------------------------------------------------------------------------------------------------

ORIGINAL = Instance(
    "web",
    running=True,
    status="Running",
    config={
        "user.vcrecovery.role": "standby",
        "user.vcrecovery.epoch": "3",
        "user.vcrecovery.ready": "true",
        "user.vcrecovery.settled": "base 1.0 2.0",
        "boot.autostart.priority": "2",
        "snapshots.schedule": "@hourly",
        "security.protection.delete": "true",
        "limits.memory": "1GiB",
        "raw.lxc": "lxc.net.0.ipv4.address = 10.20.0.10/24\nlxc.mount.entry = /srv srv none bind 0 0\n"
        "lxc.init.cmd = /sbin/init systemd.unit=sysinit.target",
    },
    devices={
        "root": {"type": "disk", "path": "/", "pool": "default"},
        "eth0": {"type": "nic", "nictype": "bridged", "parent": "vcr0"},
        "eth1": {"type": "nic", "nictype": "bridged", "parent": "backup"},
        "data": {"type": "disk", "path": "/srv", "source": "/srv"},
    },
)


def test_a_clone_keeps_nothing_that_leads_to_production(plan_file: Path) -> None:
    plan = load_plan(plan_file)
    config = config_of_clone(plan, "web", ORIGINAL)
    assert config[ROLE_KEY] == "drill"
    assert config[OWNER_KEY] == str(plan.state_dir)
    assert config["boot.autostart"] == "false"
    for key in ORIGINAL.config:
        if key not in (ROLE_KEY, "raw.lxc", "limits.memory"):
            assert config[key] == "", key
    assert "limits.memory" not in config
    # The plan's own, and a boot with everything.
    lines = config["raw.lxc"].splitlines()
    assert lines[0] == "lxc.net.0.ipv4.address = 10.20.0.10/24"
    assert not any("/srv" in line or "sysinit.target" in line for line in lines)
    devices = devices_of_clone(ORIGINAL, "vcrd1-0")
    assert devices["root"] == ORIGINAL.devices["root"]
    assert devices["eth0"] == {"type": "nic", "nictype": "physical", "parent": "vcrd1-0", "name": "eth0"}
    assert devices["eth1"] == devices["data"] == {"type": "none"}
    assert left_out(ORIGINAL) == ["data", "eth1"]


def test_only_our_own_clones_are_removed(plan_file: Path) -> None:
    plan = load_plan(plan_file)
    clone = replace(ORIGINAL, config=config_of_clone(plan, "web", ORIGINAL))
    assert is_ours(plan, clone)
    assert not is_ours(plan, ORIGINAL)
    assert not is_ours(plan, replace(clone, config={**clone.config, OWNER_KEY: "/elsewhere"}))


def test_the_room_that_copies_take(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 100_000)
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/c").write_bytes(b"x" * 50_000)
    (tmp_path / "link").symlink_to("/")
    assert 150_000 <= size_of_tree(tmp_path) < 200_000
    assert room_problem("the drill", "default", 10**9, 10**9 + MARGIN) == ""
    assert room_problem("the drill", "default", 10**9, 10**9 + MARGIN - 1) == (
        "pool default: the drill needs 1.0 GB for copies and 268.4 MB to spare, and 1.3 GB are free"
    )
    assert room_problem("the drill", "fast", 0, 5) == "pool fast: the drill needs 268.4 MB to spare, and 5 B are free"
    assert [size(count) for count in (999, 1e3, 1e6, 2.5e6, 1e9)] == ["999 B", "1.0 kB", "1.0 MB", "2.5 MB", "1.0 GB"]


# -- the journal ---------------------------------------------------------------------------------------------------


def test_drills_are_in_the_journal(tmp_path: Path) -> None:
    book = DrillBook(Journal(tmp_path / "journal.db"))
    first = book.begin(["web", "db"], NOW - 100, "root")
    book.did(first["web"], STEPS)
    book.end(first["web"], DrillOutcome.PASSED, "", NOW - 90)
    book.end(first["db"], DrillOutcome.FAILED, "no table", NOW - 90)
    second = book.begin(["web"], NOW - 50, "the watcher")
    book.did(second["web"], STEPS[:1])
    again = DrillBook(Journal(tmp_path / "journal.db"))
    known = again.all()
    assert known["web"].good is not None
    assert (known["web"].good.id, known["web"].good.steps) == (first["web"], STEPS)
    assert known["web"].last is not None
    assert (known["web"].last.id, known["web"].last.outcome) == (second["web"], None)
    assert known["db"].good is None
    again.interrupted(NOW)
    again.interrupted(NOW + 5)
    newest = again.history("web", 1)[0]
    assert (newest.outcome, newest.ended_at) == (DrillOutcome.INTERRUPTED, NOW)
    # What is over stays as it is.
    again.end(second["web"], DrillOutcome.PASSED, "", NOW + 9)
    assert again.history("web", 1)[0].outcome is DrillOutcome.INTERRUPTED
    assert [one.service for one in again.history(since=NOW - 60)] == ["web"]
    assert Journal(tmp_path / "journal.db").history() == []


def test_what_is_old_is_forgotten_but_for_the_newest_and_the_newest_good_one(tmp_path: Path) -> None:
    book = DrillBook(Journal(tmp_path / "journal.db"))
    for at, outcome in ((1.0, "PASSED"), (2.0, "PASSED"), (3.0, "FAILED"), (4.0, "FAILED")):
        book.end(book.begin(["web"], at, "root")["web"], DrillOutcome[outcome], "", at)
    book.begin(["db"], KEPT + 10, "root")
    assert [one.began_at for one in book.history("web")] == [4.0, 2.0]


def test_a_drill_of_a_later_version_is_no_traceback(tmp_path: Path) -> None:
    book = DrillBook(Journal(tmp_path / "journal.db"))
    book.begin(["web"], NOW, "root")
    with sqlite3.connect(tmp_path / "journal.db", factory=Connection) as database:
        database.execute("UPDATE drill SET outcome = 'splendid'")
    database.close()
    with pytest.raises(ExternalError, match="does not know: 'splendid' is not a valid"):
        book.all()


def test_one_drill_at_a_time(tmp_path: Path) -> None:
    with drill_lock(tmp_path), pytest.raises(BusyError, match="another drill is at work"), drill_lock(tmp_path):
        pass
    with drill_lock(tmp_path):
        pass


# -- what is said --------------------------------------------------------------------------------------------------


def test_what_a_person_reads() -> None:
    good = drill(0)
    assert result_line(good) == "web: drill passed: up 2.0 s after its start; all of it took 4.0 s"
    assert in_a_line(good).endswith("for root)")
    assert len(step_lines(good)) == 4
    assert "cloned          in 1.00 s   container drill-web on sec1" in step_lines(good)[0]
    assert result_line(drill(0, DrillOutcome.FAILED, "no\x1b table")) == "web: drill failed: no\\x1b table"
    assert "not finished" in result_line(drill(0, None))
    assert overdue_sentence(7 * DAY, None, NOW) == "no drill has ever passed; one is due every 7 d"
    assert overdue_sentence(7 * DAY, drill(9), NOW) == "no drill has passed for 9 d; one is due every 7 d"


def said(drills: DrillsOf, every: float | None = 7 * DAY, **changes: Any) -> list[str]:
    found = findings(view(drills=drills, plan=replace(PLAN, drill_every=every), **changes))
    return [str(finding) for finding in found if "drill" in finding.sentence]


def test_what_status_finds() -> None:
    assert said(DrillsOf(drill(1), drill(1))) == []
    (only,) = said(DrillsOf(drill(9), drill(9)))
    assert only == (
        "web: no drill has passed for 9 d; one is due every 7 d; "
        "`vcrecovery drill web` rehearses now, or says why it cannot"
    )
    failed = drill(1, DrillOutcome.FAILED, "no table shop")
    (only,) = said(DrillsOf(drill(2), failed), every=None)
    assert only.startswith("web: its last drill failed on ")
    assert only.endswith(": no table shop; after fixing the cause, `vcrecovery drill web`")
    assert len(said(DrillsOf(None, failed))) == 2
    # Nothing that could be rehearsed waits.
    serves = ServiceState("web", epoch=1, side=Side.STANDBY)
    assert said(DrillsOf(None, failed), state=serves) == []


def test_status_shows_the_last_good_one() -> None:
    seen = view(drills=DrillsOf(drill(1), drill(0, DrillOutcome.FAILED, "x")), plan=replace(PLAN, drill_every=DAY / 2))
    assert any(line.startswith("  drill     the last good one ") and "up 2.0 s" in line for line in detail(seen))
    data = as_data(seen)["drill"]
    assert (data["every"], data["overdue"], data["last"]["reason"]) == (DAY / 2, True, "x")
    assert data["last_good"]["recovery_seconds"] == 2.0
    assert as_data(view())["drill"] == {"every": None, "overdue": False, "last_good": None, "last": None}


def test_what_a_drill_would_do() -> None:
    """As `vcrecovery drill --dry-run` says it."""
    begin = "clone it as drill-web, start that at 10.20.0.10, wait for 80, 443"
    assert step_plan("web", "10.20.0.10", ["80", "443"], []) == f"{begin}, remove it"
    asked = step_plan("web", "10.20.0.10", ["80", "443"], ["check-shop", "--quick"])
    assert asked == f"{begin}, run `check-shop --quick`, remove it"
