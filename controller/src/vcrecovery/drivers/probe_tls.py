"""The TLS of a probe. Loaded for a probe that has some: what it needs costs the others time."""

from __future__ import annotations

import socket
import ssl
from functools import lru_cache
from pathlib import Path
from typing import Any

from vcrecovery.drivers.probe_answer import BadAnswerError, seconds_left
from vcrecovery.plan.probes import Trust


@lru_cache(maxsize=16)
def _context(ca_file: Path | None, _written_at: int, verify: bool) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_file)
    # The names are compared below, so that a wrong one can be shown.
    context.check_hostname = False
    if not verify:
        context.verify_mode = ssl.CERT_NONE
    return context


def handshake(sock: socket.socket, trust: Trust, name: str, deadline: float) -> ssl.SSLSocket:
    """Raises BadAnswerError, and OSError, of which `trouble` says more."""
    try:
        written_at = trust.ca_file.stat().st_mtime_ns if trust.ca_file else 0
        context = _context(trust.ca_file, written_at, trust.verify)
    except OSError as error:
        # An SSLError too: a file that holds no certificate.
        raise BadAnswerError(f"{trust.ca_file} holds no usable certificate: {error.strerror}") from error
    sock.settimeout(seconds_left(deadline))
    wrapped = context.wrap_socket(sock, server_hostname=name)
    if trust.verify:
        certificate: Any = wrapped.getpeercert() or {}
        named = [str(text).lower() for _kind, text in certificate.get("subjectAltName", ())]
        if not any(_covers(text, name) for text in named):
            wrapped.close()
            raise BadAnswerError(f"certificate is for {', '.join(named) or 'no name'}")
    return wrapped


def _covers(named: str, name: str) -> bool:
    """Whether a name in a certificate, which may be `*.example.net`, stands for `name` (RFC 6125)."""
    if named.startswith("*."):
        return name.partition(".")[2] == named[2:]
    return named == name


def trouble(error: OSError) -> str:
    """What TLS has against it; empty when that is not the trouble."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"no TLS: {(error.reason or str(error)).replace('_', ' ').lower()}"
    return ""
