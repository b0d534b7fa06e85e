"""From the end of a VM to the switched name, all of it real: libvirt, SNMP, relay, Zabbix, controller, LXD, BIND."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID

import pytest
import yaml

from vcrecovery.snmp.mib import ENTERPRISE
from vcrecovery_lab.detection.chain import Chain, plan_without_standby
from vcrecovery_lab.net_snmp import inform
from vcrecovery_lab.private_libvirt import PrivateLibvirt

from .conftest import Lab
from .waiting import wait_for
from .zabbix_stack import VERSIONS, throwaway_folder, throwaway_zabbix

#: The first test of a version lays it out, while the others are laid out beside it.
pytestmark = [pytest.mark.lab, pytest.mark.timeout(1500)]

#: For a slow machine that is busy.
PATIENCE = 120.0
VM, VM_UUID = "vcrlab-chain", "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e3001"
#: Nobody listens there.
CLOSED = 1
QUIET = "quiet"


@contextmanager
def laid_out(version: str, uri: str, plan: Mapping[str, Any]) -> Iterator[Chain]:
    """Not started yet."""
    with throwaway_zabbix(version) as stack, throwaway_folder() as folder:
        made = Chain(stack, folder, uri, plan)
        try:
            made.lay_out()
            yield made
        finally:
            made.close()


@pytest.fixture(scope="module")
def libvirt() -> Iterator[PrivateLibvirt]:
    daemon = PrivateLibvirt()
    try:
        daemon.start()
        daemon.make(VM, VM_UUID)
        yield daemon
    finally:
        daemon.close()


@pytest.fixture(scope="module")
def chains(
    lab: Lab, libvirt: PrivateLibvirt, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Chain]]]:
    """Over the lab's VM by the version of Zabbix, and the one that is to stay quiet, whose VM has no standby.

    They are made side by side: what the role does takes half a minute of one processor. A failover of the quiet one
    would be refused; it would be begun, though.
    """
    whole = yaml.safe_load(lab.other_plan(tmp_path_factory.mktemp("plan")).read_text())
    plan = {key: whole[key] for key in ("secondaries", "dns", "services")}
    quiet = plan_without_standby(VM_UUID, CLOSED, embedded=False, host_silent_for="4s")
    with ExitStack() as ends, ThreadPoolExecutor(2) as pool:
        wanted = {version: laid_out(version, "qemu:///system", plan) for version in VERSIONS}
        wanted[QUIET] = laid_out("7.0", libvirt.uri, quiet)
        yield {name: pool.submit(ends.enter_context, made) for name, made in wanted.items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_killed_vm_is_failed_over_by_zabbix(
    lab: Lab, blank: int, chains: dict[str, Future[Chain]], version: str
) -> None:
    made = chains[version].result()
    made.start()
    try:
        lab.stamp()
        os.kill(blank, signal.SIGKILL)
        wait_for(lambda: outcomes(made) == ["done"], "the failover", PATIENCE)
        assert lab.dig(lab.layout.name, "A") == ["10.211.2.10"]
        (episode,) = made.episodes()
        assert episode["cause"].startswith("Zabbix event ")
        # Zabbix repeats its command each minute; who answers the problem has said how it went.
        wait_for(lambda: "DNS switched" in answers(made, "vm"), "the answer in Zabbix", PATIENCE)
        (problem,) = [one for one in made.problems() if one["vcr-kind"] == "vm"]
        made.run_event(problem["event"])
        wait_for(
            lambda: not any(made.state_dir.joinpath("events").glob("[0-9]*")), "the end of the repetition", PATIENCE
        )
        assert outcomes(made) == ["done"]
        assert answers(made, "vm").count("DNS switched") == 1
    finally:
        made.close()


def outcomes(made: Chain) -> list[Any]:
    return [episode["outcome"] for episode in made.episodes()]


def answers(made: Chain, kind: str) -> str:
    return "\n".join(one["answers"] for one in made.problems() if one.get("vcr-kind") == kind)


# -- what is no failure ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def quiet(chains: dict[str, Future[Chain]]) -> Chain:
    made = chains[QUIET].result()
    made.start()
    return made


@pytest.fixture
def calm(quiet: Chain, libvirt: PrivateLibvirt) -> Iterator[Chain]:
    """The VM runs, and Zabbix has nothing against it, before and after."""
    seen_running(quiet)
    yield quiet
    if libvirt.virsh("domstate", VM).strip() != "running":
        libvirt.virsh("start", VM)
    seen_running(quiet)
    assert outcomes(quiet) == []


def seen_running(made: Chain) -> None:
    made.wait_for_value(f"vcr.state[{VM_UUID}]", "running")
    wait_for(lambda: made.problems() == [], "an end of all problems", PATIENCE)


def test_an_operators_wish(calm: Chain, libvirt: PrivateLibvirt) -> None:
    libvirt.virsh("destroy", VM)
    calm.wait_for_value(f"vcr.state[{VM_UUID}]", "shutoff (destroyed)")
    libvirt.virsh("start", VM)
    libvirt.virsh("suspend", VM)
    calm.wait_for_value(f"vcr.state[{VM_UUID}]", "paused")
    libvirt.virsh("resume", VM)
    libvirt.virsh("reset", VM)
    calm.wait_for_value(f"vcr.state[{VM_UUID}]", "running")
    # Nothing about the VM. An agent that is silent for 4 s, with a machine that stands still, is another matter.
    assert [one for one in calm.problems() if one.get("vcr-kind") not in ("host", "site")] == []


def test_restarts_of_what_watches(calm: Chain, libvirt: PrivateLibvirt) -> None:
    libvirt.kill()
    libvirt.start()
    heartbeats(calm, 2)
    calm.stop_part("relay")
    calm.start_relay()
    heartbeats(calm, 2)
    calm.stack.restart_server()
    heartbeats(calm, 2)
    calm.stop_part("watch")
    calm.start_watch()


def heartbeats(made: Chain, count: int) -> None:
    """Zabbix has one of so many seconds from now."""
    until = int(time.time()) + count
    wait_for(lambda: made.newest("vcr.heartbeat")[1] >= until, "heartbeats", PATIENCE)


def test_a_lie_of_somebody_who_knows_the_passphrases(calm: Chain, libvirt: PrivateLibvirt) -> None:
    before = libvirt.qemu(VM)
    root = "." + ".".join(map(str, ENTERPRISE))
    state, words = f"{root}.1.1.1", f"{root}.1.2"
    crashed = (
        f"{root}.0.1", f"{state}.2.0", "s", VM, f"{state}.1.0", "x", UUID(VM_UUID).hex, f"{state}.3.0", "i", "5",
        f"{state}.9.0", "i", "2", f"{words}.1.0", "s", "stopped", f"{words}.2.0", "s", "crashed",
    )  # fmt: skip
    answer = ": web: the primary is running"
    told = calm.said("watch", answer)
    assert inform(calm.trap_port, *crashed)
    wait_for(lambda: calm.said("watch", answer) > told, "the controller's answer", PATIENCE)
    assert libvirt.qemu(VM) == before


def test_an_agent_that_is_silent_although_its_hypervisor_lives(calm: Chain, libvirt: PrivateLibvirt) -> None:
    before = libvirt.qemu(VM)
    calm.stop_snmpd()
    try:
        wait_for(lambda: "running" in answers(calm, "site"), "the controller's answer", PATIENCE)
        assert [one["vcr-kind"] for one in calm.problems()] == ["site"]
    finally:
        calm.start_snmpd()
    assert libvirt.qemu(VM) == before
