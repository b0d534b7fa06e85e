"""What is no failure of a VM, on a site whose plan fails over all that it may: nothing is ended, nothing is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from simulated.site import Site
from vcrecovery.core.episode import Step
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import Side

SERVICES = {
    "web": {},
    "db": {"host": "hv2"},
    "mail": {"host": "hv3"},
    "shop": {"host": "hv4", "site": "other"},
}
AFTER = 10.0


def change(site: Site, *names: str, **values: object) -> None:
    site.change(list(names or SERVICES), values)


def for_a_minute(site: Site, *names: str, **values: object) -> None:
    well = {key: getattr(site.world.services["web"], key) for key in values}
    change(site, *names, **values)
    site.watch(60.0, to_the_end=False)
    change(site, *names, **well)


def a_fifth_of_all_packets_is_lost(site: Site) -> None:
    for_a_minute(site, probes_lost=0.2)


def the_controllers_cable_is_pulled(site: Site) -> None:
    for_a_minute(site, network_cut=True, reference_answers=False)


def the_controllers_cable_is_pulled_again_and_again(site: Site) -> None:
    for _ in range(6):
        change(site, network_cut=True, reference_answers=False)
        site.watch(12.0, to_the_end=False)
        change(site, network_cut=False, reference_answers=True)
        site.watch(5.0, to_the_end=False)


def the_name_server_is_down(site: Site) -> None:
    for_a_minute(site, dns_answers=False)


def every_probe_hangs_for_ever(site: Site) -> None:
    change(site, probes_hang=True)
    site.watch(120.0, to_the_end=False)


def every_service_of_all_sites_restarts(site: Site) -> None:
    change(site, primary_ports_open=False, unit_state="activating")
    site.watch(AFTER - 3.0, to_the_end=False)
    change(site, primary_ports_open=True, unit_state="")


def one_service_restarts_again_and_again(site: Site) -> None:
    for _ in range(10):
        change(site, "web", primary_ports_open=False, unit_state="activating")
        site.watch(4.0, to_the_end=False)
        change(site, "web", primary_ports_open=True, unit_state="")
        site.watch(8.0, to_the_end=False)


def a_firewall_closes_one_service(site: Site) -> None:
    for_a_minute(site, "web", primary_ports_open=False)


def a_firewall_closes_a_whole_site(site: Site) -> None:
    for_a_minute(site, "web", "db", "mail", primary_ports_open=False, unit_state="failed")


def the_gateway_is_gone_with_one_service(site: Site) -> None:
    for_a_minute(site, "web", primary_ports_open=False, unit_state="failed", reference_answers=False)


def somebody_stops_a_service(site: Site) -> None:
    for _ in range(5):
        for_a_minute(site, "web", primary_ports_open=False, unit_state="inactive")


def a_unit_has_failed_and_the_service_answers(site: Site) -> None:
    for_a_minute(site, unit_state="failed")


def no_heartbeat_comes_and_the_services_answer(site: Site) -> None:
    for_a_minute(site, syncs=False)


def lxd_restarts(site: Site) -> None:
    for_a_minute(site, lxd_answers=False)


def lxd_restarts_while_a_firewall_closes_a_service(site: Site) -> None:
    change(site, "web", primary_ports_open=False)
    for_a_minute(site, lxd_answers=False)


def libvirtd_hangs(site: Site) -> None:
    for_a_minute(site, libvirtd_hangs=True)


def the_clock_is_set_forward(site: Site) -> None:
    site.scheduler.set_by += 3600.0


def the_clock_is_set_back(site: Site) -> None:
    site.scheduler.set_by -= 3600.0


def the_clock_is_set_while_a_firewall_closes_a_service(site: Site) -> None:
    change(site, "web", primary_ports_open=False)
    site.watch(5.0, to_the_end=False)
    site.scheduler.set_by += 3600.0


def the_watcher_stands_still(site: Site) -> None:
    site.run(100.0)


def somebody_stops_a_standby_that_waits(site: Site) -> None:
    change(site, standby_running=True)
    site.watch(5.0, to_the_end=False)
    change(site, standby_running=False)


def somebody_pauses_a_vm(site: Site) -> None:
    web = site.world.services["web"]
    site.world.becomes(web, Power.PAUSED)
    site.watch(60.0, to_the_end=False)
    site.world.becomes(web, Power.RUNNING)


def a_port_opens_and_closes_for_ten_minutes(site: Site) -> None:
    for _ in range(120):
        change(site, "web", primary_ports_open=not site.world.services["web"].primary_ports_open)
        site.watch(5.0, to_the_end=False)


TROUBLES: Mapping[str, Callable[[Site], None]] = {
    trouble.__name__: trouble
    for trouble in (
        a_fifth_of_all_packets_is_lost,
        the_controllers_cable_is_pulled,
        the_controllers_cable_is_pulled_again_and_again,
        the_name_server_is_down,
        every_probe_hangs_for_ever,
        every_service_of_all_sites_restarts,
        one_service_restarts_again_and_again,
        a_firewall_closes_one_service,
        a_firewall_closes_a_whole_site,
        the_gateway_is_gone_with_one_service,
        somebody_stops_a_service,
        a_unit_has_failed_and_the_service_answers,
        no_heartbeat_comes_and_the_services_answer,
        lxd_restarts,
        lxd_restarts_while_a_firewall_closes_a_service,
        libvirtd_hangs,
        the_clock_is_set_forward,
        the_clock_is_set_back,
        the_clock_is_set_while_a_firewall_closes_a_service,
        the_watcher_stands_still,
        somebody_stops_a_standby_that_waits,
        somebody_pauses_a_vm,
        a_port_opens_and_closes_for_ten_minutes,
    )
}


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("name", TROUBLES)
def test_nothing_is_done(name: str, seed: int | None, memory_path: Path) -> None:
    service = {"on_service_down": {"after": f"{AFTER:g}s", "do": "failover"}}
    plan = {"service": service, "detection": {"reference": ["10.10.0.1:22"]}}
    site = Site(memory_path, SERVICES, seed=seed, plan=plan)
    site.watch(10.0)
    TROUBLES[name](site)
    site.watch(60.0, to_the_end=False)
    for service_name, found in site.world.services.items():
        begun = [e for e in site.journal.history(service_name) if e.tried(Step.FENCE)]
        state = site.journal.state(service_name)
        assert (found.power, found.starts, begun, state.side) == (Power.RUNNING, 0, [], Side.PRIMARY), site.log
    assert len(site.log) < 200, site.log


def test_the_same_site_fails_over_what_has_failed(memory_path: Path) -> None:
    """Else the above would show nothing."""
    service = {"on_service_down": {"after": f"{AFTER:g}s", "do": "failover"}}
    site = Site(memory_path, SERVICES, plan={"service": service, "detection": {"reference": ["10.10.0.1:22"]}})
    site.watch(10.0)
    change(site, "shop", primary_ports_open=False, unit_state="failed")
    site.watch(30.0)
    assert site.journal.state("shop").side is Side.STANDBY
