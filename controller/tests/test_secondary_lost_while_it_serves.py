"""The secondary on which a standby serves is lost for good: what it has written is given up, and the VM serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulated.observed import Observed
from vcrecovery.cli.standby import serve_from_the_primary
from vcrecovery.core.episode import Outcome
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import Side
from vcrecovery.core.text import day_and_time
from vcrecovery.drivers.lxd.instances import RUNNING, STOPPED
from vcrecovery.errors import RefusedError, UsageError, VCRecoveryError
from vcrecovery.standby.container import ACTIVE, EPOCH_KEY, ROLE_KEY, STANDBY
from vcrecovery.transfer.failback_orders import ORDER_KEY


def lost(folder: Path, when: str = "", **world: object) -> Observed:
    """Its VM has failed; then its secondary has: in a failback, where `when` names a moment of it."""
    site = Observed(folder, world=world)
    site.watch(1)
    site.crash("web")
    site.watch(30)
    if when:
        site.then[when] = [lambda: site.world.machine_ends("sec1")]
        site.failback()
    site.world.machine_ends("sec1")
    site.watch(5)
    return site


def has_the_vm_serve(site: Observed, *, watched_for: float = 0.0) -> None:
    """As the operator does it, by hand: suspended, started with its services, and DNS."""
    web = site.world.services["web"]
    site.suspend("web", None)
    web.is_started_by_hand()
    if web.power is not Power.RUNNING:
        site.start_primary("web")
    # Who does this knows what LXD may start.
    web.by_hand = False
    web.syncs = web.superseded = False
    # What the standby has written is given up.
    web.has_everything = True
    site.point_back("web")
    if watched_for:
        site.watch(watched_for)


def reset(site: Observed, word: str | None = "sec1", *, force: bool = True) -> None:
    site.by_hand(lambda env: serve_from_the_primary(env, "web", word, force=force))


def is_refused(site: Observed, text: str, word: str | None = "sec1", *, force: bool = True) -> VCRecoveryError:
    with pytest.raises(VCRecoveryError) as refused:
        reset(site, word, force=force)
    assert text in f"{refused.value.message} ({refused.value.hint})"
    assert site.journal.state("web").side is Side.STANDBY
    return refused.value


def test_each_refusal_has_the_way_out(memory_path: Path) -> None:
    site = lost(memory_path)
    has_the_vm_serve(site)
    is_refused(site, "`vcrecovery standby reset web --secondary-is-down sec1` says what that loses", None, force=False)
    (failover,) = site.journal.history("web")
    started = failover.started
    assert started is not None
    since = f"what the standby of web has written on sec1 since {day_and_time(started.begun_at)} would be lost"
    error = is_refused(site, since, force=False)
    assert isinstance(error, RefusedError)
    assert "once it is lost for good, add `--force`" in error.hint


def test_the_vm_serves_by_force(memory_path: Path) -> None:
    """The container comes back with its machine: it is ended, kept, and stands by again by the same verb."""
    site = lost(memory_path)
    web = site.world.services["web"]
    has_the_vm_serve(site, watched_for=300)
    reset(site)
    assert site.journal.state("web").side is Side.PRIMARY
    assert site.journal.who_serves()["web"].written_off == 1
    site.resume("web")
    site.watch(120)
    assert (web.power, web.open_ports) == (Power.RUNNING, True), site.log
    assert web.container.config["boot.autostart"] == "true"
    site.world.machine_is_back("sec1")
    assert web.serves
    site.watch(10)
    assert (web.container.status, web.container.config[ROLE_KEY]) == (STOPPED, ACTIVE), site.log
    assert web.container.config["boot.autostart"] == "false"
    assert any("has come back, and its VM serves: stopped, its files are kept until" in line for line in site.log)
    site.world.machine_ends("sec1")
    site.watch(5)
    site.world.machine_is_back("sec1")
    site.watch(30)
    assert web.container.status == STOPPED
    web.operators_word = web.by_hand = False
    site.reset("web")
    assert "its standby waits on sec1 again" in site.log[-1]
    assert web.container.config[ROLE_KEY] == STANDBY
    assert site.journal.who_serves()["web"].written_off is None
    web.syncs = True
    site.acknowledge("web")
    site.watch(30)
    site.crash("web")
    site.watch(30)
    assert web.serves, site.log
    site.watch(60)
    assert web.serves, site.log
    assert site.scheduler.broken is None


def test_what_was_given_up_takes_over_only_by_force(memory_path: Path) -> None:
    site = lost(memory_path)
    web = site.world.services["web"]
    site.watch(600)
    has_the_vm_serve(site)
    reset(site)
    site.resume("web")
    site.acknowledge("web")
    site.watch(15)
    site.world.machine_is_back("sec1")
    site.watch(10)
    site.crash("web")
    site.watch(30)
    assert not web.serves, site.log
    assert any("holds what it had when sec1 was lost; `vcrecovery standby reset web`" in line for line in site.log)


def test_what_lxd_starts_a_while_after_it_answers_is_ended_too(memory_path: Path) -> None:
    site = lost(memory_path)
    web = site.world.services["web"]
    has_the_vm_serve(site)
    reset(site)
    site.resume("web")
    site.world.machine_is_back("sec1", starts_after=8.0)
    site.watch(5)
    # What LXD reads before it is told otherwise.
    web.container.config["boot.autostart"] = "true"
    site.watch(10)
    assert web.container.status == STOPPED, site.log


def test_one_that_another_controller_has_claimed_is_left_alone(memory_path: Path) -> None:
    site = lost(memory_path)
    web = site.world.services["web"]
    has_the_vm_serve(site)
    reset(site)
    web.container.config[EPOCH_KEY] = "7"
    site.world.machine_is_back("sec1")
    site.watch(60)
    assert web.container.status == RUNNING, site.log


@pytest.mark.parametrize("when", ["ended copy", "ended stop", "journalled last copy"])
def test_in_a_failback_that_has_not_copied_everything(memory_path: Path, when: str) -> None:
    """It is given up, and a VM that boots later hears no order of it."""
    site = lost(memory_path, when)
    web = site.world.services["web"]
    has_the_vm_serve(site, watched_for=300)
    error = is_refused(site, "would be lost", force=False)
    assert "the files there are of two states" in error.message
    reset(site)
    state = site.journal.state("web")
    assert (state.side, state.open_episode) == (Side.PRIMARY, None), site.log
    newest = site.journal.history("web")[0]
    assert (newest.outcome, newest.reason) == (Outcome.GIVEN_UP, "its primary serves again")
    site.resume("web")
    site.watch(30)
    assert web.container.config[ORDER_KEY]
    site.world.machine_is_back("sec1")
    site.watch(10)
    assert (web.container.status, web.container.config[ROLE_KEY]) == (STOPPED, ACTIVE), site.log
    assert not web.container.config.get(ORDER_KEY)
    assert web.open_ports


def test_the_word_is_not_taken_against_what_is_seen(memory_path: Path) -> None:
    site = lost(memory_path)
    is_refused(site, "the VM of web does not answer")
    is_refused(site, "--secondary-is-down sec2 is not where web served", "sec2")
    has_the_vm_serve(site)
    for records in site.world.services["web"].all_records:
        records["A"] = {"10.9.9.9"}
    is_refused(site, "does not point at the primary")
    site.world.machine_is_back("sec1")
    is_refused(site, "you say that secondary sec1 is down, but its LXD answers")
    site.world.machine_ends("sec1")
    assert not isinstance(is_refused(site, "does not point at the primary"), UsageError)


def test_served_on_its_spare_it_is_refused(memory_path: Path) -> None:
    site = Observed(memory_path, world={"spare": "sec2", "spare_every": "5s"})
    site.watch(1)
    site.crash("web")
    site.watch(30)
    site.world.machine_ends("sec1")
    has = is_refused(site, "`vcrecovery failover web --to sec2 --secondary-is-down sec1`", force=False)
    assert isinstance(has, RefusedError)
    site.failover(to="sec2", secondary_is_down="sec1")
    site.world.machine_ends("sec2")
    is_refused(site, "served on its spare sec2", "sec2", force=False)
    is_refused(site, "`vcrecovery failover web --to sec1 --secondary-is-down sec2 --force`", "sec2")


def test_a_failover_whose_secondary_is_lost_is_given_up(memory_path: Path) -> None:
    """Its start was tried. The watcher, which goes on with it and fences the VM each time, is stopped for that."""
    site = Observed(memory_path)
    site.watch(1)
    site.then["ended fence"] = [lambda: site.world.machine_ends("sec1")]
    site.crash("web")
    site.watch(10)
    assert site.journal.state("web").open_episode is not None, site.log
    has_the_vm_serve(site)
    with pytest.raises(RefusedError, match="would be lost"):
        reset(site, force=False)
    reset(site)
    state = site.journal.state("web")
    assert (state.side, state.open_episode) == (Side.PRIMARY, None), site.log


def test_a_failback_whose_vm_has_everything_leaves_no_order_either(memory_path: Path) -> None:
    """A VM that boots before the container stands by again would take its old files."""
    site = lost(memory_path, "ended last copy")
    web = site.world.services["web"]
    has_the_vm_serve(site)
    reset(site, force=False)
    site.resume("web")
    assert web.container.config[ORDER_KEY]
    site.world.machine_is_back("sec1")
    site.watch(10)
    assert (web.container.status, web.container.config.get(ORDER_KEY, "")) == (STOPPED, "")
    site.change(["web"], {"standby_running": True})
    site.watch(10)
    assert web.container.status == STOPPED, "beside its VM"
