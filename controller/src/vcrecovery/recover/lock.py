"""One controller at a time per service. The kernel drops the lock when its holder dies, however it dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vcrecovery.errors import BusyError, OutsideError


@contextmanager
def service_lock(state_dir: Path, service: str) -> Iterator[None]:
    """Holds the service for this process.

    Raises BusyError, which names the holder, when another process has it.
    """
    path = state_dir / "locks" / f"{service}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise OutsideError(f"the lock {path} cannot be used: {error.strerror}", "correct its rights") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise BusyError(
                f"{holder} is already at work on {service}", f"`vcrecovery status {service}` shows how far it is"
            ) from None
        # The name is for people; a full disk must not stand in the way of a failover.
        with contextlib.suppress(OSError):
            file.truncate(0)
            file.write(f"process {os.getpid()}")
            file.flush()
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                file.truncate(0)
