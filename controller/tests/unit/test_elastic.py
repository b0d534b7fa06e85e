"""Secondaries that are made for a while: nothing is paid for that nobody uses, and nothing ends that somebody does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from journal_cases import finish
from set_clock import SetClock
from test_spare import with_a_spare

from evidence_cases import proof
from simulated.cloud import SimulatedCloud
from vcrecovery.balance.choice import Choice
from vcrecovery.balance.new_machines import Growth
from vcrecovery.core.episode import Episode, Outcome, Request, Step
from vcrecovery.core.lease import Lease, LeaseState, not_before
from vcrecovery.drivers.provisioner import Made
from vcrecovery.errors import ExternalError
from vcrecovery.operations.elastic import room
from vcrecovery.operations.elastic.keeper import LeaseKeeper, begin_release
from vcrecovery.operations.environment import Environment, Provisioner, folder_of
from vcrecovery.operations.rebalance import request_of
from vcrecovery.plan.elastic import Elastic
from vcrecovery.plan.elastic import Provisioner as ProvisionerSection
from vcrecovery.plan.leased import LeasedSecondary, addresses_there, leased_of
from vcrecovery.plan.places import comes_from, is_elsewhere, place, places_of, put
from vcrecovery.plan.problems import PlanError
from vcrecovery.report.findings import Level
from vcrecovery.report.secondaries import of_secondaries
from vcrecovery.store.drained import Drained, DrainedBook
from vcrecovery.store.leases import LeaseBook
from vcrecovery.store.lock import one_keeper

ELASTIC = """
  elastic:
    template: {{cores: 2, memory: 4GiB, networks: [10.30.1.1/24, 10.30.2.1/24], options: {{image: debian}}}}
    provisioner: {{command: [/usr/local/sbin/cloud], timeout: 5m}}
    certificate: {folder}/controller.crt
    key: {folder}/controller.key
    at_most: 2
    join_within: 10m
