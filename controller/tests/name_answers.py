"""Servers for one question, on the loopback: of a name, and of whatever port it leads to."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import dns.message
import dns.rrset


@contextmanager
def name_server(address: str | None) -> Iterator[int]:
    """Gives this address for whatever name it is asked for; its port. None: it has no record."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.settimeout(20)

        def serve() -> None:
            with contextlib.suppress(OSError):
                data, client = sock.recvfrom(4096)
                question = dns.message.from_wire(data)
                response = dns.message.make_response(question)
                if address:
                    response.answer.append(dns.rrset.from_text(question.question[0].name, 30, "IN", "A", address))
                sock.sendto(response.to_wire(), client)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield sock.getsockname()[1]
        thread.join(30)


@contextmanager
def greeter(greeting: bytes) -> Iterator[int]:
    """Says that to who connects first, at 127.0.0.1; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.sendall(greeting)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(30)
