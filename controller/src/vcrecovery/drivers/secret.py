"""A secret in a file of its own, which nobody else may read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from vcrecovery.errors import ExternalError

_LONGEST = 1024


def read_secret(path: Path, what: str, put: str, encoding: str = "utf-8") -> str:
    """`what` it is, in a sentence, and what to `put` there. Raises ExternalError where others may read it, too."""
    try:
        with path.open(encoding=encoding) as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            secret = file.read(_LONGEST).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ExternalError(f"{what} cannot be read: {path}: {reason}", f"put {put} there, mode 0600") from error
    if mode & 0o077:
        raise ExternalError(f"{what} can be read by others: {path} has mode {mode:04o}", f"chmod 600 {path}")
    return secret
