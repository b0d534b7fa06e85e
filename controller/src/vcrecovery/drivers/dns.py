"""Authoritative DNS: compare-and-swap of a service's records (RFC 2136 prerequisites, TSIG of RFC 8945).

Beside each name stands a marker, the TXT record `_vcrecovery.NAME`, which holds the epoch of the last switch. One
update changes all records of a name and the marker, and carries all the old values as prerequisites, so that a
controller with an older epoch cannot switch back.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from threading import BoundedSemaphore

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.query
import dns.rcode
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.tsig
import dns.update

from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.runtime import THREADS, Runtime, results
from vcrecovery.errors import ExternalError, RefusedError

QUERY_TIMEOUT = 3.0
MARKER_TTL = 60
#: So many servers are asked at once.
AT_ONCE = 8
#: So many questions are put to one server at once: BIND has 10 places for who waits to be let in, and lets in 150. A
#: site's services would else be more than that, and some of them would be told that it does not answer.
QUESTIONS_AT_ONCE = 32
#: A server that hangs up is an EOFError, and what it sends may be anything.
_NO_ANSWER = (OSError, EOFError, ValueError, dns.exception.DNSException)
_REJECTED = (dns.tsig.PeerError, dns.tsig.BadSignature, dns.tsig.BadKey, dns.message.UnknownTSIGKey)
#: What no service holds; its removal changes nothing, but servers refuse it like any other change (BIND: not for SRV).
_NOTHING = {"A": "0.0.0.0", "AAAA": "100::", "CNAME": "invalid.", "SRV": "0 0 0 invalid.", "TXT": '"nothing"'}  # noqa: S104


@dataclass
class _Queue:
    """Who waits for one server."""

    turns: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(QUESTIONS_AT_ONCE))
    #: When a question last got no answer in time, by time.monotonic().
    silent_at: float = 0.0


@lru_cache
def _queue(_address: str, _port: int) -> _Queue:
    return _Queue()


@dataclass(frozen=True)
class Server:
    name: str
    address: str
    port: int

    def ask(self, message: dns.message.Message) -> dns.message.Message:
        """Its answer, by TCP.

        Raises what dnspython does. Whoever waits for a turn while a server turns out to be silent is told so at once:
        one that hangs takes a site's failover one timeout, not one for every 32 services.
        """
        queue, began = _queue(self.address, self.port), time.monotonic()
        with queue.turns:
            if queue.silent_at > began:
                raise dns.exception.Timeout
            try:
                return dns.query.tcp(message, self.address, timeout=QUERY_TIMEOUT, port=self.port)
            except (TimeoutError, dns.exception.Timeout):
                queue.silent_at = time.monotonic()
                raise

    def __str__(self) -> str:
        return f"{self.name} ({self.address}:{self.port})"


@dataclass(frozen=True)
class Key:
    name: str
    algorithm: str
    secret_file: Path

    @property
    def next_secret_file(self) -> Path:
        """Beside the other one while the role `dns` rotates the key."""
        return self.secret_file.with_name(f"{self.secret_file.name}.next")


@dataclass(frozen=True)
class Change:
    """One record of a name: its type, what it may hold now, and what it shall hold, as a zone file writes them."""

    kind: str
    old: str
    new: str
    ttl: int
    #: What else it may hold now.
    also: tuple[str, ...] = ()

    @property
    def wanted(self) -> str:
        return _canonical(self.kind, self.new)

    @property
    def known(self) -> frozenset[str]:
        return frozenset((*(_canonical(self.kind, value) for value in (self.old, *self.also)), self.wanted))


@dataclass(frozen=True)
class Reading:
    """What one server says of a name: its values by type, and the epoch in its marker (0 when there is none)."""

    values: Mapping[str, frozenset[str]]
    epoch: int
    marker: tuple[str, ...] = ()
    #: Seconds, for the types that have values.
    ttl: Mapping[str, int] = field(default_factory=dict)
    #: Where the name leads if it is a CNAME and another type was asked for.
    alias: str = ""

    @property
    def all_values(self) -> list[str]:
        return sorted(value for values in self.values.values() for value in values)


@dataclass(frozen=True)
class Prepared:
    """A switch that nothing speaks against. `update` is None when all is as it shall be."""

    name: str
    before: Reading
    update: dns.update.UpdateMessage | None


def marker_name(name: str) -> str:
    return f"_vcrecovery.{name}"


def marker_text(epoch: int) -> str:
    return f"epoch={epoch}"


def _canonical(kind: str, text: str) -> str:
    found = dns.rdata.from_text(dns.rdataclass.IN, dns.rdatatype.from_text(kind), text).to_text()
    return found if kind == "TXT" else found.lower()


def _shown(values: Sequence[str] | frozenset[str]) -> str:
    return ", ".join(sorted(values)) or "nothing"


class Zone:
    """One zone, its servers and its key. The first server takes the updates."""

    def __init__(
        self, name: str, servers: Sequence[Server], key: Key, clock: Clock, runtime: Runtime = THREADS
    ) -> None:
        self.name = name
        self.servers = list(servers)
        self._key = key
        self._clock = clock
        self._runtime = runtime

    # -- reading -----------------------------------------------------------------------------------------------

    def _ask(self, server: Server, name: str, kind: str) -> tuple[list[str], int, str]:
        """The values of that type, their TTL, and where the name leads if it is an alias."""
        wanted = dns.name.from_text(name)
        query = dns.message.make_query(wanted, kind)
        query.flags &= ~dns.flags.RD
        try:
            answer = server.ask(query)
        except _NO_ANSWER as error:
            raise self._silent(
                server, error, f"try `dig @{server.address} -p {server.port} {self.name} SOA`"
            ) from error
        if answer.rcode() not in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN):
            raise ExternalError(
                f"DNS server {server} answers {dns.rcode.to_text(answer.rcode())} for {name}",
                f"check that it serves the zone {self.name}",
            )
        if not answer.flags & dns.flags.AA:
            raise ExternalError(
                f"DNS server {server} is not authoritative for {name}", f"check that it serves the zone {self.name}"
            )
        values: list[str] = []
        ttl, alias = 0, ""
        # Behind an alias of the same zone stand records of other names.
        for rrset in answer.answer:
            if rrset.name != wanted:
                continue
            if rrset.rdtype == dns.rdatatype.from_text(kind):
                ttl = rrset.ttl
                values += [_canonical(kind, rdata.to_text()) for rdata in rrset]
            elif rrset.rdtype == dns.rdatatype.CNAME:
                alias = rrset[0].to_text().lower()
        return values, ttl, alias

    def _silent(self, server: Server, error: Exception, hint: str) -> ExternalError:
        shown = str(error) or type(error).__name__
        if isinstance(error, EOFError):
            what = "hangs up"
        elif isinstance(error, OSError | dns.exception.Timeout):
            what = f"does not answer: {shown}"
        else:
            what = f"gives an unusable answer: {shown}"
        return ExternalError(f"DNS server {server} {what}", f"see that it runs, and {hint}")

    def read(self, server: Server, name: str, kinds: Sequence[str]) -> Reading:
        """Raises ExternalError when the server does not answer, or not with authority."""
        marker = tuple(sorted(self._ask(server, marker_name(name), "TXT")[0]))
        epochs = [int(found) for text in marker for found in re.findall(r"\bepoch=(\d{1,15})\b", text)]
        return replace(self.read_unmarked(server, name, kinds), epoch=max(epochs, default=0), marker=marker)

    def read_unmarked(self, server: Server, name: str, kinds: Sequence[str]) -> Reading:
        """The same without its marker: half the questions, for who looks at all names again and again."""
        values, ttl, alias = {}, {}, ""
        for kind in kinds:
            found, seconds, leads_to = self._ask(server, name, kind)
            values[kind] = frozenset(found)
            if found:
                ttl[kind] = seconds
            alias = alias or leads_to
        return Reading(values, 0, (), ttl, alias)

    def serial(self, server: Server) -> int:
        """The zone's, there. Raises ExternalError when the server does not answer, or not with authority."""
        found = self._ask(server, self.name, "SOA")[0]
        try:
            return int(found[0].split()[2])
        except (IndexError, ValueError) as error:
            raise ExternalError(
                f"DNS server {server} gives no SOA for {self.name}", f"check that it serves the zone {self.name}"
            ) from error

    # -- updates -----------------------------------------------------------------------------------------------

    def _tsig_key(self, path: Path) -> dns.tsig.Key:
        """Raises ExternalError, which names the file."""
        try:
            # dnspython skips what is no base64: it makes an empty key, or another one, of a file without a secret.
            text = "".join(path.read_text(encoding="ascii").split()).strip('";')
            secret = base64.b64decode(text, validate=True)
        except OSError as error:
            raise ExternalError(
                f"the secret of TSIG key {self._key.name} cannot be read: {path}: {error.strerror}",
                "put the server's secret there, mode 0600",
            ) from error
        except ValueError:
            secret = b""
        if not secret:
            raise ExternalError(
                f"{path} holds no base64 secret for TSIG key {self._key.name}", "put the server's secret there"
            )
        return dns.tsig.Key(self._key.name, secret, self._key.algorithm)

    def _update(self) -> dns.update.UpdateMessage:
        return dns.update.UpdateMessage(self.name, keyring=self._tsig_key(self._key.secret_file))

    def _send(self, update: dns.update.UpdateMessage) -> dns.rcode.Rcode:
        server = self.servers[0]
        try:
            try:
                answer = server.ask(update)
            except _REJECTED:
                # While the key is rotated, the server has the next secret first, and then so has the file.
                key = self._tsig_key(
                    following if (following := self._key.next_secret_file).exists() else self._key.secret_file
                )
                if key == update.keyring:
                    raise
                update.use_tsig(key)
                answer = server.ask(update)
        except (dns.tsig.BadTime, dns.tsig.PeerBadTime) as error:
            raise ExternalError(
                f"the clocks of DNS server {server} and of this machine differ too much for TSIG", "set both by NTP"
            ) from error
        except _REJECTED as error:
            raise ExternalError(
                f"DNS server {server} rejects TSIG key {self._key.name} ({self._key.algorithm})",
                f"make {self._key.secret_file} and the server's key the same (if they are: restart BIND there, or run "
                "keys_rotate.yml again), then run it again",
            ) from error
        except dns.exception.FormError as error:
            # Mostly one without a signature: it may be another's answer, and dnspython takes none since 2.9.
            mend = f"that it is the zone's primary server and has the key in {self._key.secret_file}"
            raise self._silent(server, error, f"{mend}, then run it again") from error
        except _NO_ANSWER as error:
            raise self._silent(server, error, "run it again") from error
        if answer.rcode() in (dns.rcode.NOTAUTH, dns.rcode.NOTIMP):
            raise ExternalError(
                f"DNS server {server} takes no updates of zone {self.name}",
                "name the zone's primary server first in its `servers`, and let its update-policy grant the key",
            )
        return answer.rcode()

    def check_key(self, names: Mapping[str, Sequence[str]]) -> None:
        """Tries, with updates that change nothing, whether the key may change these types of these names.

        Raises ExternalError when the server or its key check refuses it.
        """
        for name, kinds in (names or {self.name: []}).items():
            update = self._update()
            markers = [(marker_name(name), "TXT")] if kinds else []
            for where, kind in (*markers, *((name, kind) for kind in kinds)):
                update.delete(dns.name.from_text(where), kind, _NOTHING[kind])
            rcode = self._send(update)
            if rcode != dns.rcode.NOERROR:
                raise self._refused(name, kinds, rcode)

    def _refused(self, name: str, kinds: Sequence[str], rcode: dns.rcode.Rcode) -> ExternalError:
        return ExternalError(
            f"DNS server {self.servers[0]} answers {dns.rcode.to_text(rcode)} to updates of {name}",
            f"let key {self._key.name} change {' and '.join(kinds)} of {name} and TXT of {marker_name(name)} "
            "in the zone's update-policy",
        )

    def objection(self, name: str, changes: Sequence[Change], found: Reading) -> RefusedError | None:
        """Why these changes must not be made where `found` was read."""
        if found.alias:
            return RefusedError(
                f"{name} is an alias of {found.alias}, which the plan does not know",
                "write it into the plan with type CNAME, or remove it, then run it again",
            )
        for change in changes:
            if not found.values[change.kind] <= change.known:
                return RefusedError(
                    f"{name} points at {_shown(found.values[change.kind])}, which the plan does not know",
                    f"set it to {' or '.join(sorted(change.known))} by hand, or correct the plan, then run it again",
                )
        return None

    def prepare(self, name: str, changes: Sequence[Change], epoch: int) -> Prepared:
        """Looks whether `name` can be changed for `epoch`. Changes nothing.

        Raises RefusedError when somebody else has changed the name or a newer epoch has it, and ExternalError when the
        server cannot be used now.
        """
        before = self.read(self.servers[0], name, [change.kind for change in changes])
        if before.epoch > epoch:
            raise RefusedError(
                f"{name} belongs to epoch {before.epoch} by now; this controller is at {epoch}",
                "another controller has failed over since: see its `vcrecovery history`",
            )
        if before.epoch == epoch and all(before.values[change.kind] == {change.wanted} for change in changes):
            return Prepared(name, before, None)
        if objection := self.objection(name, changes, before):
            raise objection
        update = self._update()
        host, marker = (dns.name.from_text(n) for n in (name, marker_name(name)))
        if before.marker:
            update.present(marker, "TXT", *before.marker)
        else:
            update.absent(marker, "TXT")
        for change in changes:
            if values := before.values[change.kind]:
                update.present(host, change.kind, *sorted(values))
            elif change.kind == "CNAME":
                # Servers ignore a CNAME beside other records, without a word.
                update.absent(host)
            else:
                update.absent(host, change.kind)
        if all(change.kind != "CNAME" for change in changes):
            update.absent(host, "CNAME")
        for change in changes:
            update.replace(host, change.ttl, change.kind, change.new)
        update.replace(marker, MARKER_TTL, "TXT", f'"{marker_text(epoch)}"')
        return Prepared(name, before, update)

    def commit(self, prepared: Prepared) -> None:
        """Makes the change, if everything is still as it was when it was prepared.

        Raises ExternalError when it is not, or when the server cannot be used now.
        """
        name, before = prepared.name, prepared.before
        if prepared.update is None:
            return
        rcode = self._send(prepared.update)
        if rcode in (dns.rcode.NXRRSET, dns.rcode.YXRRSET, dns.rcode.NXDOMAIN, dns.rcode.YXDOMAIN):
            if self.read(self.servers[0], name, list(before.values)) == before:
                raise ExternalError(
                    f"DNS server {self.servers[0]} does not let {name} be changed: a wildcard answers for it, or other "
                    "records stand beside a CNAME",
                    "give the name records of its own, and only those of the plan, then run it again",
                )
            raise ExternalError(f"{name} was just changed by another client", "run it again")
        if rcode != dns.rcode.NOERROR:
            raise self._refused(name, list(before.values), rcode)

    # -- every server ------------------------------------------------------------------------------------------

    def wait_until_everywhere(self, name: str, wanted: Mapping[str, str], timeout: float) -> list[str]:
        """Asks every authoritative server until each gives the `wanted` value of each type; the names of the servers.

        Raises ExternalError, which names the servers that do not after `timeout` seconds.
        """
        canonical = {kind: frozenset((_canonical(kind, value),)) for kind, value in wanted.items()}
        deadline = self._clock.steady() + timeout

        def trouble_of(server: Server) -> str:
            try:
                found = self.read(server, name, list(wanted))
            except ExternalError as error:
                return f"{error.message}: it may lack {name}"
            if found.values == canonical:
                return ""
            return f"DNS server {server} still gives {found.alias or _shown(found.all_values)} for {name}"

        missing = list(self.servers)
        while True:
            trouble = dict(zip(missing, results(self._runtime, trouble_of, missing, "DNS", AT_ONCE), strict=True))
            missing = [server for server in missing if trouble[server]]
            if not missing:
                return [server.name for server in self.servers]
            if self._clock.steady() >= deadline:
                good = [server.name for server in self.servers if server not in missing]
                done = f" ({', '.join(good)} {'have' if len(good) > 1 else 'has'} it)" if good else ""
                raise ExternalError(
                    "; ".join(trouble[server] for server in missing) + done,
                    "check that server and the zone's transfer to it, then run it again",
                )
            self._clock.sleep(0.1)
