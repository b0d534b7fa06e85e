"""Two LXDs in two VMs on one bridge, each with CRIU; the controller is on this machine, and reaches both over HTTPS."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import LxdServer, OverHttps, TryAgainError
from vcrecovery.standby.container import READY_KEY
from vcrecovery.transfer.heartbeat_copy import HEARTBEAT, TEMPLATE
from vcrecovery_lab import domain, machine
from vcrecovery_lab.accelerator import accelerator
from vcrecovery_lab.disk import copy_disk, identity
from vcrecovery_lab.image import DEFAULT_CACHE, Image, ensure_image, make_disk
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.machine import VirtualMachine
from vcrecovery_lab.network import ensure_bridge, remove_bridge
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.private_hypervisor import PrivateHypervisor
from vcrecovery_lab.progress import Progress
from vcrecovery_lab.run import LabError, run
from vcrecovery_lab.secondary_vm.certificate import make_certificate
from vcrecovery_lab.secondary_vm.images import INTERFACES, SECONDARY
from vcrecovery_lab.secondary_vm.site import POOL, uuid_of

from .client import Pace
from .scale import Scale
from .sides import NAME, PATIENCE, RSYNC_COMMAND, Sides, plant_service

BRIDGE, NETWORK = "vcrlab-movevms", "10.211.27"
CONTENTS = replace(SECONDARY, packages=(*SECONDARY.packages, "criu", "iptables"))
#: The service, in each VM, until LXD has a container for it.
_TREE = f"srv/{NAME}"
_FILES = CHECKOUT / "roles/secondary/files"
#: CRIU does not bring back what the kernel maps.
_OWNERS = "[Service]\nEnvironment=LXD_IDMAPPED_MOUNTS_DISABLE=1\n"
_KEY = "root/.ssh/id_ed25519"
_SSH = "ssh -o StrictHostKeyChecking=accept-new"


class VmLxd:
    """`number`: 1 or 2."""

    def __init__(self, number: int, folder: Path) -> None:
        self.name = f"sec{number}"
        self.folder = folder / self.name
        self.folder.mkdir(mode=0o755)
        self.vm = VirtualMachine(
            name=f"{BRIDGE}-{number}",
            uuid=uuid_of(f"{BRIDGE}-{number}"),
            bridge=BRIDGE,
            address=VmSides.networks[number - 1],
            gateway=f"{NETWORK}.1",
            mac=f"52:54:00:7c:1b:{number:02x}",
            memory_mib=1536,
            # This machine has two.
            vcpus=1,
        )
        own = make_certificate(self.folder, "client")
        (self.folder / "servercerts").mkdir()
        self.place = OverHttps(f"https://{self.vm.ip}:8443", *own, self.folder / "servercerts/vm.crt")
        self.server = LxdServer(self.name, self.place, SystemClock())
        # Of the client, which is on this machine: to start it in the VM would take a second.
        remote = {"addr": self.place.url, "protocol": "lxd", "auth_type": "tls"}
        settings = {"default-remote": "vm", "remotes": {"vm": remote}}
        (self.folder / "config.yml").write_text(json.dumps(settings))
        self._image: Image
        self._line: subprocess.Popen[bytes]

    @property
    def container(self) -> str:
        """Its folder there."""
        return f"/var/lib/lxd/storage-pools/{POOL}/containers/{NAME}"

    def lxc(self, *words: str) -> str:
        return run(["lxc", *words], timeout=PATIENCE, env={"LXD_CONF": str(self.folder)}).stdout

    def command(self, text: str, stdin: str = "") -> str:
        """What a shell command prints in the VM."""
        done = run([*self._ssh(), text], timeout=PATIENCE, stdin=stdin, check=False)
        if done.returncode:
            said = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()
            raise LabError(f"{self.name}: {said[-1]}")
        return done.stdout

    def _ssh(self) -> list[str]:
        *words, where = machine.ssh_command(self.vm, self._image, self.folder)
        return [*words, "-o", f"ControlPath={self.folder}/ssh", where]

    def define(self, image: Image, libvirt: PrivateHypervisor, accel: domain.Accelerator) -> None:
        """It boots. `image` has a disk of its own."""
        self._image = image
        # By its place the one that ends the VMs knows them, though their libvirtd may have ended before.
        disk = libvirt.pool / f"{self.name}.img"
        files = identity(self.vm.name, self.vm.uuid, self.vm.ip, 24, self.vm.gateway)
        interfaces = INTERFACES.format(address=self.vm.address)
        copy_disk(image.disk, disk, {**files, "/etc/network/interfaces": interfaces})
        hardware = machine.hardware_of(self.vm, image, accel, disk, self.folder / "console.log")
        libvirt.define_and_start(domain.full_domain(hardware), self.vm.name)

    def connect(self, ends: ExitStack) -> None:
        """One connection for all commands: an emulated CPU needs a second for each new one."""
        wait_until(lambda: machine.greets(self.vm.ip), f"ssh to {self.name}", PATIENCE)
        words = [*self._ssh(), "-M", "-N"]
        null = subprocess.DEVNULL
        self._line = subprocess.Popen(words, stdin=null, stdout=null, stderr=null, start_new_session=True)
        ends.callback(self._line.wait)
        ends.callback(self._line.kill)
        wait_until((self.folder / "ssh").exists, f"a connection to {self.name}", PATIENCE)

    def prepare(self) -> None:
        """LXD as the role `secondary` has it, with CRIU."""
        self.command(f"lxd waitready --timeout=240 && lxc storage create {POOL} dir")
        add = "lxc config trust add /root/client.crt --name controller --type client --restricted --projects default"
        self.command(f"cat >/root/client.crt && {add}", stdin=self.place.certificate.read_text())
        self.command("lxc config set core.https_address :8443")
        self.place.server_certificate.write_text(self.command("cat /var/lib/lxd/server.crt"))
        try:
            self.command("criu check")
            word = f"ok {self.command('criu --version').split()[-1]} {self.command('uname -r').strip()}"
        except LabError as error:
            word = f"failed {error}"
        self.command(f"lxc project set default user.vcrecovery.criu {shlex.quote(word)}")


class VmSides(Sides):
    """The two networks are one, in which it may keep its address, or have another one on each side."""

    networks: Sequence[str] = tuple(f"{NETWORK}.{number}/24" for number in (21, 22))
    addresses: Sequence[str] = (f"{NETWORK}.61", f"{NETWORK}.62")
    # Emulated CPUs take their time.
    timeouts: Mapping[str, str] = MappingProxyType(
        {"stable_for": "1ms", "start": "5m", "ports": "5m", "confirm": "10s"}
    )
    counts_all = True
    # With cgroup v2 alone, liblxc 5.0 finds no freezer of what it has restored, and cannot have it dumped again.
    goes_back = "warm"
    # To answer takes an emulated CPU milliseconds, which LXD needs, too.
    pace = Pace(0.1, 1.0)

    first: VmLxd
    second: VmLxd

    def __init__(self, folder: Path, first: VmLxd, second: VmLxd, accel: str, card: str) -> None:
        self.accelerator, self.card = accel, card
        self._laid_out = 0
        super().__init__(folder, first, second)

    def secondary(self, lxd: Any, network: str) -> dict[str, Any]:
        place = lxd.place
        return {
            "lxd": {
                "url": place.url,
                "certificate": str(place.certificate),
                "key": str(place.key),
                "server_certificate": str(place.server_certificate),
            },
            "storage_pool": POOL,
            "network": {"bridge": "br0", "address": network},
            "receiver": {"address": lxd.vm.ip},
        }

    def _plan(self) -> dict[str, Any]:
        return {**super()._plan(), "state_dir": str(self.folder / f"state-{self._laid_out}")}

    def share(self) -> None:
        """From now on it keeps its address when it moves. Nothing of it is on the second side."""
        self.addresses = (self.addresses[0],) * 2
        self.write_plan()

    def lay_out(self, progress: Progress) -> None:
        """It serves on the first side, and nothing is on the other one, whatever was; with a journal of its own."""
        with progress("a container that serves on the first side"):
            self._lay_out()

    def _lay_out(self) -> None:
        for lxd in (self.first, self.second):
            if lxd.server.get(NAME) is not None:
                lxd.lxc("delete", "--force", NAME)
        self._laid_out += 1
        self.write_plan()
        here = self.first.container
        self.first.server.create_empty(NAME, *self.config("sec1"))
        self.first.command(f"mkdir -p {here}/rootfs && cp -a /{_TREE}/. {here}/rootfs/")
        # LXD decides at the first start how owners are mapped.
        self.first.server.start(NAME, PATIENCE)
        self.serves(self.addresses[0])
        self.first.server.shut_down(NAME, 60)
        wait_until(self._is_ready, "the container", PATIENCE)
        beat = shlex.quote(json.dumps({"at": time.time()}))
        files = (f"{here}/rootfs{HEARTBEAT}", f"{here}/templates/{TEMPLATE}")
        self.first.command(" && ".join(f"mkdir -p {Path(file).parent} && echo {beat} >{file}" for file in files))
        self.vcrecovery("failover", NAME)
        self.serves(self.addresses[0])

    def _is_ready(self) -> bool:
        with suppress(TryAgainError):
            self.first.server.configure(self.first.server.must_get(NAME), {READY_KEY: "true"})
            return True
        return False

    def make_empty(self) -> None:
        self.second.server.create_empty(NAME, *self.config("sec2"))
        there = f"{self.second.container}/rootfs"
        # As above; a start without an init ends right after that.
        self.second.command(f"mkdir -p {there}; lxc start {NAME}; lxc stop --force {NAME}; true")
        self.second.command(f"find {there} -mindepth 1 -delete")

    def rsync(self) -> None:
        place = f"{self.first.container}/rootfs/"
        self.first.command(shlex.join([*RSYNC_COMMAND, "-e", _SSH, place, f"root@{self.second.vm.ip}:{place}"]))


@contextmanager
def vm_sides(folder: Path, scale: Scale, progress: Progress) -> Iterator[VmSides]:
    """The VMs run, and no container is there yet. All that it makes is gone afterwards, whatever happens."""
    image = ensure_image(DEFAULT_CACHE.with_name("vcrecovery-lab-moves"), progress, CONTENTS)
    lxds = [VmLxd(number, folder) for number in (1, 2)]
    with ExitStack() as ends:
        ensure_bridge(BRIDGE, f"{NETWORK}.1/24")
        ends.callback(remove_bridge, BRIDGE)
        libvirt = PrivateHypervisor()
        ends.callback(libvirt.close)
        libvirt.start()
        accel = accelerator(image, DEFAULT_CACHE.with_name("vcrecovery-lab-moves"))
        with progress(f"VMs: disks with a service of {scale.megabytes} MB in {scale.files} files"):
            image = _with_service(image, folder, scale)
        with progress("VMs: boot"):
            for lxd in lxds:
                lxd.define(image, libvirt, accel)
            image.disk.unlink()
            for lxd in lxds:
                lxd.connect(ends)
        with progress("VMs: LXD and CRIU"), ThreadPoolExecutor() as both:
            list(both.map(VmLxd.prepare, lxds))
        first, second = lxds
        taps = libvirt.virsh("domiflist", first.vm.name).split()
        yield VmSides(folder, first, second, accel, taps[0])


def _with_service(image: Image, folder: Path, scale: Scale) -> Image:
    """With a disk that holds the service too, and what the role `secondary` puts into such a machine."""
    with tempfile.TemporaryDirectory(prefix="vms-", dir=folder) as scratch:
        whole = Path(scratch) / "root"
        run(["cp", "-a", image.rootfs, whole], timeout=300)
        shutil.copy(_FILES / "99-vcrecovery.rules", whole / "etc/udev/rules.d")
        wrapper = whole / "usr/local/sbin/criu"
        wrapper.write_text(f"#!/usr/bin/python3 -I\n{(_FILES / 'criu.py').read_text()}")
        wrapper.chmod(0o755)
        owners = whole / "etc/systemd/system/lxd.service.d/owners.conf"
        owners.parent.mkdir(parents=True)
        owners.write_text(_OWNERS)
        shutil.copy(image.ssh_key, whole / _KEY)
        os.chmod(whole / _KEY, 0o600)
        plant_service(whole / _TREE, scale)
        disk = folder / "with-service.img"
        make_disk(whole, disk, CONTENTS.disk_mib)
    return replace(image, disk=disk)
