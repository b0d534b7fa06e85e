"""The folder into which `vcrecovery event` puts Zabbix's events, and the socket in it by which it calls.

Standard library only: `vcrecovery event` is started by Zabbix's agent, while a service is down.
The folder is open to the agent's account, so nothing in it is trusted: a name that is a number is all that is read.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DEFAULT = Path("/var/lib/vcrecovery/events")
_SOCKET = "watch.sock"
_DATAGRAMS = (socket.AF_UNIX, socket.SOCK_DGRAM)
#: Zabbix's ids are 64 bits wide.
_NUMBER = re.compile(r"[0-9]{1,20}", re.ASCII)
#: The most events that are taken up at a time.
_AT_MOST = 1000


def event_id(text: str) -> str | None:
    """The id without leading zeros; None when it is none."""
    return str(int(text)) if _NUMBER.fullmatch(text) and int(text) else None


def put(spool: Path, event: str) -> None:
    """Leaves the event in the folder, and calls the watcher if there is one. Raises OSError."""
    # Its name is all that is read of it, so it is whole from its first moment.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(spool / event, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
    with contextlib.suppress(OSError), _reachable(spool) as path, socket.socket(*_DATAGRAMS) as sock:
        sock.setblocking(False)
        sock.sendto(event.encode(), path)


def waiting(spool: Path) -> list[str]:
    """The events in the folder, those first that came first. Raises OSError."""
    found: list[tuple[float, str]] = []
    with os.scandir(spool) as entries:
        for entry in entries:
            if event_id(entry.name) == entry.name:
                with contextlib.suppress(OSError):
                    found.append((entry.stat(follow_symlinks=False).st_mtime, entry.name))
    return [name for _, name in sorted(found)[:_AT_MOST]]


def remove(spool: Path, event: str) -> None:
    """It is written down elsewhere."""
    with contextlib.suppress(OSError):
        (spool / event).unlink()


@contextmanager
def listening(spool: Path) -> Iterator[socket.socket]:
    """The socket that `put` calls; anything that arrives means: look into the folder. Raises OSError."""
    spool.mkdir(mode=0o770, parents=True, exist_ok=True)
    path = spool / _SOCKET
    path.unlink(missing_ok=True)
    with _reachable(spool) as short, socket.socket(*_DATAGRAMS) as sock:
        sock.bind(short)
        with contextlib.suppress(OSError):
            os.chown(path, -1, spool.stat().st_gid, follow_symlinks=False)
            path.chmod(0o660)
        try:
            yield sock
        finally:
            path.unlink(missing_ok=True)


@contextmanager
def _reachable(spool: Path) -> Iterator[str]:
    """A short path of the socket: it must fit into 107 bytes, however long the folder's is."""
    folder = os.open(spool, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{_SOCKET}"
    finally:
        os.close(folder)
