"""The module `vcrecovery.standby.secondary_vm`: what it does to disks that are there already."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[3]
#: One domain, which is never on.
VIRSH = """#!/bin/sh
case $1 in
  dumpxml) cat "$0.xml";;
  define) cp "$2" "$0.xml";;
  domstate) echo "shut off";;
  dominfo) echo "Autostart:      enable";;
esac
"""
QEMU_IMG = """#!/bin/sh
case $1 in
  info) echo '{"virtual-size": 1024}';;
  convert) echo "of the image" > "$5";;
  resize) echo "$*" >> "$0.said";;
esac
"""


class Host:
    """A hypervisor with an image."""

    def __init__(self, folder: Path) -> None:
        self.images, self._programs = folder / "images", folder / "programs"
        collection = folder / "ansible_collections/vcrecovery"
        for each in (self.images, self._programs, collection):
            each.mkdir(parents=True)
        (collection / "standby").symlink_to(CHECKOUT)
        for name, text in (("virsh", VIRSH), ("qemu-img", QEMU_IMG), ("mkfs.ext4", "#!/bin/sh\n")):
            (self._programs / name).write_text(text)
            (self._programs / name).chmod(0o755)
        (self.images / "debian.qcow2").touch()
        self._folder = folder

    @property
    def defined(self) -> str:
        file = self._programs / "virsh.xml"
        return file.read_text() if file.exists() else ""

    @property
    def grown(self) -> str:
        file = self._programs / "qemu-img.said"
        return file.read_text() if file.exists() else ""

    def forget_what_is_defined(self) -> None:
        (self._programs / "virsh.xml").unlink()

    def run(self, **changed: Any) -> dict[str, Any]:
        asked = {
            "domain": "sec1",
            "owner": "hv2",
            "cores": 2,
            "memory": 4 << 30,
            "disk": 1024,
            "standbys_disk": 4096,
            "image": str(self.images / "debian.qcow2"),
            "network": "br0",
            "address": "192.0.2.20/24",
            "root_keys": ["ssh-ed25519 AAAA"],
            "folder": str(self.images),
            **changed,
        }
        done = subprocess.run(
            [sys.executable, CHECKOUT / "plugins/modules/secondary_vm.py"],
            input=json.dumps({"ANSIBLE_MODULE_ARGS": asked}),
            env={**os.environ, "PATH": f"{self._programs}:{os.environ['PATH']}", "PYTHONPATH": str(self._folder)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stdout, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_one_is_made_and_a_second_run_starts_it_only(host: Host) -> None:
    made = host.run()
    assert made["done"] == ["disk copied from the image", "disk of the standbys made", "defined", "started"], made
    assert "sec1-standbys.img" in host.defined
    assert host.run()["done"] == ["started"]


def test_it_keeps_the_disk_of_the_standbys_that_the_plan_has_no_more(host: Host) -> None:
    """At its next boot its LXD would have no pool: every standby would be gone, without a word."""
    host.run()
    before = host.defined
    refused = host.run(standbys_disk=0)
    assert refused.get("failed") is True, refused
    assert (
        "sec1: it has a disk of the standbys' own, and the plan has none; put vm.standbys_disk back" in refused["msg"]
    )
    assert host.defined == before


@pytest.mark.parametrize("name", ["sec1.qcow2", "sec1-standbys.img"])
def test_somebody_elses_disk_is_not_taken_for_its_own(host: Host, name: str) -> None:
    """As of a VM that was undefined, and whose disk was kept: it would be grown, booted, and set up anew."""
    theirs = host.images / name
    theirs.write_text("all that they have")
    refused = host.run(disk=2048)
    assert refused.get("failed") is True, refused
    assert (
        f"sec1: {theirs} is there, and was not made here; move it away, or say another name: vm.domain"
        in refused["msg"]
    )
    assert (theirs.read_text(), host.defined, host.grown) == ("all that they have", "", "")
    assert host.run(disk=2048, _ansible_check_mode=True).get("failed") is True


@pytest.mark.parametrize("made", [["sec1.qcow2"], ["sec1.qcow2", "sec1-standbys.img"]])
def test_one_that_was_killed_before_it_was_defined_is_finished(host: Host, made: list[str]) -> None:
    host.run()
    host.forget_what_is_defined()
    for file in host.images.glob("sec1*"):
        if file.name not in [*made, "sec1-host-key", "sec1-host-key.pub"]:
            file.unlink()
    again = host.run()
    assert again["done"][-2:] == ["defined", "started"], again
    assert "disk copied from the image" not in again["done"]


def test_one_of_before_whose_key_is_gone_is_its_own(host: Host) -> None:
    host.run()
    (host.images / "sec1-host-key").unlink()
    (host.images / "sec1-host-key.pub").unlink()
    assert host.run()["done"] == ["defined", "started"]