"""
COMMAND = "{command: [/usr/local/sbin/cloud], timeout: 5m}"
LIBVIRT = "{hypervisor: hv1, image: a.qcow2, network: br0, addresses: [192.0.2.21/24, 192.0.2.21/16]}"
SPARE = "spare: {secondary: sec2, address: 10.21.0.10}"


class Lxd:
    """Of the machine that was made: it answers once it is up."""

    client = "lxc"

    def __init__(self) -> None:
        self.up, self.pool, self.found = True, "dir", list[Any]()

    def _guard(self) -> None:
        if not self.up:
            raise ExternalError("LXD on secondary elastic-1 does not answer: timed out", "start it")

    def pool_driver(self, _pool: str) -> str | None:
        self._guard()
        return self.pool or None

    def network_exists(self, bridge: str) -> bool:
        self._guard()
        return bridge == "br-standbys"

    def all(self) -> list[Any]:
        self._guard()
        return self.found

    def get(self, name: str) -> Any | None:
        return next((one for one in self.all() if one.name == name), None)


class Env(Environment):
    made_lxd: Lxd
    cloud: SimulatedCloud

    def provisioner(self, _elastic: Elastic) -> Provisioner:
        return self.cloud

    def lxd_of(self, _lease: Lease) -> Any:
        return self.made_lxd


class Killed(BaseException):
    """The watcher is."""


class Site:
    """web, which has a spare, a cloud, and a keeper of what that makes."""

    def __init__(self, file: Path) -> None:
        (file.parent / "controller.crt").write_text("TRUSTED")
        balance = "balance:\n  do: move" + ELASTIC.format(folder=file.parent)
        plan = with_a_spare(file, SPARE, ("services:", f"{balance}\nservices:"))
        self.clock, self.cloud, self.lxd = SetClock(), SimulatedCloud(), Lxd()
        self.env = Env(plan, self.clock)
        self.env.made_lxd, self.env.cloud = self.lxd, self.cloud
        self.env.__dict__["lxd"] = {f"elastic-{number}": self.lxd for number in range(1, 9)}
        self.elastic = plan.balance.elastic
        assert self.elastic is not None
        self.book = LeaseBook(self.env.journal)
        self.keeper = LeaseKeeper(self.env, self.elastic)

    def ask(self) -> Lease:
        network = "10.30.1.1/24"
        lease = self.book.ask("token", "sec1 is overloaded", network, {"web": "10.30.1.2"}, self.clock.now(), 2)
        assert lease is not None
        return lease

    def go_on(self, seconds: float = 0.0, every: float = 5.0) -> None:
        until = self.clock.time + seconds
        self.keeper.turn()
        while self.clock.time < until:
            self.clock.sleep(every)
            self.keeper.turn()

    @property
    def lease(self) -> Lease:
        return self.book.newest(1)[0]

    def said(self) -> list[str]:
        return [str(finding) for finding in of_secondaries(self.env)]


@pytest.fixture
def site(plan_file: Path) -> Site:
    return Site(plan_file)


# -- well --------------------------------------------------------------------------------------------------------------


def test_one_is_made_joins_and_is_given_back(site: Site) -> None:
    site.ask()
    site.go_on(5)
    lease = site.lease
    assert (lease.state, lease.machine, lease.address) == (LeaseState.JOINED, "i-1", "192.0.2.1")
    there = site.env.plan.secondaries["elastic-1"]
    assert isinstance(there, LeasedSecondary)
    assert str(there.network.address) == "10.30.1.1/24"
    assert site.said()[0].startswith("elastic-1: made for a while, since ")
    assert "nobody serves there; `vcrecovery drain elastic-1`" in site.said()[0]
    begin_release(site.env, "elastic-1")
    assert "elastic-1" in DrainedBook(site.env.journal).all()
    site.go_on(5)
    assert (site.lease.state, site.cloud.paid_for) == (LeaseState.GONE, 0)
    assert leased_of(site.env.plan) == {}
    assert DrainedBook(site.env.journal).all() == {}
    assert site.said() == []


def test_what_it_is_told(site: Site) -> None:
    site.ask()
    site.go_on(5)
    given = site.cloud.given["token"]
    assert (given["name"], given["cores"], given["memory"]) == ("elastic-1", 2, 4 << 30)
    assert given["options"] == {"image": "debian"}
    lxd = given["lxd"]
    assert (lxd["trusted_certificate"], lxd["network"], lxd["bridge"]) == ("TRUSTED", "10.30.1.1/24", "br-standbys")
    folder = folder_of(site.env.plan, site.lease)
    assert lxd["server_certificate"] == (folder / "server.crt").read_text()
    files = {one["path"]: one["content"] for one in yaml.safe_load(given["user_data"])["write_files"]}
    assert files["/var/lib/lxd/server.crt"] == lxd["server_certificate"]
    assert files["/var/lib/lxd/server.key"] == lxd["server_key"]
    # Its key is nobody's business any more.
    assert not (folder / "server.key").exists()
    # Whoever is told to end it is told no secret.
    begin_release(site.env, "elastic-1")
    site.go_on(5)
    assert not folder.exists()


def test_it_is_found_where_it_was_made_though_the_template_has_changed(site: Site) -> None:
    """A cloud asks one region at a time: in another one there is no such machine, and it would be paid for unseen."""
    made_in = {"region": "eu-1"}

    def in_its_region(call: Callable[[Mapping[str, Any]], list[Made]]) -> Callable[[Mapping[str, Any]], list[Made]]:
        return lambda order: call(order) if order["options"] == made_in else []

    for verb in ("describe", "destroy"):
        setattr(site.cloud, verb, in_its_region(getattr(site.cloud, verb)))
    assert site.elastic is not None
    options = site.elastic.template.options
    options.clear()
    options.update(made_in)
    (lease,) = room.ask(site.env, site.elastic, Growth(Choice(), ["new-1"]), "sec1 is overloaded")
    site.go_on(5)
    assert site.lease.state is LeaseState.JOINED
    options["region"] = "eu-2"
    begin_release(site.env, lease.name)
    site.go_on(5)
    assert (site.lease.state, site.cloud.paid_for) == (LeaseState.GONE, 0)


def test_one_that_takes_its_time_joins_when_it_is_up(site: Site) -> None:
    site.lxd.up = False
    site.ask()
    site.go_on(300)
    assert site.lease.is_coming
    assert "being made since" in site.said()[0]
    site.lxd.up = True
    site.go_on(5)
    assert site.lease.state is LeaseState.JOINED


# -- a provisioner that cannot be trusted ------------------------------------------------------------------------------


def breaks(site: Site, verb: str, *faults: Callable[[Mapping[str, Any]], list[Made]]) -> None:
    site.cloud.faults[verb] = list(faults)


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("fails", "no quota"),
        ("lies", "one machine was to be made, and there is none"),
        ("makes_two", "one machine was to be made, and there are 2: i-1, i-2"),
        ("hangs", "did not finish within 600 s, and was killed"),
    ],
)
def test_whatever_else_it_makes_is_destroyed(site: Site, fault: str, why: str) -> None:
    breaks(site, "create", getattr(site.cloud, fault))
    site.ask()
    site.go_on(15)
    assert site.cloud.paid_for == 0
    # Perhaps the cloud goes on with it: it is looked at once more.
    assert site.lease.state is LeaseState.RELEASING
    site.cloud.make("token")
    site.go_on(310)
    assert (site.lease.state, site.cloud.paid_for) == (LeaseState.GONE, 0)
    assert why in site.lease.failure
    assert leased_of(site.env.plan) == {}


@pytest.mark.parametrize("trouble", ["silent", "no pool"])
def test_one_that_never_joins_is_destroyed(site: Site, trouble: str) -> None:
    site.lxd.up, site.lxd.pool = trouble != "silent", ""
    site.ask()
    site.go_on(590)
    assert site.lease.state is LeaseState.MADE
    site.go_on(30)
    assert (site.lease.state, site.cloud.paid_for) == (LeaseState.GONE, 0)
    assert site.lease.failure.startswith("it has not joined within 10 min: ")


def test_one_that_makes_a_second_one_later_is_not_believed(site: Site) -> None:
    site.lxd.up = False
    site.ask()
    site.go_on(10)
    site.cloud.make("token")
    site.go_on(10)
    assert (site.lease.state, site.cloud.paid_for) == (LeaseState.GONE, 0)


@pytest.mark.parametrize("fault", ["fails", "says so and does not"])
def test_what_cannot_be_destroyed_is_said_loudly_and_tried_again(site: Site, fault: str) -> None:
    site.ask()
    site.go_on(5)
    begin_release(site.env, "elastic-1")
    nothing: Callable[[Mapping[str, Any]], list[Made]] = site.cloud.fails if fault == "fails" else lambda _order: []
    breaks(site, "destroy", *[nothing] * 3)
    site.go_on(5)
    (finding, _drained) = of_secondaries(site.env)[::-1][:2]
    assert finding.level is Level.ATTENTION
    assert "elastic-1: it (i-1) is not destroyed, and may be paid for: " in str(finding)
    assert "by hand: `cloud destroy elastic-1`" in str(finding)
    before = site.cloud.calls.count("destroy")
    site.go_on(50)
    assert site.cloud.calls.count("destroy") == before
    site.go_on(3600)
    assert (site.lease.state, site.cloud.paid_for) == (LeaseState.GONE, 0)


@pytest.mark.parametrize(("tries", "seconds"), [(0, 60.0), (1, 120.0), (3, 480.0), (6, 3600.0), (99, 3600.0)])
def test_what_fails_is_tried_again_ever_later(tries: int, seconds: float) -> None:
    assert Lease(1, "1", LeaseState.RELEASING, "x", "n", 0.0, tries=tries).again_at(1000.0) == 1000.0 + seconds


def test_after_some_that_never_joined_it_waits_ever_longer(site: Site) -> None:
    def failed(number: int) -> Lease:
        return Lease(number, str(number), LeaseState.GONE, "x", "n", 0.0, gone_at=1000.0 * number)

    joined = Lease(1, "1", LeaseState.GONE, "x", "n", 0.0, joined_at=5.0, gone_at=9.0)
    assert not_before([joined], 900, 86400) == 0.0
    assert not_before([failed(2), joined], 900, 86400) == 2900.0
    assert not_before([failed(4), failed(3), failed(2), joined], 900, 86400) == 4000 + 3600
    assert not_before([failed(n) for n in range(20, 0, -1)], 900, 86400) == 20000 + 86400


# -- killed anywhere ---------------------------------------------------------------------------------------------------


def test_killed_at_any_point_the_next_one_goes_on(plan_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each call of the cloud, before and after it, and before each word in the book."""
    text = plan_file.read_text()
    for kill_at in range(1, 60):
        folder = plan_file.parent / str(kill_at)
        folder.mkdir()
        file = folder / "plan.yml"
        file.write_text(text.replace(str(plan_file.parent), str(folder)))
        site = Site(file)
        left = kill_at

        def reach() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Killed

        def killable(call: Callable[..., Any]) -> Callable[..., Any]:
            def around(*args: Any, **more: Any) -> Any:
                reach()
                found = call(*args, **more)
                reach()
                return found

            return around

        for verb in ("create", "describe", "destroy"):
            monkeypatch.setattr(site.cloud, verb, killable(getattr(site.cloud, verb)))
        monkeypatch.setattr(site.keeper._book, "change", killable(site.keeper._book.change))
        site.ask()
        was_killed = False
        for gives_it_back in (False, True):
            if gives_it_back:
                begin_release(site.env, "elastic-1")
            for _ in range(4):
                try:
                    site.go_on(5)
                except Killed:
                    was_killed = True
                    assert site.elastic is not None
                    site.keeper = LeaseKeeper(site.env, site.elastic)
                assert site.cloud.paid_for <= 1
            if site.lease.state is LeaseState.JOINED:
                assert site.cloud.paid_for == 1
        assert (site.lease.state, site.cloud.paid_for) == (LeaseState.GONE, 0), kill_at
        if not was_killed:
            assert kill_at > 15
            return
    pytest.fail("it is never done")


