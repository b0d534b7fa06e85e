"""A standby's spare: what a plan may say of it, what is decided about moves, and what is told."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_decide import CONFIRMED, NOW, POLICY, confirm, done
from test_evidence import PROOFS
from view_cases import CRASHED, view

from vcrecovery.core.decide import decide
from vcrecovery.core.decisions import GO, Close, Decision, Run, Unmet, Wait
from vcrecovery.core.episode import Episode, How, Outcome, Request, Step, StepRecord
from vcrecovery.core.evidence import Failed, Started
from vcrecovery.core.move import goes_back_after
from vcrecovery.core.notice import Topic, of_episode
from vcrecovery.core.phase import ALLOWED_IN_A_MOVE, Phase, allowed, phase_of
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.cost.month import Month, Served, served
from vcrecovery.errors import RefusedError
from vcrecovery.operations.records import names_of
from vcrecovery.plan.load import load_plan, load_with_warnings
from vcrecovery.plan.model import Plan
from vcrecovery.plan.places import is_elsewhere, place, put
from vcrecovery.plan.problems import PlanError
from vcrecovery.report.findings import Level, findings, of_the_spare
from vcrecovery.report.status import as_data, detail
from vcrecovery.report.targets import of_episode as of_one
from vcrecovery.report.view import SpareView
from vcrecovery.store.journal import Journal

SPARE = "spare: {secondary: sec2, address: 10.21.0.10}"
SEC2 = "  sec2: {lxd: /x, network: {bridge: b, address: 10.21.0.1/24}, receiver: {address: 192.0.2.7}}\ndns:"


def with_a_spare(file: Path, spare: str = SPARE, *changes: tuple[str, str]) -> Plan:
    text = file.read_text()
    standby = next(line for line in text.splitlines() if line.strip().startswith("standby: {"))
    changed = standby.replace("}", f", {spare}}}") if standby.count("}") == 1 else standby
    for old, new in ((standby, changed), ("dns:", SEC2), *changes):
        assert old in text, old
        text = text.replace(old, new, 1)
    file.write_text(text)
    return load_plan(file)


# -- the plan --------------------------------------------------------------------------------------------------------


HTTPS = "lxd: {url: '%s', certificate: /c, key: /k, server_certificate: /s}"
URL = "https://sec1.example.net:8443"
SOCKET = "lxd: /var/lib/lxd/unix.socket"
ON_THE_SPARE = "services.web.standby.spare.secondary: "
ONE_MACHINE = (
    f"{ON_THE_SPARE}sec2 is the same machine as sec1 (both have %s), and would fail with it; say where sec2 is"
)


def found_where(file: Path, first: str, second: str, port: int = 7022) -> list[str]:
    """What is said of a plan whose secondaries are there."""
    text = re.sub("    lxd: .*\n", f"    {first}\n" if first else "", file.read_text(), count=1)
    file.write_text(text.replace("{address: 10.10.0.1}", "{address: 192.0.2.7}", 1))
    there = (
        ("{lxd: /x, ", f"{{{second}, " if second else "{"),
        ("192.0.2.7}}\ndns", f"192.0.2.7, port: {port}}}}}\ndns"),
    )
    try:
        with_a_spare(file, SPARE, *there)
    except PlanError as error:
        found = error.problems
    else:
        found = load_with_warnings(file)[1]
    return [f"{one.key}: {one.message}" for one in found]


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("", "", "lxd /var/lib/lxd/unix.socket, as neither names another"),
        (HTTPS % URL, HTTPS % "https://SEC1.example.net:8443/", f"lxd {URL}"),
    ],
)
def test_a_spare_on_the_same_machine_is_refused(plan_file: Path, first: str, second: str, said: str) -> None:
    assert found_where(plan_file, first, second, 7023) == [ONE_MACHINE % said]


def test_a_spare_with_the_same_receiver_is_refused(plan_file: Path) -> None:
    assert found_where(plan_file, "lxd: /x", "lxd: /y") == [ONE_MACHINE % "receiver 192.0.2.7:7022"]


@pytest.mark.parametrize(
    ("first", "second", "warned"),
    [
        ("", HTTPS % URL, False),
        (HTTPS % URL, "", False),
        ("", "lxd: /run/other", False),
        # The plan that the role `secondary` gives a secondary of its own.
        ("", SOCKET, True),
        (SOCKET, "", True),
    ],
)
def test_one_path_may_be_of_two_machines(plan_file: Path, first: str, second: str, warned: bool) -> None:
    what = "both have lxd /var/lib/lxd/unix.socket: if that is one machine, they fail together"
    said = f"{ON_THE_SPARE}sec2 and sec1 {what}"
    assert (said in found_where(plan_file, first, second, 7023)) is warned


@pytest.mark.parametrize(
    ("spare", "said"),
    [
        ("spare: {secondary: sec3, address: 10.21.0.10}", "spare.secondary: no secondary is called 'sec3'"),
        ("spare: {secondary: sec1, address: 10.20.0.11}", "is the standby's own: it would fail with it"),
        (
            "spare: {secondary: sec2, address: 10.20.0.11}",
            "spare.address: is outside the secondary's network 10.21.0.0/24",
        ),
        ("spare: {secondary: sec2, address: 10.21.0.1}", "is the address of the network's bridge itself"),
        ("spare: {secondary: sec2, address: 10.21.0.10, address6: fd00::5}", "needs the secondary's network.address6"),
        ("spare: {secondary: sec2, address: 10.21.0.10, every: soon}", "'soon' is no duration"),
        ("spare: {secondary: sec2}", "spare.address: field required"),
    ],
)
def test_what_a_plan_must_not_say(plan_file: Path, spare: str, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        with_a_spare(plan_file, spare)
    assert any(said in str(problem) for problem in caught.value.problems), caught.value.problems


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "ports: [80",
            "virtual_ip: {address: 192.0.2.50/24, interface: eth0}\n    ports: [80",
            "does not follow a standby",
        ),
        ("zone: example.test}", "zone: example.test, standby: 192.0.2.99}", "says itself where the standby is"),
    ],
)
def test_what_cannot_follow_to_a_spare(plan_file: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        with_a_spare(plan_file, SPARE, (old, new))
    assert any(said in str(problem) for problem in caught.value.problems), caught.value.problems


def test_a_plan_is_placed_and_placed_back(plan_file: Path) -> None:
    plan = with_a_spare(plan_file)
    before = plan.services["web"]
    assert place(plan, "web", "sec2")
    there = plan.services["web"]
    assert (there.standby.secondary, str(there.standby.address)) == ("sec2", "10.21.0.10")
    assert there.standby.spare is not None
    assert (there.standby.spare.secondary, str(there.standby.spare.address)) == ("sec1", "10.20.0.10")
    assert is_elsewhere(there)
    assert place(plan, "web", "sec2")
    assert plan.services["web"] is there
    assert place(plan, "web", None)
    assert plan.services["web"].standby.model_dump() == before.standby.model_dump()
    assert not is_elsewhere(plan.services["web"])


def test_one_that_serves_where_the_plan_has_no_place_is_refused(plan_file: Path) -> None:
    plan = with_a_spare(plan_file)
    assert not place(plan, "web", "sec9")
    with pytest.raises(RefusedError, match="is on sec9, where the plan has no place for it"):
        put(plan, "web", "sec9")
    assert plan.services["web"].standby.secondary == "sec1"


def test_a_name_may_lead_to_either_of_the_two(plan_file: Path) -> None:
    outside: Any = SimpleNamespace(zones={"example.test": None}, runtime=None)
    plan = with_a_spare(plan_file)
    place(plan, "web", "sec2")
    (name, *_) = names_of(outside, plan.services["web"])
    (change,) = name.changes
    assert change.wanted == "10.21.0.10"
    assert sorted(change.known) == ["10.10.0.10", "10.20.0.10", "10.21.0.10"]


def test_a_spare_may_have_the_standbys_address_in_a_network_that_both_share(plan_file: Path) -> None:
    same = "spare: {secondary: sec2, address: 10.20.0.10}"
    with pytest.raises(PlanError) as caught:
        with_a_spare(plan_file, same, ("10.21.0.1/24", "10.20.0.2/16"))
    assert "is the standby's own, but the secondaries' networks differ" in str(caught.value)
    text = plan_file.read_text().replace("10.20.0.2/16", "10.20.0.2/24")
    plan_file.write_text(text)
    assert load_plan(plan_file).services["web"].standby.spare is not None


# -- a move ----------------------------------------------------------------------------------------------------------

MOVE = Request(planned=True, to="sec2", again=True)
LOOKED = {**CONFIRMED, "asked_for": "move sec2"}


def moving(*steps: StepRecord, request: Request = MOVE) -> Episode:
    return Episode(1, "web", 2, "requested by root", request, NOW - 9, steps)


def failed(step: Step) -> StepRecord:
    return StepRecord(step, NOW - 1, NOW, False, Failed(f"{step} went wrong"))


def looked(**changes: Any) -> StepRecord:
    return confirm(**{**LOOKED, **changes})


def test_its_steps_come_in_this_order() -> None:
    records: list[StepRecord] = []
    order = []
    while isinstance(decision := decide(moving(*records), POLICY, NOW), Run):
        order.append(decision.step)
        assert len(order) < 20, order
        assert decision.step in allowed(moving(*records)), decision.step
        records.append(looked() if decision.step is Step.CONFIRM else done(decision.step))
    wanted = [Step.CONFIRM, Step.COPY, Step.STOP, Step.LAST_COPY, Step.START, Step.PROBE, Step.SWITCH, Step.VERIFY]
    assert order == wanted
    assert decision == Close(Outcome.DONE, "web is served on sec2")
    assert Outcome.DONE in allowed(moving(*records))


UP_TO_THE_STOP = (looked(), done(Step.COPY))
STOPPED = (*UP_TO_THE_STOP, done(Step.STOP))
COPIED = (*STOPPED, done(Step.LAST_COPY))


@pytest.mark.parametrize(
    ("steps", "wanted"),
    [
        # What was looked at for something else does not count.
        ((confirm(),), Run(Step.CONFIRM, "requested by root: checking for that what was not looked at")),
        ((looked(problems=["a", "b"]),), Close(Outcome.REFUSED, "web is not moved to sec2: a; b", "fix that first")),
        ((looked(standby_problem="no"),), Close(Outcome.REFUSED, "web is not moved to sec2: no", "fix that first")),
        ((looked(), done(Step.COPY, NOW - 61)), Run(Step.COPY, "it serves on: copying it to sec2")),
        ((looked(), failed(Step.COPY)), Run(Step.COPY, "it serves on: copying it to sec2")),
        (UP_TO_THE_STOP, Run(Step.STOP, "little is left to copy: stopping it")),
        # One that was cut short is run again.
        ((*UP_TO_THE_STOP, StepRecord(Step.STOP, 1)), Run(Step.STOP, "stopping it")),
        ((*UP_TO_THE_STOP, failed(Step.STOP)), Run(Step.TAKE_BACK, "it serves again where it was: stop went wrong")),
        (STOPPED, Run(Step.LAST_COPY, "it has ended: copying the rest")),
        ((*STOPPED, failed(Step.LAST_COPY)), Run(Step.TAKE_BACK, "it serves again where it was: last copy went wrong")),
        ((*COPIED, failed(Step.START)), Run(Step.TAKE_BACK, "it serves again where it was: start went wrong")),
        (
            (*COPIED, done(Step.START), failed(Step.PROBE)),
            Run(Step.TAKE_BACK, "it serves again where it was: probe went wrong"),
        ),
        # Once its names may have changed, the only way is forward.
        (
            (*COPIED, done(Step.START), done(Step.PROBE), failed(Step.SWITCH)),
            Run(Step.PROBE, "the ports were seen open before: looking again"),
        ),
        (
            (*COPIED, done(Step.START), done(Step.PROBE), failed(Step.SWITCH), done(Step.PROBE)),
            Run(Step.SWITCH, "every port answers: switching DNS"),
        ),
        (
            (*COPIED, done(Step.START), done(Step.PROBE), done(Step.SWITCH)),
            Run(Step.VERIFY, "DNS has changed: asking every authoritative server"),
        ),
        (
            (*COPIED, done(Step.START), done(Step.PROBE, NOW - 99)),
            Run(Step.PROBE, "the ports were seen open before: looking again"),
        ),
        (
            (
                *STOPPED,
                failed(Step.LAST_COPY),
                StepRecord(Step.TAKE_BACK, 1, 2, True, None, "it serves again where it was: x"),
            ),
            Close(Outcome.TAKEN_BACK, "web serves where it was: x"),
        ),
    ],
)
def test_what_follows(steps: tuple[StepRecord, ...], wanted: Decision) -> None:
    assert decide(moving(*steps), POLICY, NOW) == wanted


def test_once_its_names_may_have_changed_it_goes_back_no_more() -> None:
    up = (*COPIED, done(Step.START), done(Step.PROBE))
    assert goes_back_after(Step.PROBE, moving(*up))
    assert not goes_back_after(Step.PROBE, moving(*up, failed(Step.SWITCH), failed(Step.PROBE)))
    assert isinstance(decision := decide(moving(*up, failed(Step.SWITCH), failed(Step.PROBE)), POLICY, NOW), Run)
    assert decision.step is not Step.TAKE_BACK


def test_it_starts_when_the_others_let_it() -> None:
    assert decide(moving(*COPIED), POLICY, NOW, Wait("for db")) == Wait("for db")
    back = decide(moving(*COPIED), POLICY, NOW, Unmet("db is down", "fix it"))
    assert back == Run(Step.TAKE_BACK, "it serves again where it was: db is down")
    assert isinstance(decide(moving(*COPIED), POLICY, NOW, GO), Run)


def test_without_names_it_is_done_with_its_ports() -> None:
    decision = decide(moving(*COPIED, done(Step.START), done(Step.PROBE)), replace(POLICY, has_dns=False), NOW)
    assert isinstance(decision, Close)
    assert decision.outcome is Outcome.DONE


STATEFUL = replace(MOVE, how=How.STATEFUL)


def test_one_that_took_its_memory_along_goes_back_only_until_it_runs_there() -> None:
    """Its clients have reached it since."""
    saw = looked(asked_for="move sec2 stateful")
    copied = (saw, *COPIED[1:])
    cut_short = moving(*copied[:2], StepRecord(Step.STOP, 1), request=STATEFUL)
    assert decide(cut_short, POLICY, NOW) == Run(Step.STOP, "stopping it with its memory")
    assert decide(moving(*copied, failed(Step.START), request=STATEFUL), POLICY, NOW) == Run(
        Step.TAKE_BACK, "it serves again where it was: start went wrong"
    )
    runs = moving(*copied, done(Step.START), failed(Step.PROBE), request=STATEFUL)
    assert not goes_back_after(Step.PROBE, runs)
    assert decide(runs, POLICY, NOW) == Run(Step.PROBE, "it runs: waiting for its ports")


def test_one_that_keeps_its_address_goes_back_only_until_it_was_reached_there() -> None:
    started = StepRecord(Step.START, NOW - 3, NOW - 2, True, Started("container web", keeps_address=True))
    reached = StepRecord(Step.PROBE, NOW - 1, NOW, False, Failed("443: connection refused", reached=True))
    for steps in ((started, failed(Step.PROBE)), (done(Step.START), reached)):
        assert goes_back_after(Step.PROBE, moving(*COPIED, *steps))
    for tries in ((reached,), (reached, failed(Step.PROBE)), (done(Step.PROBE), failed(Step.PROBE))):
        stays = moving(*COPIED, started, *tries)
        assert not goes_back_after(Step.PROBE, stays)
        assert isinstance(decision := decide(stays, POLICY, NOW), Run)
        assert decision.step is Step.PROBE
    # One that an older version has begun to take back goes on with that.
    begun = StepRecord(Step.TAKE_BACK, NOW, sentence="it serves again where it was: 443: connection refused")
    assert isinstance(decision := decide(moving(*COPIED, started, reached, begun), POLICY, NOW), Run)
    assert decision.step is Step.TAKE_BACK


def test_what_was_looked_at_for_another_kind_of_move_does_not_count() -> None:
    decision = decide(moving(looked(), request=STATEFUL), POLICY, NOW)
    assert isinstance(decision, Run)
    assert decision.step is Step.CONFIRM
    assert STATEFUL.typed("web") == "move web --to sec2 --how stateful"


def test_the_journal_has_how_it_moves(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    for request in (STATEFUL, MOVE):
        episode = journal.open("web", "x", request, 1.0)
        found = journal.episode(episode.id)
        assert found is not None
        assert found.request == request


def test_no_phase_of_a_move_lets_it_start_before_everything_is_there() -> None:
    for phase, may in ALLOWED_IN_A_MOVE.items():
        if Step.START in may:
            assert phase in (Phase.ALL_COPIED, Phase.STARTING)
        if Step.TAKE_BACK in may:
            assert phase not in (Phase.SWITCHED, Phase.VERIFYING, Phase.VERIFIED)
    assert phase_of(moving(*COPIED)) is Phase.ALL_COPIED


# -- a failover to the spare -----------------------------------------------------------------------------------------

TO = Request(to="sec2", again=True)


def test_what_was_looked_at_for_a_move_does_not_count_for_a_failover() -> None:
    """The one refuses what the other would end."""
    decision = decide(moving(looked(), request=TO), POLICY, NOW)
    assert isinstance(decision, Run)
    assert decision.step is Step.CONFIRM


def test_one_that_serves_where_it_was_after_all_is_let_be() -> None:
    steps = (confirm(asked_for="sec2"), failed(Step.FENCE), confirm(asked_for="sec2", serves_on="sec1"))
    decision = decide(moving(*steps, request=TO), POLICY, NOW)
    assert isinstance(decision, Close)
    assert decision.outcome is Outcome.WITHDRAWN
    assert decision.sentence == "web serves on sec1 after all, and its fence was not proved"


def test_by_itself_it_ends_nothing_that_answers() -> None:
    automatic = replace(TO, automatic=True)
    decision = decide(moving(confirm(asked_for="sec2", serves_on="sec1"), request=automatic), POLICY, NOW)
    assert decision == Close(Outcome.FALSE_ALARM, "web answers on sec1: no failure")


def test_a_start_that_was_taken_back_is_none() -> None:
    """A move has failed on its way back, and the operator insists on the other side."""
    steps = (*COPIED, done(Step.START), failed(Step.PROBE), failed(Step.TAKE_BACK), confirm(asked_for="sec2"))
    decision = decide(moving(*steps, done(Step.FENCE), request=TO), POLICY, NOW)
    assert decision == Run(Step.START, "the primary is fenced: starting the standby")
    assert Step.START in allowed(moving(*steps, done(Step.FENCE), request=TO))


# -- the journal -----------------------------------------------------------------------------------------------------


def test_the_journal_has_where_it_serves(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    episode = journal.open("web", "x", MOVE, 1.0)
    assert journal.standbys_elsewhere() == {}
    for step in (Step.CONFIRM, Step.COPY):
        row = journal.begin(episode, step, 2.0)
        journal.end(row, 3.0, ok=True, evidence=looked().saw if step is Step.CONFIRM else done_copy())
    assert not journal.who_serves()["web"].at_work
    journal.begin(episode, Step.STOP, 4.0)
    assert journal.standbys_elsewhere() == {"web": "sec2"}
    assert journal.state("web").placed_on == "sec2"
    assert journal.state("web").standby_on is None
    assert journal.who_serves()["web"].at_work
    journal.serve_from_primary("web", 5.0)
    assert (journal.standbys_elsewhere(), journal.state("web").placed_on) == ({}, None)


def done_copy() -> Any:
    from vcrecovery.core.evidence import Copied

    return Copied("two passes")


# -- what is told ----------------------------------------------------------------------------------------------------

SERVES = ServiceState("web", 3, Side.STANDBY)


def spare(age: float | None, *, whole: bool = True, detail: str = "", container: str = "stopped", **how: Any) -> Any:
    from view_cases import NOW as SEEN_AT

    at = None if age is None else SEEN_AT - age
    found = SpareView("sec2", "unreachable" if detail else container, 600.0, at, whole, detail, "incus")
    return view(reading=CRASHED, spare=found, **{"state": SERVES, **how})


@pytest.mark.parametrize(
    ("seen", "said", "topic"),
    [
        (spare(60.0), "; its copy on sec2 is 1 min old", None),
        (spare(9999.0), "; unprotected: its copy on sec2: 2 h 46 min old", Topic.UNPROTECTED),
        (spare(60.0, whole=False), "; unprotected: its copy on sec2: 1 min old", Topic.UNPROTECTED),
        (spare(None), "; unprotected: its copy on sec2: not whole yet (stopped)", Topic.UNPROTECTED),
        (
            spare(None, detail="LXD does not answer"),
            "; unprotected: its copy on sec2: LXD does not answer",
            Topic.UNPROTECTED,
        ),
        (spare(60.0, container="running"), "; unprotected: its copy on sec2: it runs", Topic.UNPROTECTED),
    ],
)
def test_whether_it_is_protected_is_said(seen: Any, said: str, topic: Topic | None) -> None:
    (finding,) = [one for one in findings(seen) if one.sentence.startswith("serving from the standby")]
    assert finding.sentence.endswith(said), finding.sentence
    assert finding.topic == topic
    assert any(line.lstrip().startswith("spare ") for line in detail(seen))
    assert as_data(seen)["spare"]["secondary"] == "sec2"


def test_that_somebody_has_started_the_copy_is_said_at_once() -> None:
    (finding,) = [one for one in findings(spare(60.0, container="running")) if "runs beside" in one.sentence]
    assert (finding.level, finding.topic) == (Level.ATTENTION, Topic.UNPROTECTED)
    assert finding.hint == "`incus stop web` there"


@pytest.mark.parametrize(
    "seen",
    [
        spare(60.0),
        spare(60.0, container="frozen"),
        spare(60.0, container="running", state=replace(SERVES, open_episode=moving(*STOPPED))),
        spare(60.0, container="running", holder="pid 7"),
    ],
)
def test_of_a_move_that_goes_on_it_is_not(seen: Any) -> None:
    assert of_the_spare(seen) == (True, "its copy on sec2 is 1 min old")
    assert not [one for one in findings(seen) if "runs beside" in one.sentence]


def test_a_move_is_told_as_one() -> None:
    begun = of_episode(moving(*STOPPED), None, NOW)
    assert [notice.title for notice in begun] == ["web: moving to another secondary, to sec2"]
    over = replace(moving(*COPIED), closed_at=NOW, outcome=Outcome.DONE)
    assert [notice.title for notice in of_episode(over, None, NOW)][-1] == "web: moved to sec2 in 9.0 s"


# -- a move of one that waits ------------------------------------------------------------------------------------------

WAITS = Request(planned=True, to="sec2", leaves="sec1")


def waiting_move(journal: Journal, *steps: Step, at: float = 4.0) -> Episode:
    """Those were done."""
    episode = journal.open("web", "x", WAITS, 1.0)
    for step in steps:
        journal.end(journal.begin(episode, step, at), at, ok=True, evidence=PROOFS[step])
    found = journal.episode(episode.id)
    assert found is not None
    return found


IT_RECEIVES = (Step.CONFIRM, Step.COPY, Step.STOP, Step.LAST_COPY, Step.RECEIVE)


def test_the_journal_has_where_one_waits(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    waiting_move(journal, *IT_RECEIVES[:4])
    assert (journal.state("web").placed_on, journal.standbys_elsewhere()) == (None, {})
    episode = waiting_move(journal, Step.RECEIVE)
    assert (journal.state("web").placed_on, journal.standbys_elsewhere()) == ("sec2", {"web": "sec2"})
    assert journal.state("web").side is Side.PRIMARY
    assert not episode.has_acted
    row = journal.begin(episode, Step.TAKE_BACK, 5.0)
    journal.end(row, 6.0, ok=True, evidence=PROOFS[Step.TAKE_BACK])
    assert journal.state("web").placed_on == "sec1"


def test_it_neither_serves_nor_takes_the_service_away(tmp_path: Path) -> None:
    """Nor does it re-open what an operator has acknowledged."""
    journal = Journal(tmp_path / "journal.db")
    journal.acknowledge("web", 2.0)
    episode = waiting_move(journal, *IT_RECEIVES, Step.SYNC)
    journal.close(episode, Outcome.DONE, "the standby of web waits on sec2", 9.0)
    (done,) = journal.history("web")
    assert journal.state("web").acknowledged_at == 2.0
    assert (of_one(done, 10.0, 60.0, 60.0).rto, of_one(done, 10.0, 60.0, 60.0).rpo) == (None, None)
    assert served([done], Side.PRIMARY, Month("1970-01", 0.0, 2e6, 2e6)) == Served(0.0, 0)
