"""HTTPS for requests, to one server that is known by its very own certificate.

A failover of several services makes a connection for each, and what a handshake costs the server, signatures above
all, is most of what its small answers cost. So each connection but the first one takes up the TLS session of that
one, where the server allows it.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
from collections.abc import Mapping
from datetime import UTC
from pathlib import Path
from typing import Any

import pylxd
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from pylxd.exceptions import ClientConnectionFailed, LXDAPIException
from requests.adapters import HTTPAdapter

from vcrecovery.drivers.lxd.routes import AnswerError, Route
from vcrecovery.drivers.lxd.unix_socket import LARGEST


class _Resuming(ssl.SSLContext):
    """Its connections take up one session, once there is one."""

    known: ssl.SSLSession | None = None
    newest: ssl.SSLSocket | None = None

    def wrap_socket(self, sock: Any, *args: Any, **options: Any) -> ssl.SSLSocket:
        made = super().wrap_socket(sock, *args, **{"session": self.known, **options})
        if self.known is None:
            self.newest = made
        return made


class PinnedAdapter(HTTPAdapter):
    """Talks to whoever shows `server_certificate`, as the holder of `certificate` and `key`.

    The server is told by its certificate's fingerprint, before anything is asked. Who takes up a session holds its
    secret, so is the one that was told then. Raises ValueError when `server_certificate` holds none, and OSError when
    the others cannot be used.
    """

    def __init__(self, certificate: Path, key: Path, server_certificate: Path, kept: int) -> None:
        self._fingerprint = x509.load_pem_x509_certificate(server_certificate.read_bytes()).fingerprint(hashes.SHA256())
        self._context = context = _Resuming(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.load_cert_chain(certificate, key)
        self._ways: dict[str, Any] = {
            "ssl_context": context,
            "assert_fingerprint": self._fingerprint.hex(),
            "assert_hostname": False,
        }
        super().__init__(pool_maxsize=kept)

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        """Raises OSError for an answer that is too large; nothing of it has been read then."""
        response = super().send(request, *args, **options)
        if int(response.headers.get("Content-Length") or 0) > LARGEST:
            response.close()
            raise ConnectionError(f"it answers with more than {LARGEST} bytes")
        return response

    def connected_socket(self, host: str, port: int, timeout: float) -> ssl.SSLSocket:
        """A connection for something else than requests. Raises OSError, also when the server is another one."""
        plain = socket.create_connection((host, port), timeout)
        try:
            made = self._context.wrap_socket(plain)
        except BaseException:
            plain.close()
            raise
        if hashlib.sha256(made.getpeercert(binary_form=True) or b"").digest() != self._fingerprint:
            made.close()
            raise ConnectionError("Fingerprints did not match")
        return made

    def resume_from_here(self) -> None:
        """Has later connections take up the session of the newest one.

        The server gives its ticket with its first answer. Nobody else may use that connection during the call: OpenSSL
        would change what is read here.
        """
        newest, self._context.newest = self._context.newest, None
        if newest is not None and newest.session is not None and newest.session.has_ticket:
            self._context.known = newest.session

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **options: Any) -> None:
        super().init_poolmanager(connections, maxsize, block, **options, **self._ways)

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """All that is to be verified is told to the pool above."""


def expired_on(certificate: Path, now: float) -> str:
    """The day on which it has; empty while it holds."""
    found = x509.load_pem_x509_certificate(certificate.read_bytes())
    # The one without a zone is of cryptography 41, and deprecated since.
    ends = getattr(found, "not_valid_after_utc", None) or found.not_valid_after.replace(tzinfo=UTC)
    return f"{ends:%Y-%m-%d}" if ends.timestamp() < now else ""


def connected(address: str, adapter: PinnedAdapter, timeout: float) -> tuple[Route, Mapping[str, Any]]:
    """The routes of the server at `address`, and what it says of itself. `timeout` is for each call, in seconds.

    Raises OSError when it does not answer, and AnswerError when it will not have us.
    """
    session = requests.Session()
    # The only one: requests has others for whatever it takes for another place, and they would verify nothing.
    session.adapters.clear()
    session.mount("https://", adapter)
    # The adapter verifies.
    session.verify = False
    # The environment of whoever calls may name a proxy, or other authorities in place of the server's certificate.
    session.trust_env = False
    try:
        client = pylxd.Client(endpoint=address, timeout=timeout, session=session)
    except ClientConnectionFailed as error:
        raise ConnectionError(str(error)) from error
    except LXDAPIException as error:
        raise AnswerError(error.response) from error
    adapter.resume_from_here()
    return Route(session, f"{address}/1.0", timeout), client.host_info
