"""What happens to the instances of one server, as it tells it: a websocket of the API (/1.0/events, type lifecycle).

LXD names with each event who asked for it, if anybody did. What happens while nobody listens is not told later.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from vcrecovery.drivers.lxd.connection import CALL_TIMEOUT, Connection
from vcrecovery.errors import ExternalError

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

#: Seconds between two signs of life that are asked for, and for each of them: a server may be gone without a word.
_SIGN_OF_LIFE = 10.0
#: Bytes of one event; LXD repeats the command of whoever executes something in an instance.
_LARGEST = 1 << 20
#: Characters of a name: that of a client over TLS is its certificate's fingerprint, of which `lxc config trust list`
#: shows so many.
_NAME = 12
#: LXD's words: `shutdown` for what ended by itself too, and for what was asked to end and did.
_MEANING = {
    "instance-started": "started",
    "instance-restarted": "started",
    "instance-resumed": "started",
    "instance-shutdown": "ended",
    "instance-stopped": "ended",
    "instance-paused": "frozen",
}


@dataclass(frozen=True)
class Happening:
    """`what` became of an instance: started, ended or frozen. `asked_by`: who wanted it; empty where nobody asked."""

    instance: str
    what: str
    asked_by: str = ""


class Happenings(Protocol):
    """Those of one server, from the moment on in which they were asked for."""

    def next(self, timeout: float) -> Happening | None:
        """None when nothing has happened within so many seconds. Raises ExternalError when no more will be told."""


class _Listening:
    def __init__(self, unreachable: Callable[[Exception], ExternalError], websocket: ClientConnection) -> None:
        self._unreachable, self._websocket = unreachable, websocket

    def next(self, timeout: float) -> Happening | None:
        from websockets.exceptions import WebSocketException

        try:
            message = self._websocket.recv(timeout)
        except TimeoutError:
            return None
        except (WebSocketException, OSError) as error:
            raise self._unreachable(ConnectionError(str(error) or type(error).__name__)) from error
        return happening_in(message)


def happening_in(message: str | bytes) -> Happening | None:
    """None for what is of no interest here, also for what is no event at all."""
    try:
        found = json.loads(message)["metadata"]
        what, source = _MEANING.get(found["action"]), found["source"]
        asked = found.get("requestor") or {}
        by = " over ".join(str(asked[key])[:_NAME] for key in ("username", "protocol") if asked.get(key))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if what is None or not isinstance(source, str):
        return None
    name = urlsplit(source).path.rpartition("/instances/")[2]
    return Happening(name, what, by) if name and "/" not in name else None


class Lifecycle(Connection):
    """The part of a server that tells what happens."""

    @contextmanager
    def lifecycle(self) -> Iterator[Happenings]:
        """Raises ExternalError when the server cannot be listened to."""
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect

        with ExitStack() as left_open:
            try:
                sock = left_open.enter_context(self._connected_socket(CALL_TIMEOUT))
                websocket = left_open.enter_context(
                    connect(
                        # What encrypts is the socket, where it does: it has shown that it is the server's.
                        "ws://lxd/1.0/events?type=lifecycle",
                        sock=sock,
                        proxy=None,
                        compression=None,
                        open_timeout=CALL_TIMEOUT,
                        close_timeout=1.0,
                        ping_interval=_SIGN_OF_LIFE,
                        ping_timeout=_SIGN_OF_LIFE,
                        max_size=_LARGEST,
                    )
                )
            except (WebSocketException, OSError) as error:  # a time-out is an OSError
                raise self._unreachable(ConnectionError(str(error) or type(error).__name__)) from error
            yield _Listening(self._unreachable, websocket)

    def _connected_socket(self, timeout: float) -> socket.socket:
        if not isinstance(self._place, Path):
            self._place.check()
            parts = urlsplit(self._place.url)
            return self._place.adapter().connected_socket(parts.hostname or "", parts.port or 443, timeout)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(timeout)
            sock.connect(str(self._place))
        except BaseException:
            sock.close()
            raise
        return sock
