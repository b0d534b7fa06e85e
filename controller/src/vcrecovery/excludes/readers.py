"""Thin readers of the file system that turn what goes wrong into ExcludeError."""

from __future__ import annotations

import os
from typing import List, Optional

from .errors import ExcludeError


def shown(path: bytes) -> str:
    """A path for a message: one line, whatever bytes are in it."""
    text = os.fsdecode(path)
    if text.isprintable():
        return text
    return repr(path)[1:]


def read_bytes(path: bytes, what: str) -> bytes:
    """The content of a file; ExcludeError names `what` it is when it cannot be read."""
    content = read_if_there(path, what)
    if content is None:
        raise ExcludeError(f"{what} {shown(path)} is missing: restore it, or name the root of a system that has it")
    return content


def read_if_there(path: bytes, what: str) -> Optional[bytes]:
    """Like read_bytes, but None for a file that does not exist."""
    try:
        # A plain descriptor: a thousand lists are read in a run, and buffered files cost twice as much.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            parts = []
            size = os.fstat(descriptor).st_size
            while True:
                part = os.read(descriptor, max(size + 1, 4096))
                if not part:
                    break
                parts.append(part)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ExcludeError(
            f"{what} {shown(path)} cannot be read ({error.strerror}): run as root, or repair it"
        ) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def names_in(directory: bytes, what: str) -> List[bytes]:
    """The names in a directory, sorted; none when it does not exist."""
    try:
        return sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ExcludeError(
            f"{what} {shown(directory)} cannot be read ({error.strerror}): run as root, or repair it"
        ) from None
