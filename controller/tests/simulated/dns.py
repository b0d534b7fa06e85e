"""The name servers of the simulated world: the real driver's zone, over servers that keep their records in memory."""

from __future__ import annotations

import errno

import dns.exception
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.update

from simulated.scheduler import SimulatedRuntime
from simulated.world import Service, World
from vcrecovery.core.power import OFF
from vcrecovery.drivers import dns as driver
from vcrecovery.drivers.dns import Server, Zone
from vcrecovery.errors import ExternalError

TAKES = 0.003
NAME = "example.test"


def name_of(service: str, first: str = "www") -> str:
    return f"{first}.{NAME}" if service == "web" else f"{first}.{service}.{NAME}"


class SimulatedZone(Zone):
    """Reads and updates as ns1 would do them (RFC 2136); ns2 copies ns1, unless something is wrong with it."""

    def of_world(self, runtime: SimulatedRuntime, world: World) -> SimulatedZone:
        self._scheduler, self._world = runtime.scheduler, world
        return self

    def _of(self, name: str) -> tuple[Service, str]:
        plain = name.rstrip(".").removeprefix("_vcrecovery.")
        return next(service for service in self._world.services.values() if plain in service.names), plain

    def _ask(self, server: Server, name: str, kind: str) -> tuple[list[str], int, str]:
        self._scheduler.takes(TAKES)
        service, plain = self._of(name)
        self._reached(service, server, f"try `dig @{server.address} -p {server.port} {self.name} SOA`")
        by_server = service.names[plain]
        if server.name == "ns2":
            # It has heard of all changes by now.
            by_server["ns2"] = {of: set(values) for of, values in by_server["ns1"].items()}
        records = by_server[server.name]
        alias = next(iter(records.get("CNAME", ())), "") if kind not in ("CNAME", "TXT") else ""
        return sorted(records.get(kind, ())), service.ttl, alias

    def _reached(self, service: Service, server: Server, hint: str) -> None:
        if server.name == "ns1" and service.dns_hangs:
            self._scheduler.sleep(driver.QUERY_TIMEOUT)
            raise self._silent(server, dns.exception.Timeout(), hint)  # type: ignore[no-untyped-call]
        if server.name == "ns1" and not service.dns_answers:
            raise self._silent(server, ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), hint)
        if server.name == "ns2" and service.ns2:
            raise ExternalError(f"DNS server {server} {service.ns2}", f"see that it runs, and {hint}")

    def _send(self, update: dns.update.UpdateMessage) -> dns.rcode.Rcode:
        self._scheduler.takes(TAKES)
        host = next(str(rrset.name) for rrset in update.update)
        (service, plain), server = self._of(host), self.servers[0]
        self._reached(service, server, "run it again")
        if not service.dns_key_good:
            raise ExternalError(
                f"DNS server {server} rejects TSIG key {self._key.name} ({self._key.algorithm})",
                f"make {self._key.secret_file} and the server's key the same (if they are: restart BIND there, or run "
                "keys_rotate.yml again), then run it again",
            )
        records = service.names[plain]["ns1"]
        for wanted in update.prerequisite:
            there = records.get(dns.rdatatype.to_text(wanted.rdtype), set())
            if wanted.rdclass == dns.rdataclass.NONE:
                if there:
                    return dns.rcode.YXRRSET
            elif {rdata.to_text() for rdata in wanted} != there:
                return dns.rcode.NXRRSET
        before = {kind: set(values) for kind, values in records.items() if values}
        for change in update.update:
            kind, values = dns.rdatatype.to_text(change.rdtype), {rdata.to_text() for rdata in change}
            if change.deleting == dns.rdataclass.ANY:
                records[kind] = set()
            elif change.deleting == dns.rdataclass.NONE:
                records[kind] = records.get(kind, set()) - values
            else:
                records[kind] = records.get(kind, set()) | values
                if kind != "TXT":
                    service.ttl = change.ttl
        if before != {kind: values for kind, values in records.items() if values}:
            service.switches += 1
            self._look(service, plain)
        self._scheduler.may_be_lost()
        return dns.rcode.NOERROR

    def _look(self, service: Service, name: str) -> None:
        leads = service.leads_to(name)
        if leads not in ("standby", "spare"):
            return
        place = service if leads == "standby" or service.other is None else service.other
        if service.epoch_of(name) not in place.answered and service.container.config:
            service.violated(f"the names of {service.name} move to ports that were not seen open at this epoch")
        excused = service.operators_word or service.lied_at is not None
        if service.power not in OFF and not excused and service.power.value == "running":
            service.violated(f"the names of {service.name} move away from a primary that runs")
