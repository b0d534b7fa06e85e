"""Mounts that only this process and those that it starts can see: they end with it, however it ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Iterator, Optional

from .programs import ProgramError

_NEW_MOUNTS, _NEW_FOLDERS = 0x20000, 0x200  # CLONE_NEWNS, CLONE_FS
_READ_ONLY, _NO_SUID, _NO_DEVICES, _BIND, _ALL_BELOW, _SLAVE = 0x1, 0x2, 0x4, 0x1000, 0x4000, 0x80000
_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def private_mounts() -> Iterator[None]:
    """Within, this thread has a mount namespace of its own; ProgramError if it may not."""
    home = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    top, folder = (os.open(path, os.O_PATH | os.O_CLOEXEC) for path in ("/", "."))
    try:
        if _libc.unshare(_NEW_MOUNTS):
            raise _failure("a mount namespace (the snapshot needs root, or CAP_SYS_ADMIN)")
        try:
            # What is unmounted outside goes here too; nothing that is mounted here is seen outside.
            _mount(None, "/", None, _ALL_BELOW | _SLAVE)
            yield
        finally:
            # A thread that has just ended may still share the working folder, and setns refuses that.
            if _libc.unshare(_NEW_FOLDERS) or _libc.setns(home, _NEW_MOUNTS):
                raise _failure("the way back from the mount namespace")
            # It goes to the top of that namespace, which is not where a process in a chroot has been.
            os.fchdir(top)
            os.chroot(".")
            os.fchdir(folder)
    finally:
        for handle in (home, top, folder):
            os.close(handle)


def bind(what: str, where: str) -> None:
    """Shows one path at another, with all that is mounted below."""
    _mount(what, where, None, _BIND | _ALL_BELOW)


def mount_read_only(device: str, where: str, kind: str, options: str) -> None:
    """The journal is replayed where the device may be written to."""
    _mount(device, where, kind, _READ_ONLY | _NO_SUID | _NO_DEVICES, options)


def mount_empty(where: str) -> None:
    """An empty file system in memory, for folders to mount on."""
    _mount("vcrecovery", where, "tmpfs", _NO_SUID | _NO_DEVICES, "mode=0700,size=1m")


def _mount(what: Optional[str], where: str, kind: Optional[str], flags: int, options: Optional[str] = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (what, where, kind)]
    data = None if options is None else os.fsencode(options)
    if _libc.mount(*words, ctypes.c_ulong(flags), data):
        raise _failure(where if what is None else f"{what} on {where}")


def _failure(what: str) -> ProgramError:
    number = ctypes.get_errno()
    return ProgramError(f"mounting {what}: {os.strerror(number)}", number)
