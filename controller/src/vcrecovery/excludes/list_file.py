"""Writes a list so that a reader never sees half of it."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Optional, Union

from .errors import ExcludeError, NotWrittenError
from .readers import read_if_there, shown

AnyPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


def would_change(path: AnyPath, data: bytes) -> bool:
    """True if the file is not there or holds something else."""
    name = os.fsencode(path)
    _state(name)
    return read_if_there(name, "list") != data


def write_if_changed(path: AnyPath, data: bytes, allow_empty: bool = False) -> bool:
    """Replaces the file at once, or leaves it alone if it holds the data; True if it was written.

    The owner and the mode of a file that is there are kept, and so is a symlink to it. An empty list in the place of
    one that is not empty is refused unless it is allowed: it is more often a mistake than a wish, and everything would
    be synced.
    """
    name = os.fsencode(path)
    state = _state(name)
    name = os.path.realpath(name)
    old = read_if_there(name, "list")
    if old == data:
        return False
    if old and not data and not allow_empty:
        raise ExcludeError(
            f"list {shown(name)} would become empty: check the selection, or remove that file if it is meant"
        )
    directory = os.path.dirname(name) or b"."
    try:
        temporary = _free_name(directory, b"." + os.path.basename(name) + b".vcrecovery-")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                if state is not None:
                    with contextlib.suppress(PermissionError):
                        os.fchown(stream.fileno(), state.st_uid, state.st_gid)
                os.fchmod(stream.fileno(), stat.S_IMODE(state.st_mode) if state is not None else 0o644)
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, name)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_directory(directory)
    except OSError as error:
        raise NotWrittenError(
            f"list {shown(name)} cannot be written ({error.strerror}): free some space, or make its directory writable"
        ) from None
    return True


def _state(name: bytes) -> Optional[os.stat_result]:
    """Of the file that is there; ExcludeError for a device, a pipe or a directory, which a list must not replace."""
    try:
        state = os.stat(name)
    except OSError:  # what is wrong, if anything, shows when it is read or written
        return None
    if not stat.S_ISREG(state.st_mode):
        raise ExcludeError(
            f"list {shown(name)} is no regular file: name another file, or leave --output out to print the list"
        )
    return state


def _free_name(directory: bytes, prefix: bytes) -> bytes:
    """A name for this process's file; those of processes that were killed are removed."""
    for name in os.listdir(directory):
        number = name[len(prefix) :]
        if not name.startswith(prefix) or not number.isdigit():
            continue
        if int(number) == os.getpid() or not os.path.exists(b"/proc/" + number):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(directory, name))
    return os.path.join(directory, prefix + b"%d" % os.getpid())


def _sync_directory(directory: bytes) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
