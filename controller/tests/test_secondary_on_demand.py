"""A secondary that is off until a failover boots it: its VM or its hypervisor has the disk, whoever is killed."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from simulated.environment import SimulatedEnvironment
from simulated.secondary_vm import SecondaryVm
from simulated.site import Site
from vcrecovery.cli import standby_modes
from vcrecovery.core.episode import Outcome, Step
from vcrecovery.core.power import OFF, Power
from vcrecovery.core.service_state import Side
from vcrecovery.errors import RefusedError
from vcrecovery.operations.drill_preflight import objections
from vcrecovery.operations.environment import place_of_disk
from vcrecovery.operations.secondary_power import SecondaryPower
from vcrecovery.report.findings import findings
from vcrecovery.report.look import look
from vcrecovery.report.protection import Protection, protection
from vcrecovery.report.query_pool import QueryPool
from vcrecovery.report.secondaries import of_secondaries
from vcrecovery.report.view import ServiceView
from vcrecovery.standby.container import ROLE_KEY, STANDBY
from vcrecovery.store.powered import PoweredBook


def made(folder: Path, *names: str, **plan: Any) -> tuple[Site, SecondaryVm]:
    site = Site(folder, {name: {} for name in names or ("web",)}, world={"on_demand": True}, plan=plan)
    return site, site.world.secondary_vms["sec1"]


def serves(site: Site, *names: str) -> None:
    for name in names or ("web",):
        state, web = site.journal.state(name), site.world.services[name]
        assert (state.side, state.open_episode) == (Side.STANDBY, None), site.log
        assert (web.serves, web.starts, web.switches, web.dns_address) == (True, 1, 1, "standby"), site.log
    assert site.scheduler.broken is None


def takes_files(site: Site, vm: SecondaryVm) -> bool:
    return vm.mounted and vm.power in OFF and place_of_disk(site.plan, "sec1").takes_files.exists()


def test_a_failover_boots_it(memory_path: Path) -> None:
    site, vm = made(memory_path)
    site.watch(5)
    assert takes_files(site, vm)
    site.crash("web")
    site.watch(60)
    serves(site)
    assert (vm.power, vm.boots, vm.mounted) == (Power.RUNNING, 1, False)
    (episode,) = site.journal.history("web")
    assert [record.step for record in episode.steps if record.ok][:4] == [
        *(Step.CONFIRM, Step.FENCE, Step.POWER_ON),
        Step.START,
    ]
    assert [(one.off_at, one.why) for one in PoweredBook(site.journal).of("sec1")] == [(None, "failover of web")]


def test_an_operator_boots_it_too(memory_path: Path) -> None:
    site, vm = made(memory_path)
    site.watch(1)
    site.switchover()
    serves(site)
    assert vm.boots == 1
    # Its VM was off by then: its last files arrived while the disk was still here.
    assert site.world.services["web"].final


def test_several_share_one_boot(memory_path: Path) -> None:
    site, vm = made(memory_path, "web", "db", "mail")
    site.watch(1)
    for name in ("web", "db", "mail"):
        site.crash(name)
    site.watch(90)
    serves(site, "web", "db", "mail")
    assert vm.boots == 1


def failed_over(folder: Path, **plan: Any) -> tuple[Site, SecondaryVm]:
    site, vm = made(folder, **plan)
    site.watch(1)
    site.crash("web")
    site.watch(60)
    serves(site)
    return site, vm


def test_it_is_powered_off_a_while_after_the_way_back_and_takes_files_again(memory_path: Path) -> None:
    site, vm = failed_over(memory_path, secondary={"power_off_after": "2m"})
    site.watch(600)
    assert vm.power is Power.RUNNING, site.log
    site.serve_from_primary("web")
    site.watch(60)
    assert vm.power is Power.RUNNING
    site.watch(90)
    assert takes_files(site, vm), site.log
    (powered,) = PoweredBook(site.journal).of("sec1")
    assert powered.off_at is not None
    before = site.world.services["web"].heartbeat_file
    site.watch(30)
    assert site.world.services["web"].heartbeat_file != before
    site.crash("web")
    site.failover()
    assert (vm.boots, site.world.services["web"].serves) == (2, True), site.log
    assert site.scheduler.broken is None


@pytest.mark.parametrize("relays", [True, False])
def test_files_of_others_arrive_while_it_is_on_where_they_are_handed_on(relays: bool, memory_path: Path) -> None:
    site, vm = made(memory_path, "web", "db")
    vm.relays = relays
    site.watch(1)
    site.crash("web")
    site.watch(40)
    before = site.world.services["db"].heartbeat_file
    site.watch(300)
    assert vm.power is Power.RUNNING
    assert (site.world.services["db"].heartbeat_file != before) is relays
    site.crash("db")
    site.watch(30)
    assert site.world.services["db"].serves is relays


BOUNDARIES = range(1, 31)


def test_every_boundary_is_meant(memory_path: Path) -> None:
    site, _ = made(memory_path)
    site.watch(1)
    site.boundaries = 0
    site.crash("web")
    site.watch(60)
    assert site.boundaries == len(BOUNDARIES)


@pytest.mark.parametrize("who_goes_on", ["the watcher", "an operator"])
@pytest.mark.parametrize("second_kill", [None, 2, 5])
@pytest.mark.parametrize("first_kill", BOUNDARIES)
def test_killed_at(first_kill: int, second_kill: int | None, who_goes_on: str, memory_path: Path) -> None:
    site, vm = made(memory_path)
    site.watch(1)
    site.boundaries = 0
    site.crash("web")

    def goes_on() -> None:
        if who_goes_on == "the watcher":
            site.kill_watcher()
            site.watch(60, again=False)
        else:
            site.failover()

    site.kill_at = first_kill
    site.watch(60, again=False)
    if second_kill is not None:
        site.kill_at = site.boundaries + second_kill
        goes_on()
    site.kill_at = None
    goes_on()
    serves(site)
    assert (vm.boots, vm.mounted) == (1, False)
    assert [episode.outcome for episode in site.journal.history("web")] == [Outcome.DONE]


@pytest.mark.parametrize("place", ["in the middle of mount", "mounted"])
def test_killed_while_it_is_powered_off(place: str, memory_path: Path) -> None:
    site, vm = failed_over(memory_path, secondary={"power_off_after": "1m"})
    site.serve_from_primary("web")
    site.kill_at = place
    site.watch(120)
    assert site.kill_at is None
    assert takes_files(site, vm), site.log
    assert site.scheduler.broken is None


def test_its_qemu_is_killed_during_the_boot(memory_path: Path) -> None:
    site, vm = made(memory_path)
    site.watch(1)
    vm.is_killed_after = 5.0
    site.crash("web")
    site.watch(90)
    serves(site)
    assert vm.boots == 2


def test_one_that_libvirt_does_not_start_has_given_its_disk_back(memory_path: Path) -> None:
    site, vm = made(memory_path)
    site.watch(1)
    vm.fails_to_start = True
    site.crash("web")
    site.failover()
    assert "did not start VM" in site.log[-1], site.log
    assert takes_files(site, vm), site.log
    vm.fails_to_start = False
    site.failover()
    serves(site)


def test_one_that_hangs_during_its_boot_is_said_and_goes_on_later(memory_path: Path) -> None:
    site, vm = made(memory_path, secondary={"power_on_within": "1m"})
    site.watch(1)
    vm.boots_within = None
    site.crash("web")
    site.failover()
    assert "LXD on secondary sec1 does not answer 60 s after its VM was reset" in site.log[-1]
    assert vm.boots == 2
    vm.ends("destroyed")
    vm.boots_within = 20.0
    site.failover()
    serves(site)


def test_one_that_hangs_during_its_boot_is_reset_once_for_all_who_wait(memory_path: Path) -> None:
    site, vm = made(memory_path, "web", "db", secondary={"power_on_within": "1m"})
    site.watch(1)
    vm.hangs = 1
    site.crash("web")
    site.watch(20, to_the_end=False)
    site.crash("db")
    site.watch(120)
    serves(site, "web", "db")
    assert vm.boots == 2
    assert any("its LXD has not answered for 60 s: its VM is reset" in line for line in site.log), site.log
    (ended, now) = PoweredBook(site.journal).of("sec1")
    assert ended.off_at is not None
    assert now.off_at is None


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_the_clock_is_set_while_its_boot_hangs(jump: float, memory_path: Path) -> None:
    site, vm = made(memory_path, secondary={"power_on_within": "1m"})
    site.watch(1)
    vm.hangs = 1
    site.crash("web")
    site.watch(20, to_the_end=False)
    site.scheduler.set_by += jump
    site.watch(120)
    serves(site)
    assert vm.boots == 2


@pytest.mark.parametrize("kill", BOUNDARIES)
def test_killed_around_its_reset(kill: int, memory_path: Path) -> None:
    site, vm = made(memory_path, secondary={"power_on_within": "1m"})
    site.watch(1)
    site.boundaries = 0
    vm.hangs = 1
    site.crash("web")
    site.kill_at = kill
    site.watch(90, again=False)
    site.kill_at = None
    site.kill_watcher()
    site.watch(240, again=False)
    serves(site)
    assert (vm.boots, vm.mounted) == (2, False)


@pytest.mark.parametrize("by_hand", [False, True])
def test_one_whose_lxd_is_silent_is_not_reset_while_it_may_be_in_use(by_hand: bool, memory_path: Path) -> None:
    site, vm = made(memory_path, "web", "db", secondary={"power_on_within": "1m"})
    site.watch(1)
    if by_hand:
        vm.unmount()
        vm.boots_within = None
        assert vm.start()
        site.watch(120)
    else:
        site.crash("web")
        site.watch(60)
        serves(site)
        vm.lxd_up = False
    site.crash("db")
    site.failover(name="db")
    assert vm.boots == 1, site.log


def test_a_switchover_that_cannot_boot_it_goes_back(memory_path: Path) -> None:
    site, vm = made(memory_path)
    site.watch(1)
    vm.fails_to_start = True
    site.switchover()
    web = site.world.services["web"]
    assert (web.power, web.serves) == (Power.RUNNING, False), site.log
    site.watch(10)
    assert takes_files(site, vm), site.log


def test_its_hypervisor_reboots_while_a_standby_serves(memory_path: Path) -> None:
    site, vm = failed_over(memory_path)
    vm.ends("")
    site.watch(60)
    assert (vm.power, vm.boots) == (Power.RUNNING, 2), site.log
    assert site.world.services["web"].serves
    assert site.scheduler.broken is None


def test_its_hypervisor_reboots_while_it_is_off(memory_path: Path) -> None:
    site, vm = made(memory_path)
    site.watch(1)
    vm.unmount()
    site.watch(5)
    assert takes_files(site, vm)


@pytest.mark.parametrize("kept_on", [False, True])
def test_it_is_noted_what_it_holds_before_it_ends_otherwise(kept_on: bool, memory_path: Path) -> None:
    """As with its hypervisor's power, or by hand: else its standbys would be known as they were long before, or not."""
    site, vm = failed_over(memory_path)
    note = place_of_disk(site.plan, "sec1").note
    site.watch(120)
    assert not note.exists()  # one that serves is not known as it will be
    site.serve_from_primary("web")
    if kept_on:
        site.by_hand(lambda env: SecondaryPower(env, "sec1").keep_on(3600))
    site.watch(70)
    vm.ends("")
    site.watch(5)
    assert takes_files(site, vm)
    noted = json.loads(note.read_text())["instances"]["web"]["expanded_config"]
    assert (noted[ROLE_KEY], noted) == (STANDBY, site.world.services["web"].container.config)
    assert site.scheduler.broken is None


