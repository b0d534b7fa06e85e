"""Name servers on loopback, in this process: one that says anything, and one that keeps records as BIND does."""

from __future__ import annotations

import base64
import socketserver
import struct
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset
import dns.tsig
import dns.tsigkeyring
import dns.update

from vcrecovery.drivers.clock import Clock, SystemClock
from vcrecovery.drivers.dns import Key, Server, Zone

ZONE, KEY, SECRET = "example.test", "key", base64.b64encode(b"_" * 32).decode()
Answer = Callable[[bytes], bytes]


@contextmanager
def server(answer: Answer, name: str = "ns1", port: int = 0, address: str = "127.0.0.1") -> Iterator[Server]:
    """A TCP server that reads one message and sends what `answer` makes of it."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            (length,) = struct.unpack("!H", self.request.recv(2))
            self.request.sendall(answer(self.request.recv(length)))

    class Threads(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    with Threads((address, port), Handler) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Server(name, address, made.server_address[1])
        finally:
            made.shutdown()
            thread.join()


def framed(message: bytes) -> bytes:
    return struct.pack("!H", len(message)) + message


def is_update(query: bytes) -> bool:
    return query[2] >> 3 & 15 == 5


def zone(
    folder: Path, *servers: Server, secret: str = SECRET, clock: Clock | None = None, algorithm: str = "hmac-sha256"
) -> Zone:
    file = folder / "secret"
    file.write_text(secret)
    return Zone(ZONE, servers, Key(KEY, algorithm, file), clock or SystemClock())


def _plain(name: object) -> str:
    return str(name).rstrip(".").lower()


class Records:
    """What a name server holds, and how it answers: queries with authority, updates as RFC 2136 and its key allow."""

    def __init__(self) -> None:
        self.held: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self.ttl: dict[tuple[str, str], int] = {}
        self.algorithm = "hmac-sha256"
        #: What the key may change; None: all.
        self.granted: set[tuple[str, str]] | None = None
        self.flags, self.rcode = dns.flags.AA, dns.rcode.NOERROR
        #: What updates are answered with instead of being made.
        self.update_rcode: dns.rcode.Rcode | None = None
        self.signs, self.tsig_error = True, dns.rcode.NOERROR
        #: Called when a message has come, before it is looked at.
        self.asked: Callable[[dns.message.Message], None] = lambda _message: None

    def write(self, name: str, kind: str, *values: str, ttl: int = 60) -> None:
        self.held[name, kind] = set(values)
        self.ttl[name, kind] = ttl

    def snapshot(self) -> dict[tuple[str, str], frozenset[str]]:
        return {key: frozenset(values) for key, values in self.held.items() if values}

    def __call__(self, wire: bytes) -> bytes:
        keyring = dns.tsigkeyring.from_text({KEY: (self.algorithm, SECRET)})
        try:
            query = dns.message.from_wire(wire, keyring=keyring)
        except dns.tsig.BadSignature:
            query = dns.message.from_wire(wire, keyring=False)
            answer = dns.message.make_response(query)
            answer.use_tsig(keyring, tsig_error=dns.rcode.BADSIG)
            answer.set_rcode(dns.rcode.NOTAUTH)
            return framed(answer.to_wire())
        self.asked(query)
        answer = dns.message.make_response(query, tsig_error=self.tsig_error)
        if isinstance(query, dns.update.UpdateMessage):
            answer.set_rcode(self._updated(query) if self.update_rcode is None else self.update_rcode)
            if not self.signs:
                answer.tsig = None
                answer.keyring = None
        else:
            answer.flags |= self.flags
            answer.set_rcode(self.rcode)
            self._fill(answer, query.question[0].name, dns.rdatatype.to_text(query.question[0].rdtype))
        return framed(answer.to_wire())

    def _fill(self, answer: dns.message.Message, name: dns.name.Name, kind: str) -> None:
        """With what an alias leads to, if that is here too."""
        for found in dict.fromkeys((kind, "CNAME")):
            if values := self.held[_plain(name), found]:
                ttl = self.ttl[_plain(name), found]
                answer.answer.append(dns.rrset.from_text_list(name, ttl, "IN", found, sorted(values)))
                if found != kind:
                    self._fill(answer, dns.name.from_text(next(iter(values))), kind)

    def _updated(self, update: dns.update.UpdateMessage) -> dns.rcode.Rcode:
        wanted: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for rrset in update.prerequisite:
            name, kind = _plain(rrset.name), dns.rdatatype.to_text(rrset.rdtype)
            in_use = any(values for (of, _), values in self.held.items() if of == name)
            if rrset.deleting is None:
                wanted[name, kind] |= {rdata.to_text() for rdata in rrset}
            elif rrset.deleting == dns.rdataclass.ANY and not (in_use if kind == "ANY" else self.held[name, kind]):
                return dns.rcode.NXDOMAIN if kind == "ANY" else dns.rcode.NXRRSET
            elif rrset.deleting == dns.rdataclass.NONE and (in_use if kind == "ANY" else self.held[name, kind]):
                return dns.rcode.YXDOMAIN if kind == "ANY" else dns.rcode.YXRRSET
        if any(self.held[key] != values for key, values in wanted.items()):
            return dns.rcode.NXRRSET
        changes = [(_plain(rrset.name), dns.rdatatype.to_text(rrset.rdtype), rrset) for rrset in update.update]
        if self.granted is not None and any((name, kind) not in self.granted for name, kind, _ in changes):
            return dns.rcode.REFUSED
        for name, kind, rrset in changes:
            self._change(name, kind, rrset)
        return dns.rcode.NOERROR

    def _change(self, name: str, kind: str, rrset: dns.rrset.RRset) -> None:
        values = {rdata.to_text() for rdata in rrset}
        if rrset.deleting == dns.rdataclass.ANY:
            self.held[name, kind] = set()
        elif rrset.deleting == dns.rdataclass.NONE:
            self.held[name, kind] -= values
        elif not any(
            held for (of, other), held in self.held.items() if of == name and (other == "CNAME") != (kind == "CNAME")
        ):
            # Else ignored: a CNAME stands alone.
            self.held[name, kind] = values if kind == "CNAME" else self.held[name, kind] | values
            self.ttl[name, kind] = rrset.ttl
