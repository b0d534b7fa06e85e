"""A secondary that is a VM of its own under libvirt: LXD in it, and a controller outside that has a certificate."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from vcrecovery.drivers.lxd.instances import FROZEN, STOPPED
from vcrecovery.errors import ExitCode
from vcrecovery.standby.container import ACTIVE, ROLE_KEY
from vcrecovery_lab import libvirt
from vcrecovery_lab.progress import silent_progress
from vcrecovery_lab.secondary_vm.site import Site, secondary_vm

from .conftest import Lab
from .loaded_program import LOADED
from .vm_site import folder_for_vms, page_of, vm_that_is_off

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

NAME = "web1"
BLANK = "vcrlab-vms-web1-blank"


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[Site]:
    timeouts = {"start": "5m", "ports": "5m"}
    with (
        folder_for_vms(lab) as folder,
        secondary_vm(folder, {NAME: 80}, lab.image, silent_progress, timeouts=timeouts) as made,
    ):
        yield made


@pytest.fixture
def primary() -> Iterator[None]:
    with vm_that_is_off(BLANK, NAME):
        yield


def vcrecovery(site: Site, *words: str) -> subprocess.CompletedProcess[str]:
    return LOADED.run([*words, "--plan", str(site.plan)], 600)


def status_of(site: Site) -> str:
    found = site.lxd.get(NAME)
    assert found is not None
    return found.status


@pytest.mark.usefixtures("primary")
def test_a_failover_into_it_out_of_each_mode(site: Site) -> None:
    for mode, waits in (("cold", STOPPED), ("frozen", FROZEN)):
        site.stamp()
        done = vcrecovery(site, "standby", "set", NAME, mode)
        assert done.returncode == 0, done.stderr
        assert status_of(site) == waits
        done = vcrecovery(site, "failover", NAME)
        assert done.returncode == 0, done.stderr
        assert b"<title>" in page_of(site.standbys[NAME])
        # What its processes see of memory and CPUs is lxcfs's, with all files that Debian's hook would mount.
        _, seen = site.lxd.ask(NAME, ["grep", "-c", "^lxcfs ", "/proc/mounts"], 60)
        assert int(seen) == int(site.command("ls /var/lib/lxcfs/proc | wc -l")) + 1
        found = site.lxd.get(NAME)
        assert found is not None
        assert found.config[ROLE_KEY] == ACTIVE
        again = vcrecovery(site, "failover", NAME)
        assert (again.returncode, "nothing to do" in again.stdout) == (0, True), again.stderr
        site.lxd.shut_down(NAME, 60)
        done = vcrecovery(site, "standby", "reset", NAME)
        assert done.returncode == 0, done.stderr


def test_nothing_is_run_there_for_the_cards_of_containers(site: Site) -> None:
    card = "vethvcrt"
    try:
        site.command(f"ip link add {card} type veth peer name {card}1 && udevadm settle")
        said = site.command(f"udevadm test /sys/class/net/{card} 2>&1")
        assert [line for line in said.splitlines() if line.startswith("run:")] == ["run: 'net_id'"]
        assert card not in site.command("journalctl -p warning -u systemd-udevd")
    finally:
        site.command(f"ip link del {card}")


@pytest.mark.usefixtures("primary")
def test_without_it_nothing_is_touched(site: Site) -> None:
    """Last: it ends the secondary."""
    libvirt.start(BLANK)
    libvirt.destroy(site.secondary.name)
    refused = vcrecovery(site, "failover", NAME, "--force")
    assert refused.returncode == ExitCode.REFUSED
    assert f"{NAME} has no standby to start: LXD on secondary sec1 (https://" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    assert libvirt.state(BLANK) == "running"
    (shown,) = json.loads(vcrecovery(site, "status", "--json").stdout)["services"]
    assert shown["standby"]["state"] == "unreachable"
