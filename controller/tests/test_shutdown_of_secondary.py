"""A secondary on demand that is being shut down when a failover needs it: it is waited for, and booted again."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulated.environment import SimulatedEnvironment
from simulated.secondary_vm import SecondaryVm
from simulated.site import Site
from test_secondary_on_demand import failed_over, takes_files
from vcrecovery.core.power import OFF, Power
from vcrecovery.errors import VCRecoveryError
from vcrecovery.operations.secondary_power import ASK_AGAIN_AFTER, SecondaryPower
from vcrecovery.store.powered import PoweredBook


def about_to_be_shut_down(folder: Path, *, power_on_within: str = "5m") -> tuple[Site, SecondaryVm]:
    """Nothing needs it any more, and the watcher powers it off soon."""
    site, vm = failed_over(folder, secondary={"power_off_after": "1m", "power_on_within": power_on_within})
    site.serve_from_primary("web")
    site.acknowledge("web")
    return site, vm


def crashes_once_it_is_asked(site: Site, vm: SecondaryVm, after: float, *, killed: bool = False) -> None:
    """The first request only. `killed`: the watcher that has asked is, before web crashes."""
    scheduler = site.scheduler

    def crash() -> None:
        if killed and site.watcher is not None:
            scheduler.kill(site.watcher)
        site.crash("web")

    def asked() -> None:
        vm.when_asked = lambda: None
        scheduler.at(scheduler.time + after, crash)

    vm.when_asked = asked


def serves_again(site: Site, vm: SecondaryVm, boots: int) -> None:
    web = site.world.services["web"]
    assert (web.serves, web.dns_address) == (True, "standby"), "\n".join(site.log[-40:])
    assert (vm.power, vm.boots, vm.mounted) == (Power.RUNNING, boots, False), site.log
    assert site.scheduler.broken is None


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("takes", [1.0, 3.0, 20.0])
def test_a_failover_waits_for_its_shutdown_and_boots_it_again(takes: float, killed: bool, memory_path: Path) -> None:
    site, vm = about_to_be_shut_down(memory_path)
    vm.shuts_down_within = takes
    crashes_once_it_is_asked(site, vm, 0.2, killed=killed)
    site.watch(180)
    serves_again(site, vm, boots=2)
    assert vm.requests == 1


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("after", [0.2, 15.0, 29.0])
def test_one_that_has_overlooked_the_request_is_not_asked_again(after: float, killed: bool, memory_path: Path) -> None:
    site, vm = about_to_be_shut_down(memory_path)
    vm.overlooks = 1
    crashes_once_it_is_asked(site, vm, after, killed=killed)
    site.watch(300)
    serves_again(site, vm, boots=1)
    assert vm.requests == 1
    assert any("is being shut down" in line for line in site.log), site.log


@pytest.mark.parametrize("takes", [3.0, None])
def test_an_operator_goes_on_where_the_watcher_was_killed(takes: float | None, memory_path: Path) -> None:
    site, vm = about_to_be_shut_down(memory_path)
    vm.shuts_down_within = takes
    crashes_once_it_is_asked(site, vm, 0.2, killed=True)
    site.watch(120, again=False)
    assert (site.watcher is None or site.watcher.is_over, vm.requests) == (True, 1)
    site.failover()
    serves_again(site, vm, boots=1 if takes is None else 2)


def test_an_operators_failover_waits_too(memory_path: Path) -> None:
    site, vm = about_to_be_shut_down(memory_path)

    def fails_over() -> None:
        site.crash("web")
        site.begin_failover()

    vm.when_asked = lambda: site.scheduler.at(site.scheduler.time + 0.2, fails_over)
    site.watch(120)
    serves_again(site, vm, boots=2)


def test_one_that_overlooks_it_is_not_reset_where_it_boots_fast(memory_path: Path) -> None:
    """Its boot may take less than the time in which it may still shut down."""
    site, vm = about_to_be_shut_down(memory_path, power_on_within="21s")
    vm.overlooks = 1
    crashes_once_it_is_asked(site, vm, 0.2)
    site.watch(120)
    serves_again(site, vm, boots=1)


def test_one_that_hangs_in_its_shutdown_is_reset_for_a_failover(memory_path: Path) -> None:
    site, vm = about_to_be_shut_down(memory_path, power_on_within="1m")
    vm.shuts_down_within = None

    crashes_once_it_is_asked(site, vm, 0.2)
    first = vm.when_asked

    def asked() -> None:
        first()
        vm.lxd_up = False

    vm.when_asked = asked
    site.watch(240)
    serves_again(site, vm, boots=2)


def shut_down_after_it_overlooked_that(folder: Path, seconds: float) -> tuple[Site, SecondaryVm]:
    """It went on to serve, and goes down as if by our request, so long after everything began."""
    site, vm = about_to_be_shut_down(folder)
    vm.overlooks = 1
    crashes_once_it_is_asked(site, vm, 0.2)
    site.watch(seconds)
    serves_again(site, vm, boots=1)
    vm.ends("shutdown", excused=True)
    site.watch(60)
    return site, vm


def test_one_that_goes_down_late_by_our_request_is_booted_again(memory_path: Path) -> None:
    site, vm = shut_down_after_it_overlooked_that(memory_path, 110)
    serves_again(site, vm, boots=2)
    # Whoever ends this boot is somebody else.
    vm.ends("shutdown", excused=True)
    site.watch(60)
    assert (vm.power, vm.boots) == (Power.SHUTOFF, 2)


def test_one_that_somebody_shuts_down_long_after_our_request_is_left_alone(memory_path: Path) -> None:
    site, vm = shut_down_after_it_overlooked_that(memory_path, 400)
    assert (vm.power, vm.boots) == (Power.SHUTOFF, 1)
    assert any("ended by somebody (shutdown): left alone" in line for line in site.log), site.log


def test_one_that_somebody_destroys_after_our_request_is_left_alone(memory_path: Path) -> None:
    site, vm = about_to_be_shut_down(memory_path)
    vm.overlooks = 1
    crashes_once_it_is_asked(site, vm, 0.2)
    site.watch(110)
    serves_again(site, vm, boots=1)
    vm.ends("destroyed")
    site.watch(60)
    assert (vm.power, vm.boots) == (Power.SHUTOFF, 1)


def test_a_service_that_does_not_need_it_does_not_keep_it_on(memory_path: Path) -> None:
    site = Site(
        memory_path,
        {"web": {}, "db": {"secondary": "sec2"}},
        world={"on_demand": True},
        plan={"secondary": {"power_off_after": "1m"}},
    )
    vm, other = site.world.secondary_vms["sec1"], site.world.secondary_vms["sec2"]
    site.watch(1)
    site.crash("web")
    site.watch(60)
    site.serve_from_primary("web")
    vm.overlooks = 1
    vm.when_asked = lambda: site.crash("db")
    site.watch(180)
    assert takes_files(site, vm), "\n".join(site.log[-25:])
    assert vm.requests == 2
    assert (site.world.services["db"].serves, other.boots) == (True, 1)
    assert site.scheduler.broken is None


@pytest.mark.parametrize("overlooks", [0, 1])
def test_a_failover_while_an_operator_powers_it_off(overlooks: int, memory_path: Path) -> None:
    site, vm = failed_over(memory_path)
    site.serve_from_primary("web")
    site.acknowledge("web")
    vm.overlooks = overlooks
    crashes_once_it_is_asked(site, vm, 0.2)

    def off(env: SimulatedEnvironment) -> None:
        power = SecondaryPower(env, "sec1")
        power.keep_on(0.0)
        try:
            power.power_off()
        except VCRecoveryError as error:
            site.say(f"operator: {error}")

    site._begin("operator", off)
    site.watch(120)
    serves_again(site, vm, boots=2 - overlooks)
    stayed = any("operator: secondary sec1 stays on: " in line for line in site.log)
    assert stayed is bool(overlooks), site.log


def test_an_operator_powers_it_on_while_it_is_shut_down(memory_path: Path) -> None:
    site, vm = about_to_be_shut_down(memory_path)

    def on(env: SimulatedEnvironment) -> None:
        SecondaryPower(env, "sec1").power_on("by hand", site.say)

    def asked() -> None:
        vm.when_asked = lambda: None
        site._begin("operator", on)

    vm.when_asked = asked
    site.watch(110)
    assert (vm.power, vm.boots) == (Power.RUNNING, 2), site.log
    (first, second) = PoweredBook(site.journal).of("sec1")
    assert (first.off_at is None, second.off_at, second.why) == (False, None, "by hand")


def test_one_that_ignores_its_power_button_is_said_to_whoever_powers_it_on(memory_path: Path) -> None:
    """And not waited for without end: nothing needs it, so the watcher asks again and again."""
    site, vm = about_to_be_shut_down(memory_path, power_on_within="1m")
    vm.shuts_down_within = None
    failures: list[str] = []

    def on(env: SimulatedEnvironment) -> None:
        try:
            SecondaryPower(env, "sec1").power_on("by hand")
        except VCRecoveryError as error:
            failures.append(str(error))

    def asked() -> None:
        vm.when_asked = lambda: None
        site._begin("operator", on)

    vm.when_asked = asked
    site.watch(240)
    assert failures == ["another controller powers secondary sec1 on or off; run it again"]


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_the_clock_is_set_while_it_may_shut_down(jump: float, memory_path: Path) -> None:
    site, vm = about_to_be_shut_down(memory_path)
    vm.overlooks = 1
    crashes_once_it_is_asked(site, vm, 0.2)
    first = vm.when_asked

    def asked() -> None:
        first()
        site.scheduler.at(site.scheduler.time + 5, lambda: setattr(site.scheduler, "set_by", jump))

    vm.when_asked = asked
    site.watch(60 + 2 * ASK_AGAIN_AFTER)
    if jump < 0:
        # How old the files are, nobody knows then.
        site.failover(force=True)
    serves_again(site, vm, boots=1)


def test_who_ends_after_the_request_and_before_the_start_gives_the_disk_back(memory_path: Path) -> None:
    """The failover was a false alarm: it is off then, and takes files."""
    site, vm = about_to_be_shut_down(memory_path)
    vm.when_asked = lambda: site.scheduler.at(
        site.scheduler.time + 0.2, lambda: site.scheduler.kill(site.watcher) if site.watcher else None
    )
    site.watch(120)
    assert takes_files(site, vm), "\n".join(site.log[-25:])
    assert vm.power in OFF
    assert PoweredBook(site.journal).of("sec1")[-1].off_at is not None


def test_a_false_alarm_meanwhile_has_it_stay_on_as_long_as_any_use_of_it(memory_path: Path) -> None:
    site, vm = about_to_be_shut_down(memory_path)
    vm.overlooks = 1

    def asked() -> None:
        vm.when_asked = lambda: None
        site.crash("web")
        site.scheduler.at(site.scheduler.time + 10, lambda: site.start_primary("web"))

    vm.when_asked = asked
    site.watch(63 + ASK_AGAIN_AFTER)
    assert any("sec1 stays on: an operation of web is not finished" in line for line in site.log), site.log
    site.watch(50)
    assert (vm.power, vm.requests) == (Power.RUNNING, 1), site.log
    site.watch(30)
    assert takes_files(site, vm), "\n".join(site.log[-25:])


def test_a_watcher_that_stands_still_in_the_middle_is_not_waited_for_without_end(memory_path: Path) -> None:
    site, vm = about_to_be_shut_down(memory_path)
    vm.overlooks = 1

    def asked() -> None:
        assert site.watcher is not None
        vm.when_asked = lambda: None
        site.watcher.stopped = True
        site.crash("web")

    vm.when_asked = asked
    site.watch(64)
    assert vm.requests == 1
    began = site.scheduler.time
    site.failover()
    assert site.scheduler.time - began < ASK_AGAIN_AFTER + 5
    serves_again(site, vm, boots=1)
    # It goes on now, and finds that web serves there.
    site.watch(300)
    serves_again(site, vm, boots=1)
    assert vm.requests == 1
