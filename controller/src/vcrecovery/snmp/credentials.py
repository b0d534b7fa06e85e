"""Passphrases and communities of SNMP, from their files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from vcrecovery.errors import UsageError

#: RFC 3414, 11.2.
_SHORTEST_PASSPHRASE = 8


def read_secret(path: Path, what: str) -> bytes:
    """What `path` holds, without the line's end.

    Raises UsageError when it cannot be read, when others can read it too, or when it is empty.
    """
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            secret = file.read(4096).rstrip(b"\r\n")
    except OSError as error:
        raise UsageError(f"{what} cannot be read: {path}: {error.strerror}", "put it there, mode 0600") from error
    if mode & 0o077:
        raise UsageError(f"{what} can be read by others: {path} has mode {mode:04o}", f"chmod 0600 {path}")
    if not secret:
        raise UsageError(f"{what} is empty: {path}", "put the secret there and nothing else")
    return secret


def read_passphrase(path: Path, what: str) -> bytes:
    """As `read_secret`; also raises UsageError when it is shorter than SNMPv3 allows."""
    secret = read_secret(path, what)
    if len(secret) < _SHORTEST_PASSPHRASE:
        raise UsageError(f"{what} is too short: {path}", f"SNMPv3 wants {_SHORTEST_PASSPHRASE} characters or more")
    return secret