def test_one_that_somebody_ends_while_a_standby_serves_is_left_alone(memory_path: Path) -> None:
    site, vm = failed_over(memory_path)
    vm.ends("destroyed")
    site.watch(60)
    assert (vm.power, vm.mounted) == (Power.SHUTOFF, False)
    assert any("ended by somebody (destroyed): left alone" in line for line in site.log), site.log
    site.by_hand(lambda env: (SecondaryPower(env, "sec1").power_on("by hand"), None)[1])


def test_one_with_a_saved_memory_is_left_alone(memory_path: Path) -> None:
    site, vm = made(memory_path)
    vm.unmount()
    vm.saved = True
    site.watch(5)
    assert not vm.mounted
    site.crash("web")
    site.failover()
    assert "virsh managedsave-remove sec1" in site.log[-1]
    assert vm.boots == 0


def test_somebody_starts_it_by_hand(memory_path: Path) -> None:
    site, vm = made(memory_path, secondary={"power_off_after": "1m"})
    site.watch(1)
    assert not vm.start()  # QEMU does not get the disk
    vm.unmount()
    assert vm.start()
    site.watch(40)
    assert not vm.mounted
    site.watch(60)
    assert takes_files(site, vm), site.log
    assert site.scheduler.broken is None


def test_one_that_fails_during_the_boot_for_another_waits_for_it(memory_path: Path) -> None:
    site, vm = made(memory_path, "web", "db")
    site.watch(1)
    site.crash("web")
    site.watch(8, to_the_end=False)
    assert vm.power is Power.RUNNING
    site.crash("db")
    site.failover(name="db")
    site.watch(30)
    serves(site, "web", "db")
    assert vm.boots == 1