# -- never while something is on it ------------------------------------------------------------------------------------


def goes_there(site: Site, *, done: bool) -> None:
    """web moves to it."""
    journal, now = site.env.journal, site.clock.now()
    finish(journal, journal.open("web", "x", Request(), 1.0), 2.0)
    episode = journal.open("web", "sec1 is overloaded", request_of("elastic-1", "balance"), now)
    if done:
        does(site, episode, Step.CONFIRM, Step.COPY, Step.STOP, Step.LAST_COPY, Step.START, Step.PROBE)
        journal.close(episode, Outcome.DONE, "it is there", now)


def does(site: Site, episode: Episode, *steps: Step) -> None:
    journal, now = site.env.journal, site.clock.now()
    for step in steps:
        journal.end(journal.begin(episode, step, now), now, ok=True, evidence=proof(step))


@pytest.mark.parametrize("what", ["serves", "comes", "container", "stopped one of somebody's"])
def test_it_is_not_ended_while_anything_is_on_it(site: Site, what: str) -> None:
    site.ask()
    site.go_on(5)
    if what in ("serves", "comes"):
        goes_there(site, done=what == "serves")
    else:
        running = what == "container"
        site.lxd.found = [
            SimpleNamespace(name="web" if running else "theirs", status="Running" if running else "Stopped")
        ]
    begin_release(site.env, "elastic-1")
    site.go_on(30)
    assert (site.lease.state, site.cloud.paid_for) == (LeaseState.JOINED, 1)
    assert DrainedBook(site.env.journal).all() == {}
    assert "destroy" not in site.cloud.calls


