"""What the benchmark does to a VM that is suspended or saved, in the real libvirt."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from uuid import uuid4

import pytest

from vcrecovery_lab import libvirt, machine

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("lab")]

NAME, UUID = "vcrlab-saved", str(uuid4())


@pytest.fixture
def vm() -> Iterator[str]:
    machine.create_blank(NAME, UUID)
    yield NAME
    machine.destroy_and_undefine_blank(NAME)


def domstate(name: str) -> str:
    command = ["virsh", "-q", "-c", "qemu:///system", "domstate", name]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def test_a_suspended_vm_goes_on(vm: str) -> None:
    pid = libvirt.pid(vm, UUID)
    libvirt.suspend(vm)
    assert domstate(vm) == "paused"
    libvirt.resume(vm)
    assert domstate(vm) == "running"
    assert libvirt.pid(vm, UUID) == pid


def test_a_saved_vm_starts_and_is_removed_with_what_was_saved(vm: str) -> None:
    libvirt.managed_save(vm)
    assert libvirt.state(vm) == "off"
    libvirt.start(vm)
    assert libvirt.state(vm) == "running"
    libvirt.managed_save(vm)
    libvirt.remove(vm)
    assert libvirt.state(vm) == "absent"
