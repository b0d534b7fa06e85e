"""The disk of a VM that is off: of QEMU and a mount on its hypervisor, one has it, and the kernel sees to that."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.waiting import wait_for
from vcrecovery.drivers import loop_disk
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.errors import ExternalError

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

CLOCK = SystemClock()
PROGRAM = """
import sys
from pathlib import Path
from vcrecovery.drivers import loop_disk
from vcrecovery.drivers.clock import SystemClock
disk, place, act, before = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
count = 0
def step(frame, event, _argument):
    global count
    if event == "line" and frame.f_code.co_filename == loop_disk.__file__:
        count += 1
        if count == before:
            import os, signal
            os.kill(os.getpid(), signal.SIGKILL)
    return step
sys.settrace(step)
loop_disk.mount(disk, place) if act == "mount" else loop_disk.unmount(disk, place, SystemClock())
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "sec1-standbys.img"
    with made.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-L", "standbys", str(made)], check=True, timeout=60)
    yield made
    subprocess.run(["umount", str(tmp_path / "disk")], check=False, capture_output=True, timeout=60)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "disk"


def qemu_opens(disk: Path) -> bool:
    words = ["qemu-io", "-f", "raw", "-c", "read 0 512", str(disk)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0 or "Failed to lock byte" in done.stderr, done.stderr
    return done.returncode == 0


def test_one_that_is_mounted_is_in_no_vm(disk: Path, place: Path) -> None:
    loop_disk.mount(disk, place)
    loop_disk.mount(disk, place)
    (place / "file").write_text("arrived")
    assert not qemu_opens(disk)
    loop_disk.unmount(disk, place, CLOCK)
    loop_disk.unmount(disk, place, CLOCK)
    assert qemu_opens(disk)
    loop_disk.mount(disk, place)
    assert (place / "file").read_text() == "arrived"


def test_one_that_a_vm_has_is_not_mounted(disk: Path, place: Path) -> None:
    vm = subprocess.Popen(
        ["qemu-io", "-f", "raw", str(disk)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert vm.stdout is not None
        assert vm.stdout.read(8) == b"qemu-io>"
        with pytest.raises(ExternalError, match="is in use"):
            loop_disk.mount(disk, place)
        assert not loop_disk.is_mounted(place)
    finally:
        vm.kill()
        vm.communicate(timeout=30)
    loop_disk.mount(disk, place)


def test_a_copy_in_a_mount_namespace_that_nobody_uses_goes_too(disk: Path, place: Path) -> None:
    loop_disk.mount(disk, place)
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", "cd / && echo ready && cat"]
    other = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        loop_disk.unmount(disk, place, CLOCK)
        assert qemu_opens(disk)
    finally:
        other.kill()
        other.communicate(timeout=30)


def test_a_session_in_a_mount_namespace_of_its_own_keeps_it(
    disk: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_disk, "_BUSY_FOR", 0.5)
    loop_disk.mount(disk, place)
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", f"cd {place} && echo ready && cat"]
    session = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert session.stdout is not None
        assert session.stdout.readline() == b"ready\n"
        with pytest.raises(ExternalError, match="is in use"):
            loop_disk.unmount(disk, place, CLOCK)
        assert not qemu_opens(disk)
    finally:
        session.kill()
        session.communicate(timeout=30)
    loop_disk.unmount(disk, place, CLOCK)
    assert qemu_opens(disk)


def one_of_two(disk: Path, place: Path) -> None:
    """Once nothing of who was killed is left: a mount that was begun may go on to its end."""
    wait_for(lambda: qemu_opens(disk) is not loop_disk.is_mounted(place), "one of the two to have it", 10)


def killed(disk: Path, place: Path, act: str, before: int) -> bool:
    words = [sys.executable, "-c", PROGRAM, str(disk), str(place), act, str(before)]
    return subprocess.run(words, timeout=60, check=False).returncode == -signal.SIGKILL


def test_killed_while_it_mounts(disk: Path, place: Path) -> None:
    before = 1
    while killed(disk, place, "mount", before):
        one_of_two(disk, place)
        loop_disk.mount(disk, place)
        assert not qemu_opens(disk)
        loop_disk.unmount(disk, place, CLOCK)
        before += 1
    assert before > 15


def test_killed_while_it_unmounts(disk: Path, place: Path) -> None:
    before = 1
    loop_disk.mount(disk, place)
    while killed(disk, place, "unmount", before):
        one_of_two(disk, place)
        loop_disk.unmount(disk, place, CLOCK)
        assert qemu_opens(disk)
        loop_disk.mount(disk, place)
        before += 1
    assert before > 8