def test_an_operator_boots_one_that_was_ended_while_a_standby_served(memory_path: Path) -> None:
    site, vm = failed_over(memory_path)
    site.kill_watcher()
    vm.ends("destroyed")
    site.failover()
    assert (vm.boots, site.world.services["web"].serves) == (2, True), site.log
    assert site.scheduler.broken is None


def test_a_failover_right_after_its_hypervisor_has_booted_mounts_the_disk_first(memory_path: Path) -> None:
    site, vm = made(memory_path)
    vm.unmount()
    site.crash("web")
    site.failover()
    serves(site)
    assert vm.boots == 1


def shown(site: Site) -> tuple[ServiceView, list[str]]:
    found: list[ServiceView] = []
    others: list[str] = []

    def look_at(env: SimulatedEnvironment) -> None:
        pool = QueryPool(runtime=env.runtime, steady=env.clock.steady)
        found.extend(look(env, ["web"], pool))
        others.extend(str(finding) for finding in of_secondaries(env))

    site.do(site._begin("operator", look_at))
    return found[0], others


def test_status_says_that_it_is_off_and_that_this_is_as_it_should_be(memory_path: Path) -> None:
    site, vm = made(memory_path)
    site.watch(15)
    view, others = shown(site)
    assert (view.standby.state, protection(view).level, findings(view), others) == (
        *("off (on demand)", Protection.PROTECTED, []),
        [],
    )
    vm.unmount()
    vm.saved = True
    _, others = shown(site)
    said = (
        "its memory was saved, and would go on with its disk as it was then: `virsh managedsave-remove sec1` drops that"
    )
    assert others == [f"sec1: {said}"]


