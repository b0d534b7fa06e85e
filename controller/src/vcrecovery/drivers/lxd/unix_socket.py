"""HTTP over a unix socket, with connections that are kept. Little more than the standard library's sockets.

pylxd and requests do it as well, and so does http.client. But to load those is a third of what a failover of a few
services costs the controller, and then each request takes a millisecond of CPU, of which a failover of a site makes
thousands.
"""

from __future__ import annotations

import json
import re
import select
import socket
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

#: So many connections are kept; more are made when they are needed.
KEPT = 32
#: What may stand in a path beside letters and digits.
_IN_PATHS = "/:@!$&'()*+,;=~"
#: Bytes of a line, and lines of a head.
_LONGEST, _MOST_LINES = 65536, 200
_STATUS = re.compile(rb"HTTP/1\.([01]) (\d{3})[ \r\n]")


class Headers:
    """Found in any case."""

    def __init__(self, found: Mapping[str, str]) -> None:
        self._found = {name.lower(): value for name, value in found.items()}

    def get(self, name: str, default: str = "") -> str:
        return self._found.get(name.lower(), default)


@dataclass(frozen=True)
class Answer:
    """What a server has answered, as requests names it."""

    status_code: int
    headers: Headers
    content: bytes

    def json(self) -> Any:
        """Raises ValueError when it is something else."""
        return json.loads(self.content)


class _Connection:
    """One connection, for one request at a time."""

    def __init__(self, place: Path, timeout: float) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(timeout)
            self._socket.connect(str(place))
        except BaseException:
            self._socket.close()
            raise
        self._file = self._socket.makefile("rb")

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    @property
    def was_ended(self) -> bool:
        """Whether the server has closed it: nothing else is to be read from one that waits."""
        ready = select.poll()
        ready.register(self._socket, select.POLLIN)
        return bool(ready.poll(0))

    def ask(self, request: bytes, timeout: float) -> tuple[Answer, bool]:
        """The answer, and whether the connection can be used again. Raises OSError."""
        self._socket.settimeout(timeout)
        self._socket.sendall(request)
        status = 100
        while status < 200:  # what comes before an answer is none
            version, status = self._status()
            headers = self._headers()
        content, to_the_end = self._content(status, headers)
        last = to_the_end or version == 0 or headers.get("Connection").lower() == "close"
        return Answer(status, headers, content), not last

    def _line(self) -> bytes:
        line = self._file.readline(_LONGEST)
        if not line.endswith(b"\n"):
            raise ConnectionError("it hangs up in the middle of an answer" if line else "it hangs up without an answer")
        return line

    def _status(self) -> tuple[int, int]:
        """The second number of HTTP's version, and the status."""
        found = _STATUS.match(self._line())
        if found is None:
            raise ConnectionError("it answers, but not in HTTP")
        return int(found[1]), int(found[2])

    def _headers(self) -> Headers:
        found: dict[str, str] = {}
        for _ in range(_MOST_LINES):
            line = self._line().strip().decode("latin-1")
            if not line:
                return Headers(found)
            name, _colon, value = line.partition(":")
            found[name.strip()] = value.strip()
        raise ConnectionError("its answer has no end")

    def _content(self, status: int, headers: Headers) -> tuple[bytes, bool]:
        """Also whether it went on until the server closed the connection."""
        if status in (204, 304):
            return b"", False
        if headers.get("Transfer-Encoding").lower() == "chunked":
            return b"".join(iter(self._chunk, b"")), False
        length = headers.get("Content-Length")
        if not length:
            return self._file.read(), True
        return self._exactly(_number(length, 10)), False

    def _chunk(self) -> bytes:
        """The next one; empty after the last one."""
        size = _number(self._line().partition(b";")[0].decode("latin-1").strip(), 16)
        if size == 0:
            self._headers()  # those that may follow
            return b""
        content = self._exactly(size)
        self._line()
        return content

    def _exactly(self, size: int) -> bytes:
        content = self._file.read(size)
        if len(content) < size:
            raise ConnectionError("it hangs up in the middle of an answer")
        return content


def _number(text: str, base: int) -> int:
    try:
        return int(text, base)
    except ValueError:
        raise ConnectionError("it answers, but not in HTTP") from None


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
    ) -> Answer:
        """`url` begins with the path; the words are those of requests. `timeout`: for each wait, in seconds.

        Raises OSError when there is no answer, or none that is HTTP.
        """
        request = _request(method, url, params, json, headers)
        connection = self._take(timeout)
        try:
            answer, again = connection.ask(request, timeout)
        except BaseException:
            connection.close()
            raise
        if again and len(self._idle) < KEPT:
            self._idle.append(connection)
        else:
            connection.close()
        return answer

    def _take(self, timeout: float) -> _Connection:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread was quicker
                break
            if not connection.was_ended:
                return connection
            connection.close()
        return _Connection(self._place, timeout)


def _request(
    method: str, url: str, params: Mapping[str, str] | None, document: Any, headers: Mapping[str, str] | None
) -> bytes:
    place = quote(url, safe=_IN_PATHS) + (f"?{urlencode(params)}" if params else "")
    lines = [f"{method} {place} HTTP/1.1", "Host: localhost", "User-Agent: vcrecovery", "Accept-Encoding: identity"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    body = b"" if document is None else json.dumps(document).encode()
    if document is not None:
        lines.append("Content-Type: application/json")
    if method != "GET":
        lines.append(f"Content-Length: {len(body)}")
    if any("\n" in line or "\r" in line for line in lines):
        raise ValueError(f"a header of {method} {place} has more than one line")
    return "\r\n".join((*lines, "", "")).encode() + body


def _close(connections: list[_Connection]) -> None:
    for connection in connections:
        connection.close()
