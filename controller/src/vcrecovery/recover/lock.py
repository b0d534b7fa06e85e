"""One controller at a time per service. The kernel drops the lock when its holder dies, however it dies."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vcrecovery.errors import BusyError


@contextmanager
def service_lock(state_dir: Path, service: str) -> Iterator[None]:
    """Holds the service for this process.

    Raises BusyError, which names the holder, when another process has it.
    """
    folder = state_dir / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{service}.lock").open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise BusyError(
                f"{holder} is already at work on {service}", f"`vcrecovery status {service}` shows how far it is"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()}")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)
