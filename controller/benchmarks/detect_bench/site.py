"""A VM under a libvirt of its own, whose failovers are begun and refused: it has no standby.

So nothing but detection is measured, and the VM can be killed again and again.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from recovery_bench import overhead_lxd
from vcrecovery.core.episode import Episode
from vcrecovery.store.journal import Journal
from vcrecovery_lab.detection.chain import HOST, PROGRAM, plan_without_standby
from vcrecovery_lab.domain import boot_sector_domain
from vcrecovery_lab.pair.process import start
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.private_libvirt import PrivateLibvirt

VM, UUID = "vcrlab-bench", "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e3002"
#: Seconds; for what takes its time on a busy machine.
PATIENCE = 180.0
#: Boot sectors: one that loops, and one that sleeps until the next tick of the timer, as an idle system does. At a key
#: that one resets its machine through the keyboard's controller, as an operating system that reboots.
SPINS = b"\xeb\xfe"
IDLES = bytes.fromhex(
    "fb"  # sti
    "f4"  # again: hlt
    "b401 cd16 74f9"  # mov ah, 1; int 16h (is there a key?); jz again
    "b0fe e664 ebf3"  # mov al, 0feh; out 64h, al; jmp again
)


def plan_of(port: int, lxd: Path, **detection: Any) -> dict[str, Any]:
    """What a plan needs beside its hypervisor. `port` is the service's, on this machine; `lxd` has no standby."""
    plan = plan_without_standby(UUID, port, **detection)
    plan["secondaries"]["sec1"]["lxd"] = str(lxd)
    return plan


@contextmanager
def empty_lxd(place: Path) -> Iterator[Path]:
    """An LXD without containers: a failover is refused. Without any LXD it would be tried again and again."""
    program = Path(overhead_lxd.__file__)
    process = subprocess.Popen([sys.executable, "-IS", str(program), str(place)])
    try:
        wait_until(place.is_socket, "the LXD without containers", PATIENCE)
        yield place
    finally:
        process.kill()
        process.wait(PATIENCE)


class Door:
    """The service's port: closed until it is opened."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]

    def open(self) -> None:
        self._socket.listen(64)

    def close(self) -> None:
        self._socket.close()


class Site:
    """The VM and the journal of whoever watches it."""

    def __init__(self, libvirt: PrivateLibvirt, state_dir: Path) -> None:
        self.libvirt = libvirt
        self._state_dir = state_dir

    def episodes(self) -> list[Episode]:
        """Newest first."""
        return Journal(self._state_dir / "journal.db").history("web", 1000)

    def begun_after(self, count: int) -> float:
        """When the first failover after so many began its first step, in seconds since the epoch."""
        wait_until(lambda: len(self.episodes()) > count and self.episodes()[0].steps, "the failover", PATIENCE)
        return self.episodes()[-1 - count].steps[0].begun_at

    def make(self, code: bytes) -> None:
        """The VM runs this, and nothing else."""
        self.libvirt.forget(VM)
        disk = self.libvirt.folder / "boot-sector.img"
        disk.write_bytes(code.ljust(510, b"\0") + b"\x55\xaa" + bytes(1440 * 1024 - 512))
        shutil.chown(disk, "nobody")
        self.libvirt.define_and_start(boot_sector_domain(VM, UUID, disk), VM)

    def reboot_from_inside(self) -> None:
        """The guest of IDLES reboots itself. Returns when libvirt has seen that."""
        command = ["virsh", "-c", self.libvirt.uri, "-q", "event", VM, "reboot"]
        listener = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:

            def rebooted() -> bool:
                # Once more where nobody listened yet, or the guest was still booting.
                self.libvirt.virsh("send-key", VM, "KEY_R")
                return listener.poll() == 0

            wait_until(rebooted, "the guest's reboot", PATIENCE, 1.0)
        finally:
            listener.kill()
            listener.wait(PATIENCE)


class Watcher:
    """`vcrecovery watch` alone, without Zabbix."""

    def __init__(self, folder: Path, libvirt: PrivateLibvirt, plan: Mapping[str, Any]) -> None:
        folder.mkdir()
        self.site = Site(libvirt, folder / "state")
        whole = {"version": 1, "state_dir": str(folder / "state"), "hypervisors": {HOST: {"uri": libvirt.uri}}, **plan}
        self._file, self._log = folder / "plan.yml", folder / "watch.log"
        self._file.write_text(yaml.safe_dump(whole))
        self._start()

    def _start(self) -> None:
        """Returns when it has read the states of the VMs."""
        connected = f"hypervisor {HOST}: connected"
        before = self._log.read_text().count(connected) if self._log.exists() else 0
        self._process = start([PROGRAM, "watch", "--verbose", "--plan", self._file], self._log)
        wait_for_line(self._log, connected, before)

    def restart(self) -> None:
        self.stop()
        self._start()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)


@contextmanager
def watched(folder: Path, libvirt: PrivateLibvirt, plan: Mapping[str, Any]) -> Iterator[Watcher]:
    made = Watcher(folder, libvirt, plan)
    try:
        yield made
    finally:
        made.stop()


def wait_for_line(log: Path, text: str, count: int = 0) -> None:
    """Until `text` stands there more than `count` times."""
    wait_until(lambda: log.exists() and log.read_text().count(text) > count, f"{text!r} in {log.name}", PATIENCE, 0.02)


def now() -> float:
    return time.time()