@pytest.mark.parametrize("asked_by", ["root", "balance"])
def test_it_is_not_ended_before_what_leaves_it_is_home(site: Site, asked_by: str) -> None:
    """Its container is off, and what it wrote last, nowhere else; if the move fails it serves here again."""
    site.ask()
    site.go_on(5)
    goes_there(site, done=True)
    journal, now = site.env.journal, site.clock.now()
    episode = journal.open("web", "elastic-1 is drained", request_of("sec1", asked_by), now)
    does(site, episode, Step.CONFIRM, Step.COPY, Step.STOP)
    site.lxd.found = [SimpleNamespace(name="web", status="Stopped")]
    if asked_by == "balance":
        begin_release(site.env, "elastic-1")
    else:
        DrainedBook(journal).write("elastic-1", Drained(now, asked_by))
    site.go_on(30)
    assert (site.lease.state, site.cloud.paid_for) == (LeaseState.JOINED, 1)
    assert "destroy" not in site.cloud.calls
    does(site, episode, Step.LAST_COPY, Step.START, Step.PROBE)
    journal.close(episode, Outcome.DONE, "it is home", now)
    if asked_by == "balance":
        begin_release(site.env, "elastic-1")
    site.go_on(10)
    assert (site.lease.state, site.cloud.paid_for) == (LeaseState.GONE, 0)


