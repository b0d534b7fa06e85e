"""Serves the figures over HTTP. A few threads at most, a time for each request, text only."""

from __future__ import annotations

import contextlib
import logging
import socket
import socketserver
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from vcrecovery.errors import ExternalError, VCRecoveryError
from vcrecovery.report.exposition import CONTENT_TYPE

log = logging.getLogger("vcrecovery.metrics")

#: So many are served at once; who comes beyond that waits in the kernel's queue for a little, then is turned away.
AT_ONCE = 4
#: Seconds that one may take to ask, and to take the answer.
REQUEST_TIME = 15.0
#: Seconds between two tries to listen, where the address is taken or not there yet.
TRY_AGAIN = 30.0
_HINT = "metrics for Prometheus: /metrics\n"


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
        assert isinstance(self.server, MetricsServer)  # noqa: S101  nobody else makes one
        path = self.path.partition("?")[0]
        status, kind = 200, "text/plain; charset=utf-8"
        if path == "/metrics":
            kind = CONTENT_TYPE
            try:
                text = self.server.page()
            except VCRecoveryError as error:
                status, kind, text = 503, "text/plain; charset=utf-8", f"{error}\n"
        elif path == "/":
            text = _HINT
        else:
            status, text = 404, _HINT
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("%s: %s", self.address_string(), format % args)


class MetricsServer(socketserver.ThreadingMixIn, HTTPServer):
    """Listens from its making on. `page` gives the text."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 16

    def __init__(self, address: str, port: int, page: Callable[[], str]) -> None:
        """Raises ExternalError when the address cannot be listened on."""
        self.page = page
        self._free = threading.BoundedSemaphore(AT_ONCE)
        try:
            super().__init__((address, port), _Handler)
        except OSError as error:
            raise ExternalError(
                f"metrics cannot be served on {address}:{port}: {error.strerror or error}",
                "choose another metrics.port in the plan, or end what listens there",
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
            super().process_request_thread(request, client_address)
        finally:
            limit.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("%s: the request broke off", client_address, exc_info=True)


def keep_serving(address: str, port: int, page: Callable[[], str], stop: threading.Event) -> None:
    """Serves until `stop`. What stands in the way is said once, and tried again: a watcher does not end for it."""
    said = ""
    while not stop.is_set():
        try:
            server = MetricsServer(address, port, page)
        except ExternalError as error:
            if str(error) != said:
                said = str(error)
                log.error("%s", said)
            stop.wait(TRY_AGAIN)
            continue
        log.info("metrics for Prometheus: http://%s:%d/metrics", address, server.server_port)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.5}, daemon=True).start()
        stop.wait()
        server.shutdown()
        server.server_close()
