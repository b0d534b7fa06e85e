"""A file system on a raw disk of a VM that is off, mounted on its hypervisor; and never while the VM has it.

QEMU locks a disk that it opens (OFD locks on some of its bytes), and does not start when somebody else has. The same
lock is taken here first, by the open file that the loop device then keeps. So the kernel lets go of it once nothing
uses the file system any more, in whatever mount namespace, and not earlier: whoever is killed, one of the two has it.

Needs root, and a machine of Linux with loop devices. ExternalError says what cannot be done.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
from pathlib import Path

from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.process import run
from vcrecovery.errors import ExternalError

#: QEMU's: a byte for each right that it has (100 and on), or grants nobody else (200 and on).
_FIRST_BYTE, _BYTES = 100, 200
_F_OFD_SETLK = 37
_LOOP_CTL_GET_FREE, _LOOP_CONFIGURE = 0x4C82, 0x4C0A
#: Of `struct loop_config`: the file, the size of a block (the kernel's choice), `struct loop_info64` with its flags.
_LOOP_CONFIG = struct.Struct("II52xI176x64x")
_AUTOCLEAR = 4
_OPTIONS = "nodev,nosuid,noexec"
_TAKES = 60.0
#: Seconds for the last one that reads there to be done.
_BUSY_FOR = 10.0
_LOOK_EVERY = 0.2


def is_mounted(place: Path) -> bool:
    """Whether a file system of its own is there."""
    try:
        return os.path.ismount(place)
    except OSError:
        return False


def mount(disk: Path, place: Path) -> None:
    """Mounts the file system on `disk`; nothing happens where one is there. Raises ExternalError while a VM has it."""
    if is_mounted(place):
        return
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o711)
        descriptor = os.open(disk, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise ExternalError(f"disk {disk} cannot be opened: {error.strerror}", "correct that, as root") from error
    try:
        _lock(descriptor, disk)
        number, device = _loop(descriptor, disk)
    finally:
        os.close(descriptor)
    try:
        # What mounts it keeps it. Where nothing does, it goes with this descriptor, and the lock with it.
        run(["mount", "-t", "ext4", "-o", _OPTIONS, f"/dev/loop{number}", str(place)], timeout=_TAKES)
    finally:
        os.close(device)


def unmount(disk: Path, place: Path, clock: Clock) -> None:
    """Takes it away, and returns once nothing has the disk any more. Raises ExternalError when something still does."""
    deadline = clock.steady() + _BUSY_FOR
    while True:
        try:
            if is_mounted(place):
                run(["umount", str(place)], timeout=_TAKES)
            _must_be_free(disk)
            return
        except ExternalError:
            if clock.steady() >= deadline:
                raise
            _unmount_elsewhere(disk)
        clock.sleep(_LOOK_EVERY)


def _unmount_elsewhere(disk: Path) -> None:
    """Whoever has made a mount namespace of his own meanwhile has a copy of the mount in it, which nobody uses."""
    loops = [found.parents[1] for found in Path("/sys/block").glob("loop*/loop/backing_file") if _is_of(found, disk)]
    numbers = {(loop / "dev").read_text().strip() for loop in loops}
    seen = {Path("/proc/self/ns/mnt").readlink()}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ExternalError):  # it has ended, or shows it by another name
            if (namespace := (process / "ns/mnt").readlink()) in seen:
                continue
            seen.add(namespace)
            for line in (process / "mountinfo").read_text().splitlines():
                _, _, number, _, place, *_ = line.split()
                if number in numbers:
                    run(["nsenter", "--mount", "--target", process.name, "umount", "--lazy", place], timeout=_TAKES)


def _is_of(backing_file: Path, disk: Path) -> bool:
    try:
        return backing_file.read_text().strip() == str(disk)
    except OSError:
        return False


def _must_be_free(disk: Path) -> None:
    try:
        descriptor = os.open(disk, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ExternalError(f"disk {disk} cannot be opened: {error.strerror}", "correct that, as root") from error
    try:
        _lock(descriptor, disk)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, disk: Path) -> None:
    try:
        fcntl.fcntl(
            descriptor, _F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, _FIRST_BYTE, _BYTES, 0)
        )
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise ExternalError(f"disk {disk} cannot be locked: {error.strerror}") from error
        hint = f"`losetup -j {disk}`, and `fuser -v {disk}` say by whom"
        raise ExternalError(f"disk {disk} is in use", hint) from error


def _loop(descriptor: int, disk: Path) -> tuple[int, int]:
    """The number of the loop device on it, and that device, open: it goes with its last user."""
    try:
        control = os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC)
        try:
            while True:
                number = fcntl.ioctl(control, _LOOP_CTL_GET_FREE)
                device = os.open(f"/dev/loop{number}", os.O_RDWR | os.O_CLOEXEC)
                try:
                    fcntl.ioctl(device, _LOOP_CONFIGURE, _LOOP_CONFIG.pack(descriptor, 0, _AUTOCLEAR))
                except OSError as error:
                    os.close(device)
                    if error.errno != errno.EBUSY:  # somebody was quicker
                        raise
                else:
                    return number, device
        finally:
            os.close(control)
    except OSError as error:
        raise ExternalError(f"disk {disk} gets no loop device: {error.strerror}", "`modprobe loop`, as root") from error