def test_what_went_home_leaves_its_files_behind(site: Site) -> None:
    site.ask()
    site.go_on(5)
    site.lxd.found = [SimpleNamespace(name="web", status="Stopped")]
    begin_release(site.env, "elastic-1")
    site.go_on(5)
    assert site.lease.state is LeaseState.GONE


def test_one_that_has_left_the_plan_is_not_paid_for_without_end(site: Site) -> None:
    """Nobody can have it go home. As long as its files are there they are kept."""
    site.ask()
    site.go_on(5)
    goes_there(site, done=True)
    del site.env.plan.services["web"]
    DrainedBook(site.env.journal).write("elastic-1", Drained(1.0, "root"))
    site.lxd.found = [SimpleNamespace(name="web", status="Stopped")]
    site.go_on(30)
    assert site.cloud.paid_for == 1
    assert "web (which is not in the plan any more) serves there" in site.said()[1]
    site.lxd.up = False
    site.go_on(2000)
    assert site.cloud.paid_for == 1
    # `lxc delete web` there, once it is not needed any more.
    site.lxd.up, site.lxd.found = True, []
    site.go_on(3600)
    assert (site.lease.state, site.cloud.paid_for) == (LeaseState.GONE, 0)


def test_of_one_that_does_not_answer_nobody_knows(site: Site) -> None:
    """Until it has not answered for as long as one may take to join: then the journal's word counts."""
    site.ask()
    site.go_on(5)
    site.lxd.up = False
    begin_release(site.env, "elastic-1")
    site.go_on(300)
    assert (site.lease.state, site.cloud.paid_for) == (LeaseState.RELEASING, 1)
    site.go_on(900)
    assert (site.lease.state, site.cloud.paid_for) == (LeaseState.GONE, 0)


def test_a_drained_one_is_given_back_once_it_is_empty(site: Site) -> None:
    site.ask()
    site.go_on(5)
    site.lxd.found = [SimpleNamespace(name="web", status="Running")]
    DrainedBook(site.env.journal).write("elastic-1", Drained(1.0, "root"))
    site.go_on(30)
    assert site.lease.state is LeaseState.JOINED
    site.lxd.found = []
    site.go_on(10)
    assert (site.lease.state, site.cloud.paid_for) == (LeaseState.GONE, 0)


def test_an_error_of_ours_with_one_holds_up_no_other(site: Site) -> None:
    site.ask()
    site.go_on(5)
    begin_release(site.env, "elastic-1")
    other = site.book.ask("other", "x", "10.30.2.1/24", {}, site.clock.now(), 2)
    assert other is not None

    def breaks_down(_order: Mapping[str, Any]) -> list[Made]:
        raise KeyError("region")

    breaks(site, "destroy", breaks_down)
    site.go_on(5)
    assert (site.lease.token, site.lease.state) == ("other", LeaseState.JOINED)
    assert any("KeyError" in line and "elastic-1" in line for line in site.said()), site.said()
    site.go_on(70)
    assert [lease.token for lease in site.book.open()] == ["other"]


def test_a_certificate_that_is_no_text_is_said(site: Site) -> None:
    assert site.elastic is not None
    site.elastic.certificate.write_bytes(b"\x30\x82\x01\xff")
    site.ask()
    site.go_on(400)
    assert site.lease.state is LeaseState.GONE
    assert "controller.crt cannot be read: it is no PEM" in site.lease.failure


def test_another_process_is_not_in_its_way(site: Site) -> None:
    site.ask()
    with one_keeper(site.env.plan.state_dir, "_elastic"):
        site.go_on(5)
    assert site.cloud.calls == []


# -- where services are ------------------------------------------------------------------------------------------------


