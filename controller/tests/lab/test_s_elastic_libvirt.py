"""A secondary is made by libvirt of a cloud image, used, and given back. What asks for one is `test_s_elastic`'s.

It boots with the user data that any provisioner gets, and nobody logs in to it. Its CPUs are emulated.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from ipaddress import IPv4Interface
from pathlib import Path
from typing import Any

import pytest

from vcrecovery.errors import ExitCode
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.leased import addresses_there
from vcrecovery.plan.load import load_plan
from vcrecovery.store.leases import LeaseBook
from vcrecovery_lab.cloud_image import cloud_image
from vcrecovery_lab.image import DEFAULT_CACHE, ensure_image
from vcrecovery_lab.network import ensure_bridge, remove_bridge
from vcrecovery_lab.private_hypervisor import POOL, PrivateHypervisor
from vcrecovery_lab.progress import silent_progress
from vcrecovery_lab.run import run

from .elastic_site import NETWORK, THERE, WEB, ElasticSite
from .made_secondary import SERVICE
from .small_site import page_at, started
from .waiting import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.reaches_out, pytest.mark.timeout(1800)]

BRIDGE, HOST, ADDRESS = "vcrlab-elastic", "10.211.17.1", "10.211.17.21"
IMAGE = "cloud.qcow2"


class LibvirtSite(ElasticSite):
    host = HOST

    def __init__(self, folder: Path) -> None:
        self.hypervisor = PrivateHypervisor()
        super().__init__(folder)

    def write_plan(self, **services: dict[str, Any]) -> None:
        super().write_plan(**services)
        self.data["hypervisors"]["hv2"] = {"uri": self.hypervisor.uri}
        self.save_plan()

    def elastic_section(self) -> dict[str, Any]:
        libvirt = {
            "hypervisor": "hv2",
            "pool": POOL,
            "image": IMAGE,
            "network": BRIDGE,
            "addresses": [f"{ADDRESS}/24"],
            "gateway": HOST,
            "accelerator": "qemu",
        }
        return {
            "template": {"cores": 2, "memory": "1536MiB", "disk": "6GiB", "networks": [NETWORK]},
            "provisioner": {"libvirt": libvirt, "timeout": "2m"},
            "release_after": "10m",
        }

    def start(self) -> None:
        image = ensure_image(DEFAULT_CACHE, silent_progress)
        disk = cloud_image(silent_progress, {SERVICE: image.rootfs})
        self.hypervisor.start()
        self.hypervisor.make_pool()
        run(["qemu-img", "convert", "-O", "qcow2", disk, self.hypervisor.pool / IMAGE], timeout=300)
        ensure_bridge(BRIDGE, f"{HOST}/24")
        # Of an operator's: it leads to whatever machine has that address.
        run(["ip", "route", "add", str(IPv4Interface(NETWORK).network), "via", ADDRESS], timeout=30)
        super().start()

    def ask(self) -> None:
        """For a machine, as the watcher does when there is no room."""
        plan = load_plan(self.plan)
        addresses = addresses_there(plan, IPv4Interface(NETWORK))
        LeaseBook(Environment(plan).journal).ask(secrets.token_hex(16), "no room", NETWORK, addresses, time.time(), 1)

    def goes_on(self, *words: str) -> None:
        """A LXD whose CPU is emulated may be silent for longer than it is waited for: the same call goes on."""
        for _ in range(3):
            done = self.vcrecovery(*words)
            if done.returncode != ExitCode.EXTERNAL or "does not answer" not in done.stderr:
                break
        assert done.returncode == 0, (done.stdout, done.stderr)

    @property
    def there_is(self) -> tuple[list[str], set[str]]:
        return self.hypervisor.virsh("list", "--all", "--name").split(), self.hypervisor.volumes()

    def close(self) -> None:
        try:
            for name in self.hypervisor.virsh("list", "--all", "--name").split():
                self.hypervisor.forget(name)
        finally:
            self.hypervisor.close()
            remove_bridge(BRIDGE)
            super().close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibvirtSite]:
    with started(LibvirtSite(tmp_path_factory.mktemp("elastic"))) as made:
        made.serve()
        yield made


def test_one_is_made_used_and_given_back(site: LibvirtSite) -> None:
    site.ask()
    with site.watched() as said:
        wait_for(lambda: "elastic-1: joined after" in said(), "its LXD", 900)
        (domain,), volumes = site.there_is
        assert domain.startswith("elastic-1-")
        assert volumes == {IMAGE, f"{domain}.qcow2", f"{domain}-seed.iso"}
        for words, where, address in (
            (("move", WEB, "--to", "elastic-1"), "elastic-1", THERE),
            (("drain", "elastic-1"), "sec1", site.address(WEB)),
        ):
            site.goes_on(*words)
            assert (site.where(WEB), site.page(WEB), page_at(address)) == (where, WEB, WEB)
        wait_for(lambda: "elastic-1: gone" in said(), "its end", 120)
    assert site.there_is == ([], {IMAGE})
    assert "elastic-1" not in site.vcrecovery("status").stdout
