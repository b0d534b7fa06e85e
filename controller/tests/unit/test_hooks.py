"""Which of the operator's commands run, with which facts, what they can stop, and who is shown what came of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from view_cases import DONE, NOW

from simulated.site import Site
from vcrecovery.core.episode import Episode, Outcome, Step
from vcrecovery.core.evidence import Confirmation, Failed, HookRun, Started, Verified
from vcrecovery.core.hooks import Moment, closed_gate, hooks_of, is_due, ran_in, said, why_closed
from vcrecovery.core.policy import Policy
from vcrecovery.core.text import span
from vcrecovery.report import explain
from vcrecovery.report.history import as_data
from vcrecovery.report.timeline import of_episode
from vcrecovery.store.evidence_json import read, written

pytestmark = pytest.mark.usefixtures("in_utc")
GOOD = HookRun("before_start", ("ask", "web"), True, 0.2)
BAD = replace(GOOD, ok=False, said="status 1: not yet")
GATE = replace(BAD, gate=True)
OPEN_GATE = replace(GATE, ok=True, said="")


def test_each_runs_once_and_a_gate_until_it_is_open() -> None:
    assert is_due(["ask", "web"], [], gate=False)
    assert not is_due(["ask", "web"], [GOOD], gate=False)
    assert not is_due(["ask", "web"], [BAD], gate=False)
    assert is_due(["ask", "db"], [GOOD], gate=False)
    assert is_due(["ask", "web"], [GATE], gate=True)
    assert not is_due(["ask", "web"], [GATE, OPEN_GATE], gate=True)


def test_only_a_gate_holds_back_and_not_who_insists() -> None:
    assert closed_gate([BAD], forced=False) is None
    assert closed_gate([GATE], forced=False) is GATE
    assert closed_gate([GATE], forced=True) is None
    assert closed_gate([GATE, OPEN_GATE], forced=False) is None
    assert closed_gate([OPEN_GATE, GATE], forced=False) is GATE


def test_what_is_said_of_one() -> None:
    assert said(GOOD) == "hook before_start: ask web: done in 0.2 s"
    assert said(BAD) == "hook before_start: ask web: failed after 0.2 s: status 1: not yet"
    assert why_closed(GATE) == "the gate ask web is closed: status 1: not yet"
    hostile = replace(BAD, command=("a\x1b[2J", "x" * 500), said="\x1b]0;x\x07\nok")
    assert "\x1b" not in said(hostile) + why_closed(hostile)
    assert len(said(hostile)) < 300


@pytest.mark.parametrize(
    ("step", "evidence"),
    [
        (Step.START, Started("up", hooks=(GOOD, GATE))),
        (Step.START, Failed("closed", hooks=(GATE,))),
        (Step.VERIFY, Verified("on ns1", hooks=(BAD,))),
        (Step.CONFIRM, Confirmation("shutoff", hooks=(BAD,))),  # type: ignore[arg-type]
    ],
)
def test_the_journal_gives_back_what_it_was_given(step: Step, evidence: Any) -> None:
    found = read(step, ok=not isinstance(evidence, Failed), text=written(evidence))
    assert getattr(found, "hooks", None) == evidence.hooks


def test_what_an_older_version_has_written_has_none() -> None:
    assert read(Step.START, ok=True, text='{"version": 1, "summary": "up"}') == Started("up")


# -- with the shipped program ----------------------------------------------------------------------------------


def site(folder: Path, hooks: dict[str, Any], services: dict[str, Any] | None = None) -> Site:
    return Site(folder, services, plan={"service": {"hooks": hooks}})


def ran(site: Site, name: str = "web") -> list[tuple[str, str]]:
    return [(facts["hook"], facts["command"][0]) for facts in site.world.services[name].hooks_ran]


def newest(site: Site) -> Episode:
    return site.journal.history("web", 1)[0]


def test_the_facts_and_the_order(memory_path: Path) -> None:
    hooks = {name: [{"command": [f"{name}-{n}"]} for n in (1, 2)] for name in ("before_start", "after_switch")}
    here = site(memory_path, hooks)
    here.watch(3)
    here.crash("web")
    here.watch(20)
    assert [name for _, name in ran(here)] == ["before_start-1", "before_start-2", "after_switch-1", "after_switch-2"]
    first, *_, last = here.world.services["web"].hooks_ran
    assert {key: first[key] for key in ("service", "epoch", "verb", "step", "cause", "automatic", "names")} == {
        "service": "web",
        "epoch": 1,
        "verb": "failover",
        "step": "start",
        "cause": "libvirt: shutoff (crashed)",
        "automatic": True,
        "names": ["www.example.test"],
    }
    assert first["primary"]["hypervisor"] == "hv1"
    assert first["standby"] == {"secondary": "sec1", "container": "web", "address": "10.20.0.10"}
    assert (last["step"], last["episode"]) == ("verify", 1)
    shown = "\n".join(of_episode(newest(here)))
    assert "hook          before_start: before_start-1: done in 0.1 s" in shown
    assert shown.index("before_start-2") < shown.index("started") < shown.index("DNS checked") < shown.index("after_s")
    explained = "\n".join(explain.lines(newest(here), Policy(), NOW))
    assert "after_switch: after_switch-1: done in 0.1 s" in explained
    (start,) = [step for step in as_data(newest(here))["steps"] if step["step"] == "start"]
    assert [run["moment"] for run in start["evidence"]["hooks"]] == ["before_start", "before_start"]


def test_those_of_the_whole_plan_run_first(memory_path: Path) -> None:
    here = site(memory_path, {"before_start": [{"command": ["own"]}]})
    everybodys = here.plan.hooks.model_copy(update={"before_start": here.plan.services["web"].hooks.before_start[0:1]})
    assert everybodys.before_start[0].command == ["own"]
    first = everybodys.before_start[0].model_copy(update={"command": ["everybodys"]})
    here.plan = here.plan.model_copy(update={"hooks": everybodys.model_copy(update={"before_start": [first]})})
    here.failover(force=True)
    assert [name for _, name in ran(here)] == ["everybodys", "own"]


def test_time_of_commands_is_no_time_of_recovery(memory_path: Path) -> None:
    here = site(memory_path, {"after_switch": [{"command": ["slow"], "timeout": "4m"}]})
    here.world.services["web"].hooks_hang = True
    here.watch(3)
    here.crash("web")
    here.watch(300)
    episode = newest(here)
    assert episode.outcome is Outcome.DONE
    assert episode.closed_at is not None
    assert episode.closed_at - episode.opened_at < 4, span(episode.closed_at - episode.opened_at)


def test_a_command_after_the_switch_delays_no_other_service(memory_path: Path) -> None:
    services = {"db": {}, "web": {"needs": ["db"]}, "shop": {}}
    here = Site(
        memory_path,
        services,
        plan={"service": {"hooks": {"after_switch": [{"command": ["slow"], "timeout": "4m"}]}}},
        starts_at_once=2,
    )
    for service in here.world.services.values():
        service.hooks_hang = True
    here.watch(3)
    for name in services:
        here.crash(name)
    here.watch(300)
    checked = [float(line.split()[0]) for line in here.log if "DNS checked" in line]
    assert len(checked) == 3
    assert max(checked) < 20


def test_on_a_refusal_once(memory_path: Path) -> None:
    here = Site(
        memory_path,
        {"web": {"heartbeat_at": -3600.0}},
        plan={"service": {"hooks": {"on_refused": [{"command": ["page"]}]}}},
    )
    here.watch(3)
    here.crash("web")
    here.watch(1200)
    assert ran(here) == [("on_refused", "page")]
    (facts,) = here.world.services["web"].hooks_ran
    assert "more than its max_staleness" in facts["reason"]
    refused = here.journal.history("web", 20)[-1]
    assert refused.outcome is Outcome.REFUSED
    assert [run.command for run in ran_in(refused, Moment.ON_REFUSED)] == [("page",)]
    assert any("on_refused: page: done" in line for line in of_episode(refused))


@pytest.mark.parametrize("place", ["in the hook before_start", "in the hook after_switch", "in the hook on_refused"])
def test_a_controller_that_is_killed_in_one(memory_path: Path, place: str) -> None:
    """The next one runs it again, with the same epoch: at least once."""
    moment = place.rpartition(" ")[2]
    old = {"heartbeat_at": -3600.0} if moment == "on_refused" else {}
    here = Site(memory_path, {"web": old}, plan={"service": {"hooks": {moment: [{"command": ["one"]}]}}})
    here.kill_at = place
    here.watch(3)
    here.crash("web")
    here.watch(60)
    facts = here.world.services["web"].hooks_ran
    assert [one["hook"] for one in facts] == [moment, moment]
    assert {(one["epoch"], one["episode"]) for one in facts} == {(1, 1)}
    known = [run for episode in here.journal.history("web") for run in ran_in(episode, Moment(moment))]
    assert [run.command for run in known] == [("one",)]


def test_a_fault_of_ours_stops_nothing(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_said: object) -> str:
        raise OSError(11, "no more processes")

    monkeypatch.setattr("simulated.environment.SimulatedEnvironment.run_hook", breaks)
    here = site(memory_path, {"before_start": [{"command": ["one"]}]})
    here.failover(force=True)
    assert newest(here).outcome is Outcome.DONE
    (run,) = ran_in(newest(here), Moment.BEFORE_START)
    assert run.said == "[Errno 11] no more processes"


def test_a_failback_has_no_start_of_its_own(memory_path: Path) -> None:
    here = site(memory_path, {"before_start": [{"command": ["a"]}], "after_switch": [{"command": ["b"]}]})
    here.switchover()
    assert ran(here) == [("before_start", "a"), ("after_switch", "b")]
    here.world.services["web"].hooks_ran.clear()
    here.failback()
    assert here.journal.history("web", 1)[0].outcome is Outcome.DONE, here.log[-30:]
    assert ran(here) == [("after_switch", "b")]
    assert here.world.services["web"].hooks_ran[0]["verb"] == "failback"


def test_without_commands_nothing_is_shown() -> None:
    assert all(hooks_of(record) == () for record in DONE.steps)
    assert "hook" not in "\n".join(of_episode(DONE))