def test_a_service_has_an_address_there_and_its_home_is_its_spare(site: Site) -> None:
    site.ask()
    site.go_on(5)
    plan = site.env.plan
    home = plan.services["web"].standby
    assert place(plan, "web", "elastic-1")
    there = plan.services["web"].standby
    assert (there.secondary, str(there.address)) == ("elastic-1", "10.30.1.2")
    assert there.spare is not None
    assert (there.spare.secondary, there.spare.address) == ("sec1", home.address)
    assert is_elsewhere(plan.services["web"])
    assert places_of(plan.services["web"]) == ["elastic-1", "sec1"]
    # From anywhere to anywhere: as the journal has it.
    for secondary in (None, "elastic-1", "sec2", "elastic-1", "sec1"):
        put(plan, "web", secondary)
        assert plan.services["web"].standby.secondary == (secondary or "sec1")
    assert plan.services["web"].standby == home
    # On its way home it is copied from there, and not from the spare that it has at home.
    comes_from(plan, "web", "elastic-1")
    back = plan.services["web"].standby
    assert back.spare is not None
    assert (back.secondary, back.spare.secondary, str(back.spare.address)) == ("sec1", "elastic-1", "10.30.1.2")
    assert not is_elsewhere(plan.services["web"])
    put(plan, "web", "sec1")
    assert plan.services["web"].standby == home
    comes_from(plan, "web", "sec2")
    assert plan.services["web"].standby == home
    assert not place(plan, "web", "elastic-7")
    assert plan.services["web"].standby == home


def test_addresses_are_those_of_services_that_can_follow(site: Site) -> None:
    assert site.elastic is not None
    found = addresses_there(site.env.plan, site.elastic.template.networks[0])
    assert found == {"web": "10.30.1.2"}


def test_another_process_sees_where_it_is(site: Site) -> None:
    site.ask()
    site.go_on(5)
    goes_there(site, done=True)
    env = Environment(site.env.plan.model_copy(deep=True), site.clock)
    assert env.plan.services["web"].standby.secondary == "elastic-1"
    assert "web serves there" in site.said()[0]


def test_two_are_not_asked_for_the_same_network_nor_too_many(site: Site) -> None:
    site.ask()
    now = site.clock.now()
    assert site.book.ask("b", "x", "10.30.1.1/24", {}, now, 2) is None
    assert site.book.ask("b", "x", "10.30.2.1/24", {}, now, 1) is None
    assert site.book.ask("b", "x", "10.30.2.1/24", {}, now, 2) is not None


# -- the plan ----------------------------------------------------------------------------------------------------------


def test_the_documented_section_is_good(plan_file: Path) -> None:
    text = (Path(__file__).resolve().parents[3] / "docs/elastic.md").read_text()
    shown, libvirt = re.findall(r"(?s)```yaml\n(.*?)```", text)
    assert ProvisionerSection.model_validate(yaml.safe_load(libvirt)["provisioner"]).libvirt is not None
    plan = with_a_spare(plan_file, SPARE, ("services:", f"{shown}\nservices:"))
    assert plan.balance.elastic is not None
    assert plan.balance.elastic.template.options == {"image": "debian-12", "size": "cx32", "region": "eu-1"}


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("at_most: 2", "at_most: 3", "at_most is 3, and template.networks has 2"),
        ("10.30.2.1/24", "10.30.1.9/24", "overlap: each machine has one of its own"),
        ("10.30.2.1/24", "10.30.2.1/31", "has no room for a standby"),
        ("10.30.2.1/24", "10.20.0.1/24", "overlaps that of secondary sec1"),
        ("[/usr/local/sbin/cloud]", "[]", "at least 1"),
        ("command: [/usr/local/sbin/cloud], ", "", "either command or libvirt says who makes machines"),
        ("timeout: 5m", f"libvirt: {LIBVIRT}", "either command or libvirt says who makes machines"),
        (COMMAND, f"{{libvirt: {LIBVIRT}}}", "provisioner.libvirt.addresses needs 2 different ones"),
        (COMMAND, f"{{libvirt: {LIBVIRT.replace('hv1', 'hv3')}}}", "no hypervisor is called 'hv3'"),
        (COMMAND, f"{{libvirt: {LIBVIRT.replace('a.qcow2', '/a.qcow2')}}}", "libvirt.image"),
        ("do: move", "do: nothing", "elastic needs somebody who looks at the loads"),
        ("cores: 2, ", "", "template.cores"),
        ("10m", "never", "'never' is no duration"),
    ],
)
def test_what_a_plan_must_not_say(plan_file: Path, old: str, new: str, said: str) -> None:
    balance = "balance:\n  do: move" + ELASTIC.format(folder=plan_file.parent)
    assert old in balance
    with pytest.raises(PlanError) as caught:
        with_a_spare(plan_file, SPARE, ("services:", f"{balance.replace(old, new)}\nservices:"))
    assert any(said in str(problem) for problem in caught.value.problems), caught.value.problems
