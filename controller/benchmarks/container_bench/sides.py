"""The VM, and a container in it on each pool that can be had there."""

from __future__ import annotations

import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from vcrecovery_lab import machine
from vcrecovery_lab.accelerator import accelerator
from vcrecovery_lab.disk import identity
from vcrecovery_lab.domain import Accelerator
from vcrecovery_lab.image import DEFAULT_CACHE, Image, ensure_image, make_disk
from vcrecovery_lab.machine import VirtualMachine
from vcrecovery_lab.network import ensure_bridge, remove_bridge
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.progress import Progress
from vcrecovery_lab.run import LabError, run
from vcrecovery_lab.secondary_vm.images import INTERFACES, SECONDARY
from vcrecovery_lab.secondary_vm.site import BRIDGE, NETWORK, virtual_machine

VM = "VM"
PATIENCE = 600.0
#: Sparse: what is not written takes no room.
_DISK_MIB, _POOL_GIB = 16_000, 2
#: LXD's drivers -> the options of a pool. That of btrfs is in a file on the VM's disk, as LXD makes it.
POOLS: Mapping[str, Sequence[str]] = {
    "dir": (),
    "btrfs": (f"size={_POOL_GIB}GiB",),
}
#: LXD's other drivers -> why there is no container on such a pool.
NOT_RUN = {
    "lvm": "not tried: its volumes are mounted only while a container runs, so an image would have to fill them",
    "zfs": "Debian's kernel has no ZFS: its module would have to be built in the VM",
}
#: What a container needs none of: the kernel, and LXD itself.
_NOT_INSIDE = ("boot", "usr/lib/modules", "usr/lib/lxd", "usr/sbin/lxd", "var/lib/lxd", "var/cache")
#: What containers are made of, in the VM.
_TREE = "/srv/container"
CONTENTS = replace(
    SECONDARY,
    packages=(*SECONDARY.packages, "stress-ng", "fio", "iperf3", "btrfs-progs"),
    files={
        **SECONDARY.files,
        "etc/modules-load.d/lab.conf": "button\nfuse\nloop\nbtrfs\n",
    },
)


@dataclass(frozen=True)
class Sides:
    """`machines`: side -> where it answers; `not_run`: LXD's driver -> why no container is on such a pool."""

    machines: Mapping[str, VirtualMachine]
    not_run: Mapping[str, str]
    accelerator: Accelerator
    versions: Mapping[str, str]
    run: Callable[[str, str, float], str]
    """What a shell command prints on a side; LabError when it fails or takes too long."""


@contextmanager
def sides(folder: Path, progress: Progress) -> Iterator[Sides]:
    """All that it makes is gone afterwards, whatever happens."""
    image = ensure_image(DEFAULT_CACHE.with_name("vcrecovery-lab-containers"), progress, CONTENTS)
    vm = virtual_machine("bench", 20, memory_mib=2048)
    with ExitStack() as ends:
        ensure_bridge(BRIDGE, f"{NETWORK}.1/24")
        ends.callback(remove_bridge, BRIDGE)
        ends.callback(machine.destroy_and_undefine, vm, folder)
        made = _Making(folder, image, vm, accelerator(image, DEFAULT_CACHE))
        with progress("VM: disk with the containers' files"):
            made.make_disk()
        with progress("VM: boot"):
            made.boot()
        with progress("VM: LXD"):
            made.start_lxd()
        yield made.sides(progress)


