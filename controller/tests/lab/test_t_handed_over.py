"""Real libvirt, QEMU, loop device and mount: whoever powers a secondary on is killed before each of its lines."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.loop_disk import is_mounted, unmount
from vcrecovery_lab.domain import blank_domain
from vcrecovery_lab.private_libvirt import PrivateLibvirt
from vcrecovery_lab.run import run

from .waiting import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]

DOMAIN, UUID = "vcrhanded", "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0888"
#: Its LXD is taken to answer once it runs: what is asked here is who has the disk.
PROGRAM = """
import os, signal, sys
from pathlib import Path
from vcrecovery.drivers import loop_disk
from vcrecovery.operations import secondary_power, standbys_disk
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.load import load_plan

class Answers:
    def answers_soon(self, pool): return True
    def to_note(self, pool): return {"instances": {}, "pools": {}, "resources": {}}

Environment.on_demand_lxd = lambda self, name: Answers()
act, before = sys.argv[2], int(sys.argv[3])
power = secondary_power.SecondaryPower(Environment(load_plan(Path(sys.argv[1]))), "sec1")
files = {module.__file__ for module in (loop_disk, secondary_power, standbys_disk)}
count = 0
def step(frame, event, _argument):
    global count
    if frame.f_code.co_filename not in files:
        return None
    if event == "line":
        count += 1
        if count == before:
            os.kill(os.getpid(), signal.SIGKILL)
    return step
sys.settrace(step)
print(power.power_on("a test").summary if act == "on" else power.mount() or "mounted")
"""


class Handed:
    """A VM that boots nothing, with a disk of standbys."""

    def __init__(self, folder: Path, libvirt: PrivateLibvirt) -> None:
        self.uri, self.folder = libvirt.uri, folder
        self.disk = libvirt.folder / f"{DOMAIN}-standbys.img"
        self.mounted_at = folder / "state/secondaries/sec1/disk"
        with self.disk.open("wb") as file:
            file.truncate(64 << 20)
        run(["mkfs.ext4", "-q", "-L", "standbys", self.disk], timeout=60)
        shutil.chown(self.disk, "nobody", "nogroup")
        source = f"<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{self.disk}'/>"
        xml = blank_domain(DOMAIN, UUID).replace(
            "</devices>", f"{source}<target dev='vda' bus='virtio'/></disk></devices>"
        )
        (folder / "vm.xml").write_text(xml)
        self.virsh("define", str(folder / "vm.xml"))
        self.plan = folder / "plan.yml"
        self.plan.write_text(yaml.safe_dump(self._plan()))

    def _plan(self) -> dict[str, Any]:
        files = {name: f"/{name}" for name in ("certificate", "key", "server_certificate")}
        vm = {"hypervisor": "hv2", "domain": DOMAIN, "standbys_disk": "1GiB", "image": "/none.img", "network": "br0"}
        secondary = {
            "lxd": {"url": "https://192.0.2.20:8443", **files},
            "network": {"bridge": "vcr0", "address": "10.20.0.1/24"},
            "receiver": {"address": "192.0.2.2"},
            "power": "on-demand",
            "vm": {**vm, "address": "192.0.2.20/24"},
        }
        service = {
            "primary": {"hypervisor": "hv2", "uuid": UUID.replace("0888", "0889"), "address": "10.10.0.10"},
            "standby": {"secondary": "sec1", "address": "10.20.0.10"},
            "ports": [80],
        }
        return {
            "version": 1,
            "state_dir": str(self.folder / "state"),
            "hypervisors": {"hv2": {"uri": self.uri}},
            "secondaries": {"sec1": secondary},
            "services": {"web": service},
        }

    def virsh(self, *words: str, check: bool = True) -> str:
        done = run(["virsh", "-c", self.uri, "-q", *words], timeout=120, check=check)
        return done.stdout + done.stderr

    @property
    def runs(self) -> bool:
        return self.virsh("domstate", DOMAIN).strip() == "running"

    @property
    def is_mounted(self) -> bool:
        return is_mounted(self.mounted_at)

    @property
    def takes_files(self) -> bool:
        entry = json.loads((self.folder / "state/standbys/web.json").read_text())
        return self.is_mounted and Path(entry["takes_files"]).exists()

    def do(self, act: str, before: int = 0) -> bool:
        """False when it was killed."""
        words = [sys.executable, "-c", PROGRAM, str(self.plan), act, str(before)]
        done = subprocess.run(words, timeout=120, check=False, capture_output=True, text=True)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        return done.returncode == 0

    def ends(self) -> None:
        """As after its shutdown."""
        self.virsh("destroy", DOMAIN)


@pytest.fixture
def handed() -> Iterator[Handed]:
    folder = Path(tempfile.mkdtemp(prefix="vcrh-", dir="/run"))
    libvirt = PrivateLibvirt()
    try:
        libvirt.start()
        made = Handed(folder, libvirt)
        yield made
        made.virsh("destroy", DOMAIN, check=False)
        if made.is_mounted:
            unmount(made.disk, made.mounted_at, SystemClock())
    finally:
        libvirt.close()
        shutil.rmtree(folder)


def test_of_its_vm_and_its_hypervisor_one_has_the_disk(handed: Handed) -> None:
    handed.do("mount")
    assert handed.takes_files
    said = handed.virsh("start", DOMAIN, check=False)
    assert "lock" in said, said
    assert not handed.runs
    handed.do("on")
    assert (handed.runs, handed.is_mounted) == (True, False)
    handed.do("mount")
    assert not handed.is_mounted


def test_killed_before_each_line(handed: Handed) -> None:
    before = 1
    handed.do("mount")
    while not handed.do("on", before):
        # A mount or an unmount that was begun may still go on.
        wait_for(lambda: not (handed.runs and handed.is_mounted), "one of the two to have it", 10)
        assert handed.do("on")
        assert (handed.runs, handed.is_mounted) == (True, False)
        handed.ends()
        assert handed.do("mount", before) or handed.do("mount")
        assert handed.takes_files
        before += 3
    assert before > 40
