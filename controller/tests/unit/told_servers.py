"""A webhook and a mail server on the loopback, which take a message, refuse it, answer late, or never do."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Webhook:
    """`answers`: its status; `late`: seconds until it gives it."""

    def __init__(self) -> None:
        self.answers, self.late = 200, 0.0
        self.taken: list[dict[str, Any]] = []
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                time.sleep(webhook.late)
                if webhook.answers < 300:
                    webhook.taken.append(said)
                self.send_response(webhook.answers)
                self.end_headers()

            def log_message(self, *_said: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port

    @property
    def titles(self) -> list[str]:
        return [said["title"] for said in self.taken]


@contextmanager
def a_webhook() -> Iterator[Webhook]:
    found = Webhook()
    thread = threading.Thread(target=found.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        found.server.shutdown()
        found.server.server_close()
        thread.join()


class MailServer:
    """Speaks as much SMTP as a client needs. `refuses`: says so to each recipient; `hangs`: takes the connection only;
    `drips`: sends a byte now and then, for ever; `late`: seconds before its greeting."""

    def __init__(self) -> None:
        self.refuses = self.hangs = self.drips = False
        self.late = 0.0
        self.taken: list[str] = []
        self._over = threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]

    def serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(client,), daemon=True).start()

    def _talk(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            if self.hangs:
                self._over.wait()
                return
            while self.drips and not self._over.wait(0.1):
                client.sendall(b"2")
            time.sleep(self.late)
            client.sendall(b"220 here\r\n")
            with client.makefile("rb") as lines:
                self._dialogue(client, lines)

    def _dialogue(self, client: socket.socket, lines: Any) -> None:
        for line in lines:
            verb = line[:4].upper()
            if verb == b"RCPT" and self.refuses:
                client.sendall(b"550 no such mailbox\r\n")
            elif verb == b"EHLO":
                client.sendall(b"250-here\r\n250 AUTH PLAIN\r\n")
            elif verb == b"AUTH":
                client.sendall(b"235 well\r\n")
            elif verb == b"DATA":
                client.sendall(b"354 go on\r\n")
                text = b""
                while not text.endswith(b"\r\n.\r\n"):
                    text += lines.readline()
                self.taken.append(text.decode())
                client.sendall(b"250 taken\r\n")
            elif verb == b"QUIT":
                client.sendall(b"221 bye\r\n")
                return
            else:
                client.sendall(b"250 well\r\n")

    def close(self) -> None:
        self._over.set()
        # Without that, the thread in accept() holds the socket.
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()


@contextmanager
def a_mail_server() -> Iterator[MailServer]:
    found = MailServer()
    threading.Thread(target=found.serve, daemon=True).start()
    try:
        yield found
    finally:
        found.close()
