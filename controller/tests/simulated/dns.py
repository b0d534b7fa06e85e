"""The name servers of the simulated world: the real driver's zone, over servers that keep their records in memory."""

from __future__ import annotations

import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.update

from simulated.scheduler import SimulatedRuntime
from simulated.world import Service, World
from vcrecovery.core.power import OFF
from vcrecovery.drivers.dns import Server, Zone
from vcrecovery.errors import ExternalError

TAKES = 0.003
NAME = "example.test"


def name_of(service: str) -> str:
    return f"www.{NAME}" if service == "web" else f"www.{service}.{NAME}"


class SimulatedZone(Zone):
    """Reads and updates as ns1 would do them (RFC 2136); ns2 copies ns1, unless something is wrong with it."""

    def of_world(self, runtime: SimulatedRuntime, world: World) -> SimulatedZone:
        self._scheduler, self._world = runtime.scheduler, world
        return self

    def _of(self, name: str) -> Service:
        plain = name.rstrip(".").removeprefix("_vcrecovery.")
        return next(service for service in self._world.services.values() if name_of(service.name) == plain)

    def _ask(self, server: Server, name: str, kind: str) -> tuple[list[str], int, str]:
        self._scheduler.takes(TAKES)
        service = self._of(name)
        self._reached(service, server)
        if server.name == "ns2":
            # It has heard of all changes by now.
            service.records["ns2"] = {of: set(values) for of, values in service.records["ns1"].items()}
        return sorted(service.records[server.name].get(kind, ())), 30, ""

    def _reached(self, service: Service, server: Server) -> None:
        if server.name == "ns1" and not service.dns_answers:
            raise ExternalError("DNS server ns1 does not answer: timed out", "see that it runs")
        if server.name == "ns2" and service.ns2:
            raise ExternalError(f"DNS server ns2 {service.ns2}", "see that it runs")

    def _send(self, update: dns.update.UpdateMessage) -> dns.rcode.Rcode:
        self._scheduler.takes(TAKES)
        host = next(str(rrset.name) for rrset in update.update)
        service = self._of(host)
        self._reached(service, self.servers[0])
        if not service.dns_key_good:
            raise ExternalError("DNS server ns1 rejects TSIG key vcr.key (hmac-sha256)", "make both keys the same")
        records = service.records["ns1"]
        for wanted in update.prerequisite:
            kind = dns.rdatatype.to_text(wanted.rdtype)
            there = records.get(kind, set()) if kind != "CNAME" else set()
            if wanted.rdclass == dns.rdataclass.NONE:
                if there:
                    return dns.rcode.YXRRSET
            elif {rdata.to_text() for rdata in wanted} != there:
                return dns.rcode.NXRRSET
        for change in update.update:
            kind = dns.rdatatype.to_text(change.rdtype)
            if change.deleting == dns.rdataclass.ANY:
                records[kind] = set()
            else:
                records.setdefault(kind, set()).update(rdata.to_text() for rdata in change)
        service.switches += 1
        self._look(service)
        self._scheduler.may_be_lost()
        return dns.rcode.NOERROR

    def _look(self, service: Service) -> None:
        if service.dns_address != "standby":
            return
        if service.dns_epoch not in service.answered and service.container.config:
            service.violated(f"the names of {service.name} move to ports that were not seen open at this epoch")
        if service.power not in OFF and not service.operators_word and service.power.value == "running":
            service.violated(f"the names of {service.name} move away from a primary that runs")
