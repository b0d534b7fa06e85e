"""A secondary VM with standbys of services in it, and the plan by which a controller on this machine reaches them."""

from __future__ import annotations

import json
import shlex
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import LxdServer, OverHttps, TryAgainError
from vcrecovery.plan.load import load_plan
from vcrecovery.standby import lxcfs
from vcrecovery.standby.container import READY_KEY, Changes, config_of, devices_of, own_identity
from vcrecovery.transfer.heartbeat_copy import HEARTBEAT, TEMPLATE
from vcrecovery.transfer.rootfs import Rootfs
from vcrecovery_lab import machine
from vcrecovery_lab.accelerator import accelerator
from vcrecovery_lab.domain import Accelerator
from vcrecovery_lab.image import DEFAULT_CACHE, Image
from vcrecovery_lab.machine import VirtualMachine
from vcrecovery_lab.network import ensure_bridge, remove_bridge
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.progress import Progress
from vcrecovery_lab.run import run

from .certificate import make_certificate
from .images import INTERFACES, disk_with_trees, secondary_image

BRIDGE = "vcrlab-vms"
NETWORK = "10.211.9"
HOST = "hv1"
SECONDARY = "sec1"
POOL = "standbys"
GROUP = "shop"
#: The unit that answers a port.
UNITS = {80: "nginx.service", 3306: "mariadb.service"}
PATIENCE = 300.0


