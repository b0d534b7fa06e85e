"""Groups and needs in the plan, and `vcrecovery failover --host | --site | --group`."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from journal_cases import finish
from warm_program import vcrecovery

from evidence_cases import proof
from vcrecovery.cli.recovery import table_of
from vcrecovery.core.episode import Episode, Outcome, Request, Step, Symptom
from vcrecovery.core.evidence import Proof
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import Suspension
from vcrecovery.core.verdict import judge
from vcrecovery.detect.watch import cause_of
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.drivers.lxd.resources import Size
from vcrecovery.errors import ExitCode, ExternalError, RefusedError
from vcrecovery.operations import locked
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.several import Result
from vcrecovery.operations.start_conditions import STARTS_WHEN_NOT_KNOWN, LiveConditions
from vcrecovery.operations.unattended import Unattended
from vcrecovery.plan.load import load_plan
from vcrecovery.plan.problems import PlanError
from vcrecovery.store.journal import Journal

SERVICE = """\
  {name}:
    primary: {{hypervisor: {host}, uuid: 6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e00{number}, address: 127.0.0.2}}
    standby: {{secondary: sec1, address: 10.20.0.{number}}}
    ports: [9]
    needs: [{needs}]
"""


@pytest.fixture
def shop(plan_file: Path) -> Path:
    """db and app on hv1, front on hv2; app needs db, front needs app; web stays out of it."""
    text = plan_file.read_text().replace("\nsecondaries:", "\n  hv2: {site: east}\n  hv3: {site: east}\nsecondaries:")
    text = text.replace("\nservices:", "\ngroups:\n  shop: {services: [front, app, db]}\nservices:")
    for number, (name, host, needs) in enumerate([("db", "hv1", ""), ("app", "hv1", "db"), ("front", "hv2", "app")]):
        text += SERVICE.format(name=name, host=host, number=20 + number, needs=needs)
    plan_file.write_text(text)
    return plan_file


# -- the plan --------------------------------------------------------------------------------------------------


def test_a_good_plan_with_groups(shop: Path) -> None:
    plan = load_plan(shop)
    assert plan.groups["shop"].services == ["front", "app", "db"]
    assert plan.services["app"].needs == ["db"]
    assert plan.secondaries["sec1"].starts_at_once is None


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "[front, app, db]",
            "[front, ap]",
            ["groups.shop.services[1]: no service is called 'ap' (known: "],
        ),
        ("[front, app, db]", "[front, app, app]", ["groups.shop.services[2]: service app is in group shop already"]),
        ("[front, app, db]", "[]", ["groups.shop.services: "]),
        (
            "  shop: {services: [front, app, db]}",
            "  shop: {services: [front, app]}\n  back: {services: [db, app]}",
            ["groups.back.services[1]: service app is in group shop already"],
        ),
        ("needs: [db]", "needs: [bd]", ["services.app.needs[0]: no service is called 'bd' (known: "]),
        ("needs: []", "needs: [db]", ["services.db.needs[0]: is a circle: db needs db"]),
        ("needs: []", "needs: db", ["services.db.needs: "]),
        ("    receiver:", "    starts_at_once: 0\n    receiver:", ["secondaries.sec1.starts_at_once: "]),
    ],
)
def test_what_is_wrong_is_named_with_its_line(shop: Path, old: str, new: str, said: list[str]) -> None:
    text = shop.read_text()
    assert old in text
    shop.write_text(text.replace(old, new, 1))
    with pytest.raises(PlanError) as caught:
        load_plan(shop)
    (problem,) = caught.value.problems
    assert all(part in str(problem) for part in said), str(problem)
    line = shop.read_text().splitlines()[problem.line - 1]
    assert problem.key.split(".")[-1].split("[")[0] in line


def test_every_circle_is_named(shop: Path) -> None:
    text = shop.read_text().replace("needs: []", "needs: [front]", 1)
    shop.write_text(text.replace("    max_staleness", "    needs: [web]\n    max_staleness"))
    with pytest.raises(PlanError) as caught:
        load_plan(shop)
    found = [str(problem) for problem in caught.value.problems]
    assert len(found) == 2
    assert any("is a circle: web needs web; none could start first" in text for text in found)
    (circle,) = [text for text in found if "web" not in text]
    # Wherever it is begun, it is said in the direction of the plan.
    assert "app needs db" in circle or "db needs front" in circle
    assert circle.count(" needs ") == 3


def test_as_many_starts_as_the_plan_says_or_the_machine_bears(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def small(_self: LxdServer) -> Size:
        return Size(cores=2, memory=3 * 2**30)

    assert LiveConditions(Environment(load_plan(shop))).most("sec1") == STARTS_WHEN_NOT_KNOWN
    with monkeypatch.context() as patch:
        patch.setattr(LxdServer, "size", small)
        assert LiveConditions(Environment(load_plan(shop))).most("sec1") == 3
    shop.write_text(shop.read_text().replace("    receiver:", "    starts_at_once: 7\n    receiver:"))
    assert LiveConditions(Environment(load_plan(shop))).most("sec1") == 7


@pytest.mark.parametrize("answer", [{}, {"cpu": {"total": 2}}, {"cpu": {"total": 2}, "memory": {"total": None}}])
def test_a_server_that_does_not_say_how_big_it_is(tmp_path: Path, answer: dict[str, Any]) -> None:
    said = answer

    class Answer:
        def json(self) -> dict[str, Any]:
            return {"metadata": said}

    class Server(LxdServer):
        def _guard(self, _call: Callable[[Any], Any]) -> Any:
            return Answer()

    server = Server("sec1", tmp_path / "no.socket", SystemClock())
    with pytest.raises(ExternalError, match="sec1 does not say how big its machine is"):
        server.size()
    said = {"cpu": {"total": 2}, "memory": {"total": 4096}}
    assert server.size() == Size(2, 4096)


# -- the command -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--host", "hv9"], "has no hypervisor 'hv9' (known: hv1, hv2, hv3"),
        (["--site", "est"], "has no site 'est' (known: east, main; did you mean east?)"),
        (["--group", "shpo"], "has no group 'shpo' (known: shop; did you mean shop?)"),
        (["--host", "hv3"], "has no service on host hv3"),
        (["web", "--group", "shop"], "name one service"),
        (["--host", "hv1", "--site", "main"], "name one service"),
        (["--host", "hv1", "--primary-is-down", "web"], "web is not the host's name; type hv1 to mean it"),
        (["--site", "main", "--primary-is-down", "hv1"], "hv1 is not the site's name; type main to mean it"),
        (["--group", "shop", "--primary-is-down", "db"], "db is not the group's name; type shop to mean it"),
        (["--group", "shop", "--restore-point", "latest"], "--restore-point belongs to one service"),
    ],
)
def test_wrong_words(shop: Path, words: list[str], said: str) -> None:
    done = vcrecovery("failover", *words, "--plan", shop)
    assert done.returncode == ExitCode.USAGE, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert said in done.stderr
    assert done.stdout == ""


def served(folder: Path, *names: str) -> None:
    journal = Journal(folder / "state/journal.db")
    for name in names:
        episode = journal.open(name, "a test", Request(by="test"), 1.0)
        finish(journal, episode, 2.0, f"{name} is served by its standby")


def test_what_cannot_be_failed_over_is_said_for_each(shop: Path, tmp_path: Path) -> None:
    served(tmp_path, "db")
    done = vcrecovery("failover", "--host", "hv1", "--plan", shop)
    assert done.returncode == ExitCode.REFUSED, done.stderr
    (said,) = done.stderr.strip().splitlines()
    assert "host hv1: 2 of 3 services are not served by their standbys: web, app" in said
    table = done.stdout.split("\n\n")[-1].splitlines()
    assert [line.split()[0] for line in table] == ["service", "web", "db", "app"]
    assert "nothing to do" in table[2]
    assert "no standby to start: LXD on secondary sec1" in table[1]
    # As they come, each line says whose it is.
    live = done.stdout.split("\n\n")[0].splitlines()
    assert {line.split()[0] for line in live} == {"web", "app"}


def test_it_goes_on_although_nobody_reads(shop: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "vcrecovery", "failover", "--host", "hv1", "--plan", str(shop)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        assert program.stdout is not None
        program.stdout.close()
        program.wait(120)
    journal = Journal(tmp_path / "state/journal.db")
    assert [journal.history(name, 1)[0].outcome for name in ("web", "db", "app")] == [Outcome.REFUSED] * 3


def test_json_of_a_group(shop: Path, tmp_path: Path) -> None:
    served(tmp_path, "db", "app")
    done = vcrecovery("failover", "--group", "shop", "--json", "--plan", shop)
    assert done.returncode == ExitCode.REFUSED, done.stderr
    data = json.loads(done.stdout)
    assert (data["group"], data["ok"]) == ("shop", False)
    assert {entry["service"]: (entry["result"], entry["exit_code"]) for entry in data["services"]} == {
        "front": ("refused", ExitCode.REFUSED),
        "app": ("nothing to do", ExitCode.DONE),
        "db": ("nothing to do", ExitCode.DONE),
    }


def test_a_site_that_is_served_already(shop: Path, tmp_path: Path) -> None:
    served(tmp_path, "web", "db", "app")
    done = vcrecovery("failover", "--site", "main", "--plan", shop)
    assert (done.returncode, done.stderr) == (ExitCode.DONE, "")
    assert done.stdout.count("nothing to do") == 3


def test_json_of_one_service(shop: Path, tmp_path: Path) -> None:
    served(tmp_path, "db")
    data = json.loads(vcrecovery("failover", "db", "--json", "--plan", shop).stdout)
    assert (data["service"], data["services"][0]["result"]) == ("db", "nothing to do")
    refused = vcrecovery("failover", "web", "--json", "--plan", shop)
    assert refused.returncode == ExitCode.REFUSED
    assert json.loads(refused.stdout)["services"][0]["result"] == "refused"


# -- by itself -------------------------------------------------------------------------------------------------


class QuickClock:
    """Does not wait for long between two tries."""

    def now(self) -> float:
        return 1000.0

    def steady(self) -> float:
        return 1000.0

    def sleep(self, _seconds: float) -> None:
        threading.Event().wait(0.02)


class Quiet:
    def begun(self, episode: Episode, step: Step, sentence: str) -> None: ...

    def ended(self, episode: Episode, step: Step, at: float, evidence: Proof) -> None: ...

    def failed(self, episode: Episode, step: Step, at: float, error: str) -> None: ...

    def waiting(self, episode: Episode, at: float, sentence: str) -> None: ...

    def further(self, episode: Episode, at: float, sentence: str) -> None: ...


def test_the_watcher_keeps_the_same_order_and_tries_again(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    tries: Counter[str] = Counter()

    class SomeOutside:
        def __init__(self, _env: Environment, name: str, _tell: object, _let_go: object) -> None:
            self.name = name

        secondary = "sec1"

        def epoch_elsewhere(self) -> int:
            return 0

        def run_hooks(self, *_said: object) -> tuple[()]:
            return ()

        def carry_out(self, step: Step, _episode: Episode) -> Proof:
            if step is Step.START:
                tries[self.name] += 1
                if self.name == "db" and tries["db"] < 4:
                    raise ExternalError("LXD on secondary sec1 does not answer")
                started.append(self.name)
            return proof(step, reason="crashed", freshness=1.0) if step is Step.CONFIRM else proof(step)

    monkeypatch.setattr(locked, "FailoverSteps", SomeOutside)
    env = Environment(load_plan(shop), QuickClock())
    _ = env.journal
    recover = Unattended(env, Quiet())
    outcomes: dict[str, Outcome | None] = {}

    def work(name: str) -> None:
        outcomes[name] = recover(name, "a test", 999.0, Symptom.ENDED).outcome

    threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in ("front", "app", "db")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert outcomes == dict.fromkeys(("front", "app", "db"), Outcome.DONE)
    assert started == ["db", "app", "front"]
    assert not recover.at_work("db")


def test_a_pause_between_two_tries_ends_it_until_the_fence(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[Step] = []

    class LxdIsAway:
        def __init__(self, _env: Environment, _name: str, _tell: object, _let_go: object) -> None: ...

        secondary = "sec1"

        def epoch_elsewhere(self) -> int:
            return 0

        def run_hooks(self, *_said: object) -> tuple[()]:
            return ()

        def carry_out(self, step: Step, _episode: Episode) -> Proof:
            tries.append(step)
            if step is Step.CONFIRM and len(tries) == 2:
                env.journal.suspend("db", Suspension(999.0, None, "a new disk"))
            raise ExternalError("LXD on secondary sec1 does not answer")

    monkeypatch.setattr(locked, "FailoverSteps", LxdIsAway)
    env = Environment(load_plan(shop), QuickClock())
    with pytest.raises(RefusedError, match="automatic failover of db is suspended"):
        Unattended(env, Quiet())("db", "libvirt: shutoff (crashed)", 999.0, Symptom.ENDED)
    assert tries == [Step.CONFIRM] * 2
    # Nor does the watcher take it up while the pause holds; once it is over, it does.
    state = env.journal.state("db")
    assert cause_of(state, judge(state, Power.SHUTOFF, "crashed", 1000.0)) is None
    env.journal.suspend("db", None)
    state = env.journal.state("db")
    assert cause_of(state, judge(state, Power.SHUTOFF, "crashed", 1000.0)) is not None


def test_the_table_has_no_negative_time() -> None:
    """The clock was set back while they were failed over."""
    *_, line = table_of([Result("web", "done", "web is served by its standby", seconds=-3599.5)])
    assert line.split("  ")[0] == "web"
    assert "unknown" in line
    assert "-" not in line
