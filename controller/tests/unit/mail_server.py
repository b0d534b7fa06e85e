"""A mail server in a thread: takes a mail over TLS, refuses, or hangs."""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class MailServer:
    """`hangs`: before that command no more is said. `refuses`: these are answered with 550."""

    certificate: Path
    key: Path
    implicit_tls: bool = False
    without_starttls: bool = False
    hangs: str = ""
    refuses: tuple[str, ...] = ()
    heard: list[str] = field(default_factory=list)
    in_the_clear: list[str] = field(default_factory=list)
    mail: bytes = b""
    over: threading.Event = field(default_factory=threading.Event)

    @contextlib.contextmanager
    def running(self) -> Iterator[int]:
        """Its port."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=self._serve, args=(listener,), daemon=True)
            thread.start()
            yield int(listener.getsockname()[1])
            self.over.set()
            thread.join(10)

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context

    def _serve(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as open_now:
            connection = open_now.enter_context(listener.accept()[0])
            if self.implicit_tls:
                connection = open_now.enter_context(self._context().wrap_socket(connection, server_side=True))
            self._talk(connection, open_now)

    def _talk(self, connection: socket.socket, open_now: contextlib.ExitStack) -> None:
        connection.sendall(b"220 mail.example.test\r\n")
        encrypted = self.implicit_tls
        reader = open_now.enter_context(connection.makefile("rb"))
        while line := reader.readline():
            said = line.decode().strip()
            (self.heard if encrypted else self.in_the_clear).append(said)
            verb = said.split()[0].upper()
            if verb == self.hangs:
                self.over.wait(30)
                return
            if verb == "STARTTLS":
                connection.sendall(b"220 go on\r\n")
                connection = open_now.enter_context(self._context().wrap_socket(connection, server_side=True))
                reader, encrypted = open_now.enter_context(connection.makefile("rb")), True
                continue
            if verb == "DATA":
                connection.sendall(b"354 go on\r\n")
                while (line := reader.readline()) != b".\r\n":
                    self.mail += line
            connection.sendall(self._answer(verb, said, encrypted=encrypted))
            if verb == "QUIT":
                return

    def _answer(self, verb: str, said: str, *, encrypted: bool) -> bytes:
        if verb in self.refuses or any(word in said for word in self.refuses):
            return b"550 not here\r\n"
        if verb == "EHLO":
            starttls = [] if encrypted or self.without_starttls else ["STARTTLS"]
            offers = ["mail.example.test", *starttls, *(["AUTH PLAIN"] if encrypted else [])]
            return b"".join(
                f"250{'-' if n < len(offers) - 1 else ' '}{offer}\r\n".encode() for n, offer in enumerate(offers)
            )
        return {"AUTH": b"235 welcome\r\n", "QUIT": b"221 bye\r\n"}.get(verb, b"250 well\r\n")

    def login(self) -> bytes:
        """What it was told of who logs in."""
        said = next(line for line in self.heard if line.startswith("AUTH PLAIN"))
        return base64.b64decode(said.split()[-1])


def certificate(folder: Path) -> tuple[Path, Path]:
    """For 127.0.0.1 and localhost, signed by itself; with its key."""
    file, key = folder / "server.crt", folder / "server.key"
    subprocess.run(
        [
            *(
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "2",
            ),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
            *("-keyout", key, "-out", file),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return file, key
