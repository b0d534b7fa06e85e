"""Writes a list so that a reader never sees half of it."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from typing import Union

from .errors import ExcludeError
from .readers import read_if_there, shown

AnyPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


def would_change(path: AnyPath, data: bytes) -> bool:
    """True if the file is not there or holds something else."""
    return read_if_there(os.fsencode(path), "list") != data


def write_if_changed(path: AnyPath, data: bytes, allow_empty: bool = False) -> bool:
    """Replaces the file at once, or leaves it alone if it holds the data; True if it was written.

    The mode of a file that is there is kept. An empty list in the place of one that is not empty is refused
    unless it is allowed: it is more often a mistake than a wish, and everything would be synced.
    """
    name = os.fsencode(path)
    old = read_if_there(name, "list")
    if old == data:
        return False
    if old and not data and not allow_empty:
        raise ExcludeError(f"list {shown(name)} would become empty: check the selection, or allow it")
    directory = os.path.dirname(name) or b"."
    try:
        mode = stat.S_IMODE(os.stat(name).st_mode) if old is not None else 0o644
        descriptor, temporary = tempfile.mkstemp(dir=directory, prefix=b"." + os.path.basename(name) + b".")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                os.fchmod(stream.fileno(), mode)
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
        raise ExcludeError(
            f"list {shown(name)} cannot be written ({error.strerror}): make its directory writable"
        ) from None
    return True


def _sync_directory(directory: bytes) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
