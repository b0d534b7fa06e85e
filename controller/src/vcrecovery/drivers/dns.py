"""Authoritative DNS: compare-and-swap of a service's records (RFC 2136 prerequisites, TSIG of RFC 8945).

Beside each A record stands a marker, the TXT record `_vcrecovery.NAME`, which holds the epoch of the last switch. An
update carries both old values as prerequisites, so that a controller with an older epoch cannot switch back.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import dns.exception
import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.rdatatype
import dns.tsig
import dns.tsigkeyring
import dns.update

from vcrecovery.drivers.clock import Clock
from vcrecovery.errors import OutsideError, RefusedError

QUERY_TIMEOUT = 3.0
MARKER_TTL = 60


@dataclass(frozen=True)
class Server:
    name: str
    address: str
    port: int

    def __str__(self) -> str:
        return f"{self.name} ({self.address}:{self.port})"


@dataclass(frozen=True)
class Key:
    name: str
    algorithm: str
    secret_file: Path


@dataclass(frozen=True)
class Reading:
    """What one server says of a name: its addresses and the epoch in its marker (0 when there is none)."""

    addresses: frozenset[str]
    epoch: int
    marker: tuple[str, ...] = ()


def marker_name(name: str) -> str:
    return f"_vcrecovery.{name}"


def marker_text(epoch: int) -> str:
    return f"epoch={epoch}"


class Zone:
    """One zone, its servers and its key."""

    def __init__(self, name: str, servers: Sequence[Server], key: Key, clock: Clock) -> None:
        self.name = name
        self.servers = list(servers)
        self._key = key
        self._clock = clock

    def _ask(self, server: Server, name: str, kind: str) -> list[str]:
        query = dns.message.make_query(dns.name.from_text(name), kind)
        query.flags &= ~dns.flags.RD
        try:
            answer = dns.query.tcp(query, server.address, timeout=QUERY_TIMEOUT, port=server.port)
        except (OSError, dns.exception.DNSException) as error:
            raise OutsideError(
                f"DNS server {server} does not answer: {error or type(error).__name__}",
                f"start it, and try `dig @{server.address} -p {server.port} {self.name} SOA`",
            ) from error
        if answer.rcode() not in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
            raise OutsideError(
                f"DNS server {server} answers {dns.rcode.to_text(answer.rcode())} for {name}",
                f"check that it serves the zone {self.name}",
            )
        return [
            rdata.to_text()
            for rrset in answer.answer
            if rrset.rdtype == dns.rdatatype.from_text(kind)
            for rdata in rrset
        ]

    def read(self, server: Server, name: str) -> Reading:
        """Raises OutsideError when the server does not answer."""
        marker = tuple(sorted(self._ask(server, marker_name(name), "TXT")))
        epochs = [int(found) for text in marker for found in re.findall(r"epoch=(\d+)", text)]
        return Reading(frozenset(self._ask(server, name, "A")), max(epochs, default=0), marker)

    def _keyring(self) -> dict[dns.name.Name, dns.tsig.Key]:
        path = self._key.secret_file
        try:
            secret = path.read_text(encoding="ascii").strip()
            return dns.tsigkeyring.from_text({self._key.name: (self._key.algorithm, secret)})
        except OSError as error:
            raise OutsideError(
                f"the secret of TSIG key {self._key.name} cannot be read: {path}: {error.strerror}",
                "put the server's secret there, mode 0600",
            ) from error
        except (ValueError, dns.exception.DNSException) as error:
            raise OutsideError(
                f"{path} holds no base64 secret for TSIG key {self._key.name}", "put the server's secret there"
            ) from error

    def _send(self, update: dns.update.UpdateMessage) -> dns.rcode.Rcode:
        server = self.servers[0]
        bad_key = OutsideError(
            f"DNS server {server} rejects TSIG key {self._key.name} ({self._key.algorithm})",
            f"make {self._key.secret_file} and the server's key the same, then call again",
        )
        try:
            answer = dns.query.tcp(update, server.address, timeout=QUERY_TIMEOUT, port=server.port)
        except (dns.tsig.PeerError, dns.tsig.BadSignature, dns.tsig.BadKey, dns.message.UnknownTSIGKey) as error:
            raise bad_key from error
        except dns.tsig.BadTime as error:
            raise OutsideError(
                f"the clocks of DNS server {server} and of this machine differ too much for TSIG", "set both by NTP"
            ) from error
        except (OSError, dns.exception.DNSException) as error:
            raise OutsideError(
                f"DNS server {server} does not answer: {error or type(error).__name__}", "start it, then call again"
            ) from error
        if answer.rcode() == dns.rcode.NOTAUTH:
            raise bad_key
        return answer.rcode()

    def check_key(self) -> None:
        """Sends an update that changes nothing.

        Raises OutsideError when the server or its key check refuses it.
        """
        update = dns.update.UpdateMessage(self.name, keyring=self._keyring())
        rcode = self._send(update)
        if rcode != dns.rcode.NOERROR:
            raise OutsideError(
                f"DNS server {self.servers[0]} answers {dns.rcode.to_text(rcode)} to updates of {self.name}",
                "allow the key in the zone's update-policy",
            )

    def switch(self, name: str, old: str, new: str, ttl: int, epoch: int) -> Reading:
        """Points `name` at `new` for `epoch`, if it points at `old` or `new` now and no newer epoch has it.

        Returns what was there before. Raises RefusedError when somebody else has changed the name, and OutsideError
        when the server cannot be used now.
        """
        primary = self.servers[0]
        before = self.read(primary, name)
        if before.epoch > epoch:
            raise RefusedError(
                f"{name} belongs to epoch {before.epoch} by now; this controller is at {epoch}",
                "another controller has failed over since: look at its history",
            )
        if before.addresses == {new} and before.epoch == epoch:
            return before
        if not before.addresses <= {old, new}:
            raise RefusedError(
                f"{name} points at {', '.join(sorted(before.addresses))}, which the plan does not know",
                f"set it to {old} or {new} by hand, or correct the plan, then call again",
            )
        update = dns.update.UpdateMessage(self.name, keyring=self._keyring())
        host, marker = (dns.name.from_text(n) for n in (name, marker_name(name)))
        if before.addresses:
            update.present(host, "A", *sorted(before.addresses))
        else:
            update.absent(host, "A")
        if before.marker:
            update.present(marker, "TXT", *before.marker)
        else:
            update.absent(marker, "TXT")
        update.replace(host, ttl, "A", new)
        update.replace(marker, MARKER_TTL, "TXT", f'"{marker_text(epoch)}"')
        rcode = self._send(update)
        if rcode in (dns.rcode.NXRRSET, dns.rcode.YXRRSET, dns.rcode.NXDOMAIN, dns.rcode.YXDOMAIN):
            raise OutsideError(f"{name} was changed by somebody else at this moment", "call again")
        if rcode != dns.rcode.NOERROR:
            raise OutsideError(
                f"DNS server {primary} answers {dns.rcode.to_text(rcode)} to the update of {name}",
                f"allow A and TXT for {name} and {marker_name(name)} in the zone's update-policy",
            )
        return before

    def wait_until_everywhere(self, name: str, address: str, timeout: float) -> list[str]:
        """Asks every authoritative server until each gives `address`; the names of those that did.

        Raises OutsideError, which names the servers that do not after `timeout` seconds.
        """
        deadline = self._clock.now() + timeout
        missing = {server.name: server for server in self.servers}
        trouble: dict[str, str] = {}
        while True:
            for server in list(missing.values()):
                try:
                    found = self.read(server, name).addresses
                except OutsideError as error:
                    trouble[server.name] = error.message
                    continue
                if found == {address}:
                    del missing[server.name]
                else:
                    shown = ", ".join(sorted(found)) or "nothing"
                    trouble[server.name] = f"DNS server {server} still gives {shown} for {name}"
            if not missing:
                return [server.name for server in self.servers]
            if self._clock.now() >= deadline:
                raise OutsideError("; ".join(trouble[n] for n in missing), "check the zone transfer, then call again")
            self._clock.sleep(0.1)