def uuid_of(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{name}.{BRIDGE}"))


def virtual_machine(name: str, number: int, memory_mib: int = 512) -> VirtualMachine:
    """On the site's bridge, by its last number."""
    return VirtualMachine(
        name=f"{BRIDGE}-{name}",
        uuid=uuid_of(name),
        bridge=BRIDGE,
        address=f"{NETWORK}.{number}/24",
        gateway=f"{NETWORK}.1",
        mac=f"52:54:00:7c:09:{number:02x}",
        memory_mib=memory_mib,
    )


class Site:
    """`services`: name -> its port. Their primaries have .31 and on, their standbys .61 and on."""

    def __init__(self, folder: Path, services: Mapping[str, int], **common: Any) -> None:
        self.folder = folder
        self.services = dict(services)
        self.secondary = virtual_machine(SECONDARY, 20, memory_mib=2048)
        self.primaries = {name: virtual_machine(name, 31 + n) for n, name in enumerate(services)}
        self.standbys = {name: f"{NETWORK}.{61 + n}" for n, name in enumerate(services)}
        self.plan = folder / "plan.yml"
        self.place = OverHttps(
            f"https://{self.secondary.ip}:8443", folder / "site.crt", folder / "site.key", folder / "server.crt"
        )
        self.lxd = LxdServer(SECONDARY, self.place, SystemClock())
        #: Where the pool lies, in LXD's word; empty: where LXD puts it.
        self.pool_source = ""
        self.image: Image
        self.accelerator: Accelerator
        self.data: dict[str, Any] = {
            "version": 1,
            "state_dir": str(folder / "state"),
            "hypervisors": {HOST: {"uri": "qemu:///system"}},
            "secondaries": {
                SECONDARY: {
                    "lxd": {
                        "url": self.place.url,
                        "certificate": str(self.place.certificate),
                        "key": str(self.place.key),
                        "server_certificate": str(self.place.server_certificate),
                    },
                    "storage_pool": POOL,
                    "starts_at_once": 4,
                    "network": {"bridge": "br0", "address": f"{self.secondary.ip}/24"},
                    "receiver": {"address": self.secondary.ip},
                }
            },
            "services": {
                name: {
                    "primary": {
                        "hypervisor": HOST,
                        "uuid": self.primaries[name].uuid,
                        "address": self.primaries[name].ip,
                    },
                    "standby": {"secondary": SECONDARY, "address": self.standbys[name]},
                    "ports": [port],
                    "first_units": [UNITS[port]],
                    **common,
                }
                for name, port in services.items()
            },
            "groups": {GROUP: {"services": list(services)}},
        }
        self.plan.write_text(yaml.safe_dump(self.data))

    def command(self, text: str, timeout: float = PATIENCE) -> str:
        """What a shell command prints on the secondary."""
        return machine.ssh(self.secondary, self.image, self.folder, ["sh", "-c", text], timeout=timeout).stdout

    def stamp(self) -> None:
        """Heartbeats of now in all standbys, as syncs bring them and the receiver leaves them."""
        text = shlex.quote(json.dumps({"at": time.time()}))
        for file in (f"rootfs{HEARTBEAT}", f"templates/{TEMPLATE}"):
            files = " ".join(shlex.quote(f"{Path(_rootfs(name)).parent}/{file}") for name in self.services)
            self.command(f"for file in {files}; do mkdir -p ${{file%/*}}; echo {text} >$file; done")

    @contextmanager
    def laid_out(self, image: Image, progress: Progress) -> Iterator[None]:
        """Its secondary runs, with the standbys in it."""
        with ExitStack() as ends:
            ensure_bridge(BRIDGE, f"{NETWORK}.1/24")
            ends.callback(remove_bridge, BRIDGE)
            ends.callback(machine.destroy_and_undefine, self.secondary, self.folder)
            self._boot(secondary_image(progress), dict.fromkeys(self.services, image.rootfs), progress)
            self._trust(progress)
            self._make_standbys(progress)
            yield

    def _finish(self, name: str, tree: Path) -> None:
        plan = load_plan(self.plan)
        service = plan.services[name]
        own_identity(Rootfs(tree, []), name, service, plan.secondaries[SECONDARY], Changes())

    def _boot(self, image: Image, trees: Mapping[str, Path], progress: Progress) -> None:
        self.accelerator = accelerator(image, DEFAULT_CACHE)
        with progress("secondary: disk with the standbys' files"):
            whole = disk_with_trees(image, self.folder, trees, self._finish)
        self.image = whole
        with progress("secondary: boot"):
            files = {"/etc/network/interfaces": INTERFACES.format(address=self.secondary.address)}
            machine.create(self.secondary, whole, self.accelerator, self.folder, PATIENCE, files)
            whole.disk.unlink()

    def _trust(self, progress: Progress) -> None:
        make_certificate(self.folder, "site")
        with progress("secondary: LXD"):
            self.command(
                f"lxd waitready --timeout=240 && lxc storage create {POOL} dir {self.pool_source}", timeout=PATIENCE
            )
            certificate = self.place.certificate.read_text()
            ssh = machine.ssh_command(self.secondary, self.image, self.folder)
            add = "lxc config trust add /root/site.crt --name site --type client --restricted --projects default"
            run([*ssh, f"cat >/root/site.crt && {add}"], stdin=certificate, timeout=PATIENCE)
            self.command("lxc config set core.https_address :8443")
            self.place.server_certificate.write_text(self.command("cat /var/lib/lxd/server.crt"))

    def _make_standbys(self, progress: Progress) -> None:
        plan = load_plan(self.plan)
        place = plan.secondaries[SECONDARY]
        with progress("secondary: standbys"):
            shown = self.command(f"cd {lxcfs.LXCFS} && ls -d {lxcfs.PROC}/* {lxcfs.CPUS}/*")
            files = lxcfs.chosen(shown.split())
            for name in self.services:
                config = config_of(plan.services[name], place, files)
                self.lxd.create_empty(name, config, devices_of(plan.services[name], place))
                root = _rootfs(name)
                self.command(f"rmdir {root} 2>/dev/null; mv /srv/{name} {root}")
                # LXD decides at the first start how owners are mapped.
                self.lxd.start(name, PATIENCE)
            for name in self.services:
                wait_until(partial(self._is_up, name), f"the first boot of {name}", PATIENCE, 0.5)
                self.lxd.shut_down(name, 60)
                self._make_ready(name)
            self.stamp()

    def _is_up(self, name: str) -> bool:
        status, _ = self.lxd.ask(name, ["systemctl", "is-active", "--quiet", "multi-user.target"], 60)
        return status == 0

    def _make_ready(self, name: str) -> None:
        def ready() -> bool:
            found = self.lxd.get(name)
            assert found is not None
            try:
                self.lxd.configure(found, {READY_KEY: "true"})
            except TryAgainError:
                return False
            return True

        wait_until(ready, f"{name} to be ready", PATIENCE)


def _rootfs(name: str) -> str:
    return f"/var/lib/lxd/storage-pools/{POOL}/containers/{name}/rootfs"


@contextmanager
def secondary_vm(
    folder: Path, services: Mapping[str, int], image: Image, progress: Progress, **common: Any
) -> Iterator[Site]:
    """A site whose standbys hold what `image` holds, all of them off; `common` goes into the plan of each service."""
    site = Site(folder, services, **common)
    with site.laid_out(image, progress):
        yield site
