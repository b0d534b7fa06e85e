"""HTTP over a unix socket for requests, with connections that are kept.

pylxd's own adapter makes a pool for each address that is asked for, and so a connection for nearly each call.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection

#: So many connections are kept; more are made when they are needed.
KEPT = 32


class _Connection(HTTPConnection):
    """`place` is the socket's path; urllib3 sets the timeout before it connects."""

    place = ""

    def _new_conn(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.settimeout(self.timeout)
            sock.connect(self.place)
        except BaseException:
            sock.close()
            raise
        return sock


class UnixSocketAdapter(HTTPAdapter):
    """Every address of the session leads to the one socket."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._pool = HTTPConnectionPool("localhost", maxsize=KEPT)
        self._pool.ConnectionCls = type("_ConnectionTo", (_Connection,), {"place": str(path)})

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> HTTPConnectionPool:
        return self._pool

    #: The same for a requests before 2.32.
    get_connection = get_connection_with_tls_context

    def request_url(self, request: Any, _proxies: Any) -> str:
        return str(request.path_url)

    def close(self) -> None:
        self._pool.close()
        super().close()


class UnixSocketSession(Session):
    """A session for the one socket, without what the open web needs: no cookies, redirects, proxies or passwords.

    That is a third of what a request costs, and a failover of a site makes thousands.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._adapter = UnixSocketAdapter(path)
        self.mount("http+unix://", self._adapter)

    def request(self, method: Any, url: Any, **options: Any) -> Response:
        request = PreparedRequest()
        words = {name: options.get(name) for name in ("params", "data", "json", "headers", "files")}
        request.prepare(method=method, url=url, **words)
        response = self._adapter.send(request, stream=True, timeout=options.get("timeout"))
        if not options.get("stream"):
            _ = response.content
        return response
