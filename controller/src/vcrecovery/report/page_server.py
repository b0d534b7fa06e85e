"""Serves pages over HTTP. A few threads at most, a time for each request, nothing but reading."""

from __future__ import annotations

import contextlib
import logging
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from vcrecovery.errors import ExternalError, VCRecoveryError

log = logging.getLogger("vcrecovery.pages")

#: So many are served at once; who comes beyond that waits in the kernel's queue for a little, then is turned away.
AT_ONCE = 4
#: Seconds that one may take to ask, and to take the answer.
REQUEST_TIME = 15.0
#: Seconds between two tries to listen, where the address is taken or not there yet.
TRY_AGAIN = 30.0
TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True)
class Asked:
    """What a client wants. `authorization`: its header of that name, as it came; empty where there is none."""

    path: str
    query: str = ""
    authorization: str = ""


@dataclass(frozen=True)
class Answer:
    """What it gets."""

    text: str
    kind: str = TEXT
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Answers = Callable[[Asked], Answer]


@dataclass(frozen=True)
class Place:
    """Where what is served: `what` in a sentence, `key` of the plan; `tls` gives the context, anew at each start."""

    what: str
    key: str
    address: str
    port: int
    path: str = "/"
    tls: Callable[[], ssl.SSLContext] | None = None


class _Handler(BaseHTTPRequestHandler):
    """GET and HEAD, nothing else."""

    server_version = "vcrecovery"
    sys_version = ""
    timeout = 5.0

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, *, body: bool) -> None:
        assert isinstance(self.server, PageServer)  # noqa: S101  nobody else makes one
        path, _, query = self.path.partition("?")
        try:
            answer = self.server.answers(Asked(path, query, self.headers.get("Authorization", "")))
        except VCRecoveryError as error:
            answer = Answer(f"{error}\n", status=503)
        data = answer.text.encode(errors="backslashreplace")
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("%s: %s", self.address_string(), format % args)


class PageServer(socketserver.ThreadingMixIn, HTTPServer):
    """Listens from its making on."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 16

    def __init__(self, place: Place, answers: Answers) -> None:
        """Raises ExternalError when the address cannot be listened on, or its certificate not be used."""
        self.answers = answers
        self._tls = place.tls() if place.tls is not None else None
        self._free = threading.BoundedSemaphore(AT_ONCE)
        try:
            super().__init__((place.address, place.port), _Handler)
        except OSError as error:
            raise ExternalError(
                f"{place.what} cannot be served on {place.address}:{place.port}: {error.strerror or error}",
                f"choose another {place.key}.port in the plan, or end what listens there",
            ) from error

    def server_bind(self) -> None:
        # HTTPServer would ask DNS for its own name.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(timeout=1.0):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be had now
            self._free.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        def give_up() -> None:
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

        # The handler's own time-out begins anew with each byte.
        limit = threading.Timer(REQUEST_TIME, give_up)
        limit.daemon = True
        limit.start()
        try:
            if self._tls is not None:
                # Here, and not where connections are taken: one that says nothing holds up nobody else.
                request.settimeout(_Handler.timeout)
                request = self._tls.wrap_socket(request, server_side=True)
            super().process_request_thread(request, client_address)
        except OSError:  # those of TLS are, too
            log.debug("%s: no connection came about", client_address, exc_info=True)
            self.shutdown_request(request)
        finally:
            limit.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("%s: the request broke off", client_address, exc_info=True)


def keep_serving(place: Place, answers: Answers, stop: threading.Event) -> None:
    """Serves until `stop`. What stands in the way is said once, and tried again: a watcher does not end for it."""
    said = ""
    while not stop.is_set():
        try:
            server = PageServer(place, answers)
        except ExternalError as error:
            if str(error) != said:
                said = str(error)
                log.error("%s", said)
            stop.wait(TRY_AGAIN)
            continue
        scheme = "http" if place.tls is None else "https"
        log.info("%s: %s://%s:%d%s", place.what, scheme, place.address, server.server_port, place.path)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.5}, daemon=True).start()
        stop.wait()
        server.shutdown()
        server.server_close()