class _Making:
    def __init__(self, folder: Path, image: Image, vm: VirtualMachine, accel: Accelerator) -> None:
        self._folder, self._vm, self._accelerator = folder, vm, accel
        self._image = replace(image, disk=folder / "with-image.img")
        self._rootfs = image.rootfs

    def make_disk(self) -> None:
        with tempfile.TemporaryDirectory(prefix="vcrlab-image-", dir=self._folder) as scratch:
            whole = Path(scratch) / "vm"
            inside = whole / _TREE.lstrip("/")
            for copy in (whole, inside):
                run(["cp", "-a", self._rootfs, copy], timeout=300)
            for name in _NOT_INSIDE:
                place = inside / name
                shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
            (inside / "etc/fstab").write_text("")
            (inside / "etc/modules-load.d/lab.conf").unlink()
            make_disk(whole, self._image.disk, _DISK_MIB)

    def boot(self) -> None:
        files = {"/etc/network/interfaces": INTERFACES.format(address=self._vm.address)}
        machine.create(self._vm, self._image, self._accelerator, self._folder, PATIENCE, files)
        self._image.disk.unlink()

    def start_lxd(self) -> None:
        self._on(self._vm, "lxd waitready --timeout=240", PATIENCE)

    def sides(self, progress: Progress) -> Sides:
        machines, not_run = {VM: self._vm}, dict(NOT_RUN)
        for number, (driver, options) in enumerate(POOLS.items()):
            place = virtual_machine(f"in-{driver}", 61 + number)
            with progress(f"container on {driver}"):
                why = self._pool(driver, options)
                if why:
                    not_run[driver] = why
                    continue
                self._container(driver, place)
                machines[_side(driver)] = place
        return Sides(machines, not_run, self._accelerator, self._versions(), self._runner(machines))

    def _pool(self, driver: str, options: Sequence[str]) -> str:
        """Why it cannot be had; empty when it was made."""
        words = shlex.join(["lxc", "storage", "create", driver, driver, *options])
        done = run([*self._ssh(self._vm), words], timeout=PATIENCE, check=False)
        if not done.returncode:
            return ""
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["lxc printed nothing"]
        return re.sub(r"^Error: ", "", lines[-1])

    def _container(self, driver: str, place: VirtualMachine) -> None:
        name = place.name
        files = identity(name, place.uuid, place.ip, 24, place.gateway)
        wanted = ("/etc/hostname", "/etc/hosts", "/etc/machine-id", "/etc/network/interfaces")
        root = f"/var/lib/lxd/storage-pools/{driver}/containers/{name}/rootfs"
        writes = [f"printf %s {shlex.quote(files[path])} >{root}{path}" for path in wanted]
        card = f"lxc config device add {name} eth0 nic nictype=bridged parent=br0 name=eth0 hwaddr={place.mac}"
        fill = f"mkdir -p {root} && cp -a {_TREE}/. {root}/"
        commands = [f"lxc init {name} --empty --storage {driver}", card, fill, *writes, f"lxc start {name}"]
        self._on(self._vm, " && ".join(commands), PATIENCE)
        wait_until(partial(machine.greets, place.ip), f"ssh to {name}", PATIENCE, 0.2)

    def _versions(self) -> dict[str, str]:
        """Of the programs in the VM, as they tell them."""
        asked = {
            "kernel in the VM": "uname -r",
            "LXD in the VM": "lxd --version",
            "stress-ng": "stress-ng --version | grep -o '[0-9][0-9.]*' | head -n 1",
            "fio": "fio --version | tr -d 'a-z-'",
            "iperf3": "iperf3 --version | grep -o '[0-9][0-9.]*' | head -n 1",
        }
        return {name: self._on(self._vm, command, 60).strip() for name, command in asked.items()}

    def _runner(self, machines: Mapping[str, VirtualMachine]) -> Callable[[str, str, float], str]:
        return lambda side, command, timeout: self._on(machines[side], command, timeout)

    def _ssh(self, place: VirtualMachine) -> list[str]:
        return machine.ssh_command(place, self._image, self._folder)

    def _on(self, place: VirtualMachine, command: str, timeout: float) -> str:
        # What fails is told by its last line: the command itself is long.
        done = run([*self._ssh(place), command], timeout=timeout, check=False)
        if done.returncode:
            lines = (done.stderr.strip() or done.stdout.strip()).splitlines() or [f"exit status {done.returncode}"]
            raise LabError(f"{place.name}: {lines[-1].strip()}")
        return done.stdout


def _side(driver: str) -> str:
    """As the paper calls a container on a pool of this driver."""
    return f"C.{driver}"
