"""The DNS records that follow a service: what each holds on which side, all of them switched, all of them checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from vcrecovery.core.service_state import Side
from vcrecovery.drivers.runtime import Runtime, results
from vcrecovery.errors import VCRecoveryError
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.model import Service
from vcrecovery.plan.names import on_the_spare, sides_of

if TYPE_CHECKING:
    from vcrecovery.drivers.dns import Change, Prepared, Reading, Zone

#: So many names are asked for or changed at once.
AT_ONCE = 8
#: Seconds. A server that fails only after that fails for all names.
SLOW = 1.0
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Name:
    """One name, and the changes that point it at the standby."""

    text: str
    zone: Zone
    changes: tuple[Change, ...]
    runtime: Runtime

    @property
    def kinds(self) -> list[str]:
        return [change.kind for change in self.changes]

    @property
    def target(self) -> str:
        return ", ".join(change.wanted for change in self.changes)

    def read(self) -> Reading:
        """What the server says that takes the updates. Raises ExternalError when it does not answer."""
        return self.zone.read(self.zone.servers[0], self.text, self.kinds)


def names_of(env: Environment, service: Service, side: Side = Side.STANDBY) -> list[Name]:
    """The names that follow the service, each with what points it at `side`."""
    if not service.dns:
        return []
    from vcrecovery.drivers.dns import Change

    found: dict[str, Name] = {}
    for record in service.dns:
        old, new = sides_of(record, service)
        if side is Side.PRIMARY:
            old, new = new, old
        before = found[record.name].changes if record.name in found else ()
        change = Change(record.type, old, new, record.ttl, on_the_spare(record, service))
        found[record.name] = Name(record.name, env.zones[record.zone], (*before, change), env.runtime)
    return list(found.values())


def _of_each(names: Sequence[Name], act: Callable[[Name], _Result]) -> list[_Result]:
    return results(names[0].runtime, act, names, "DNS", AT_ONCE) if names else []


def newest_epoch(names: Sequence[Name]) -> int:
    """The highest epoch in the markers, as far as the servers answer: one that does not is reported by the switch."""

    def epoch_of(name: Name) -> int:
        try:
            return name.read().epoch
        except VCRecoveryError:
            return 0

    return max(_of_each(names, epoch_of), default=0)


def switch(names: Sequence[Name], epoch: int) -> dict[str, list[str]]:
    """Makes the changes of all names, and returns what they held before. Nothing changes if one of them must not.

    Raises RefusedError when somebody else has changed a name, and ExternalError when a server cannot be used now.
    """

    def look(name: Name) -> Prepared:
        return name.zone.prepare(name.text, name.changes, epoch)

    prepared = dict(zip((name.text for name in names), _of_each(names, look), strict=True))
    _of_each(names, lambda name: name.zone.commit(prepared[name.text]))
    return {name: entry.before.all_values for name, entry in prepared.items()}


def verify(names: Sequence[Name], timeout: float) -> list[str]:
    """Waits until every authoritative server gives what was switched to; the servers.

    Raises ExternalError with all the servers that do not after `timeout` seconds.
    """

    def wait(name: Name) -> list[str]:
        wanted = {change.kind: change.new for change in name.changes}
        return name.zone.wait_until_everywhere(name.text, wanted, timeout)

    return list(dict.fromkeys(server for servers in _of_each(names, wait) for server in servers))


def of_zone(zone: Zone, names: Sequence[Name]) -> list[str]:
    """What would stop a switch of these names, all of which are in `zone`: its key, a server, what a name holds."""
    found: list[str] = []
    try:
        zone.check_key({name.text: name.kinds for name in names})
    except VCRecoveryError as error:
        found.append(str(error))
    for server in zone.servers:
        try:
            for name in names:
                objection = zone.objection(name.text, name.changes, zone.read(server, name.text, name.kinds))
                found += [f"on {server.name}: {objection}"] if objection else []
        except VCRecoveryError as error:
            found.append(str(error))
    return list(dict.fromkeys(found))


def refused(names: Sequence[Name], steady: Callable[[], float]) -> dict[str, VCRecoveryError]:
    """Those of these names, all of one zone, that the key cannot change now, and why. Nothing is changed."""
    found: dict[str, VCRecoveryError] = {}
    for name in names:
        begun = steady()
        try:
            name.zone.check_key({name.text: name.kinds})
        except VCRecoveryError as error:
            found[name.text] = error
            if steady() - begun > SLOW:
                # It hangs, and would as long for each of the others.
                return {**{other.text: error for other in names}, **found}
    return found


def by_zone(env: Environment) -> dict[str, list[Name]]:
    """Each zone's names, those of all services."""
    found: dict[str, list[Name]] = {zone: [] for zone in env.zones}
    for service in env.plan.services.values():
        for name in names_of(env, service):
            found[name.zone.name].append(name)
    return found


def problems(names: Sequence[Name]) -> list[str]:
    """The same for the names of a service, wherever they are."""
    zones = {name.zone.name: name.zone for name in names}
    return [text for zone in zones.values() for text in of_zone(zone, [n for n in names if n.zone is zone])]


def summary(names: Sequence[Name]) -> str:
    """For the timeline: `www.example.net, example.net -> 10.20.0.10`."""
    by_target: dict[str, list[str]] = {}
    for name in names:
        by_target.setdefault(name.target, []).append(name.text)
    return "; ".join(f"{', '.join(texts)} -> {target}" for target, texts in by_target.items())