def test_status_while_it_is_on_and_nothing_needs_it(memory_path: Path) -> None:
    site, vm = failed_over(memory_path)
    site.serve_from_primary("web")
    site.watch(30)
    assert vm.power is Power.RUNNING
    view, others = shown(site)
    assert (view.standby.state, others) == ("stopped", [])


def test_what_cannot_be_had_with_it_is_refused_in_one_line(memory_path: Path) -> None:
    site, _ = failed_over(memory_path)
    site.failback()
    assert (
        "its VM cannot fetch from secondary sec1, which is on demand: stop it, copy what it has written" in site.log[-1]
    )
    found: list[str] = []
    site.by_hand(lambda env: found.extend(objections(env, ["web"])))
    assert found == ["web: its secondary sec1 is on demand, where no drill is possible; a switchover shows as much"]
    set_mode = standby_modes.set_mode.callback
    assert set_mode is not None
    with pytest.raises(RefusedError, match=r"the standby of web stays cold: secondary sec1 is off until a failover"):
        set_mode(service="web", mode="frozen", timeout=5.0, plan_path=memory_path / "plan.yml")


def test_an_operator_keeps_it_on(memory_path: Path) -> None:
    site, vm = made(memory_path, secondary={"power_off_after": "1m"})
    site.watch(1)

    def on(env: SimulatedEnvironment) -> None:
        power = SecondaryPower(env, "sec1")
        power.keep_on(1800.0)
        power.power_on("work on it")

    site.do(site._begin("operator", on))
    site.watch(1500)
    assert vm.power is Power.RUNNING, site.log
    site.watch(400)
    assert takes_files(site, vm), site.log


@pytest.mark.parametrize("seed", range(12))
def test_whatever_happens_one_of_the_two_has_the_disk(seed: int, memory_path: Path) -> None:
    """Kills, ends and failovers in an order that the seed gives; the world looks for a disk that is in two places."""
    random = Random(seed)  # noqa: S311
    site, vm = made(memory_path, "web", "db", secondary={"power_off_after": "30s"})
    site.watch(1)
    for _ in range(12):
        name = random.choice(["web", "db"])
        match random.randrange(8):
            case 0:
                site.crash(name)
            case 1:
                vm.ends(random.choice(["crashed", "destroyed", ""]))
            case 2:
                site.kill_watcher()
            case 3 if site.journal.state(name).standby_serves and vm.lxd_up:
                site.serve_from_primary(name)
            case 4:
                site.kill_at = site.boundaries + random.randrange(1, 12)
            case 5:
                vm.is_killed_after = 8.0
            case 6:
                vm.overlooks = vm.requests + 1
            case _:
                site.failover(name=name)
        site.watch(random.choice([2, 15, 60, 120]), to_the_end=False)
        assert not (vm.mounted and vm.power not in OFF)
    site.kill_at = None
    vm.is_killed_after = None
    for name in ("web", "db"):
        site.acknowledge(name)
        site.crash(name)
        site.failover(name=name)
    site.watch(120)
    for name in ("web", "db"):
        assert site.world.services[name].serves, "\n".join(site.log[-25:])
    assert site.scheduler.broken is None
