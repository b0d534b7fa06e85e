"""HTTP over a unix socket, with connections that are kept. Standard library only.

pylxd and requests do it as well. But to load them is a third of what a failover of a few services costs the
controller, and then each request takes them a millisecond of CPU, of which a failover of a site makes thousands.
"""

from __future__ import annotations

import json
import select
import socket
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPMessage
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

#: So many connections are kept; more are made when they are needed.
KEPT = 32
#: Bytes of an answer: a standby's files are as large as its primary likes.
LARGEST = 1 << 26
#: What may stand in a path beside letters and digits.
_IN_PATHS = "/:@!$&'()*+,;=~"


@dataclass(frozen=True)
class Answer:
    """What a server has answered, as requests names it. `headers` are found in any case."""

    status_code: int
    headers: HTTPMessage
    content: bytes

    def json(self) -> Any:
        """Raises OSError when it is something else."""
        try:
            return json.loads(self.content)
        except ValueError as error:
            raise ConnectionError("it answers, but not in JSON") from error


class _Connection(HTTPConnection):
    def __init__(self, place: Path) -> None:
        super().__init__("localhost")
        self._place = place

    def connect(self) -> None:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(self.timeout)
            sock.connect(str(self._place))
        except BaseException:
            sock.close()
            raise
        self.sock = sock

    def wait_at_most(self, timeout: float) -> None:
        self.timeout = timeout
        if self.sock is not None:
            self.sock.settimeout(timeout)

    @property
    def was_ended(self) -> bool:
        """Whether the server has closed it: nothing else is to be read from one that waits."""
        ready = select.poll()
        ready.register(self.sock, select.POLLIN)
        return bool(ready.poll(0))


class UnixSocketSession:
    """Requests to the one socket, from any thread."""

    def __init__(self, place: Path) -> None:
        self._place = place
        # Appended to and popped from without a lock, which CPython's lists allow.
        self._idle: list[_Connection] = []
        weakref.finalize(self, _close, self._idle)

    def request(
        self,
        method: str,
        url: str,
        *,
        timeout: float,
        params: Mapping[str, str] | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
    ) -> Answer:
        """`url` begins with the path; the words are those of requests. `timeout`: for each wait, in seconds.

        Raises OSError when there is no answer, or none that is HTTP.
        """
        place = quote(url, safe=_IN_PATHS) + (f"?{urlencode(params)}" if params else "")
        body, described = data, dict(headers or {})
        if json is not None:
            body = _encoded(json)
            described["Content-Type"] = "application/json"
        connection, kept = self._take()
        try:
            return self._answer(connection, timeout, method, place, body, described)
        except ConnectionError:
            # LXD may hang up on a connection that was kept, at the moment in which it is used again.
            if not kept or method != "GET":
                raise
        return self._answer(_Connection(self._place), timeout, method, place, body, described)

    def _answer(
        self,
        connection: _Connection,
        timeout: float,
        method: str,
        place: str,
        body: bytes | None,
        described: Mapping[str, str],
    ) -> Answer:
        try:
            connection.wait_at_most(timeout)
            connection.request(method, place, body, dict(described))
            response = connection.getresponse()
            if (response.length or 0) > LARGEST:
                raise ConnectionError(f"it answers with more than {LARGEST} bytes")
            answer = Answer(response.status, response.headers, response.read())
        except HTTPException as error:
            connection.close()
            raise ConnectionError(str(error) or type(error).__name__) from error
        except BaseException:
            connection.close()
            raise
        if connection.sock is not None and len(self._idle) < KEPT:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def _take(self) -> tuple[_Connection, bool]:
        """A connection, and whether it was used before."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was quicker
                break
            if not connection.was_ended:
                return connection, True
            connection.close()
        return _Connection(self._place), False


def _close(connections: list[_Connection]) -> None:
    for connection in connections:
        connection.close()


def _encoded(document: Any) -> bytes:
    return json.dumps(document).encode()
