"""Tries now and then whether DNS could follow: that the key may still change each name, and that what changes in a
zone reaches all of its name servers.

`status` cannot find that out. It asks often, and neither a key that is refused nor a transfer that is broken shows in
what the servers say of a name that has not changed. Nothing is changed by it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from vcrecovery.drivers.runtime import Event
from vcrecovery.errors import VCRecoveryError
from vcrecovery.keeping import SayOnce, go_on
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.records import Name, by_zone, refused
from vcrecovery.store.zone_book import Tried, ZoneBook

if TYPE_CHECKING:
    from vcrecovery.drivers.dns import Server, Zone

    _Late = dict[tuple[Zone, Server], str]

log = logging.getLogger("vcrecovery.watch")

#: Seconds from the start of the watcher to the first try, between two, and between two while something is wrong.
FIRST_AFTER, EVERY, AGAIN_AFTER = 120.0, 3600.0, 300.0
#: Seconds between two questions to a name server that has not followed yet.
_ASK_AGAIN_AFTER = 1.0


class ZoneWatch:
    """Of all zones of the plan."""

    def __init__(self, env: Environment) -> None:
        self._env, self._book = env, ZoneBook(env.plan.state_dir)
        #: Seconds that a failover gives the name servers.
        self._within = max((service.timeouts.dns for service in env.plan.services.values()), default=0.0)

    def turn(self, stop: Event) -> bool:
        """Whether all is well; what is not is in the book then. Raises ExternalError when that cannot be written."""
        env = self._env
        zones = {env.zones[name]: names for name, names in by_zone(env).items() if names}
        objections = self._refused(zones.values(), stop)
        late = self._late(list(zones), stop)
        at, found = env.clock.now(), dict[str, Tried]()
        for zone, names in zones.items():
            behind = tuple(text for (of, _), text in late.items() if of is zone)
            for name in names:
                objection = objections.get(name.text)
                if objection is not None:
                    found[name.text] = Tried(at, objection.message, objection.hint, behind)
                elif behind:
                    found[name.text] = Tried(at, late=behind)
        if not stop.is_set():
            self._book.write(found)
        return not found

    def _refused(self, zones: Iterable[Sequence[Name]], stop: Event) -> dict[str, VCRecoveryError]:
        """What is refused twice, with a failover's patience between: a server that restarts is no trouble."""
        steady = self._env.clock.steady
        once = [(names, found) for names in zones if (found := refused(names, steady))]
        if not once or stop.wait(self._within):
            return {}
        return {
            text: error
            for names, found in once
            for text, error in refused([name for name in names if name.text in found], steady).items()
        }

    def _late(self, zones: list[Zone], stop: Event) -> _Late:
        """The servers that do not get what the first one of their zone has, within the time that a failover would
        give them; and what is to be said of each. Of one that does not answer, `status` knows.
        """
        env = self._env
        goals = {zone: serial for zone in zones if (serial := _serial(zone, zone.servers[0])) is not None}
        late: _Late = {(zone, server): "" for zone in goals for server in zone.servers[1:]}
        until = env.clock.steady() + self._within
        while True:
            late = {key: text for key in late if (text := _behind(*key, goals, self._within))}
            if not late or env.clock.steady() >= until or stop.wait(_ASK_AGAIN_AFTER):
                return late


def _serial(zone: Zone, server: Server) -> int | None:
    try:
        return zone.serial(server)
    except VCRecoveryError:
        return None


def _behind(zone: Zone, server: Server, goals: Mapping[Zone, int], within: float) -> str:
    serial, goal = _serial(zone, server), goals[zone]
    # As RFC 1982 compares serials, which begin anew at 2^32.
    if serial is None or not 0 < (goal - serial) % 2**32 < 2**31:
        return ""
    return (
        f"DNS server {server} does not follow: it has serial {serial} of zone {zone.name}, and {zone.servers[0].name} "
        f"has had {goal} for {within:g} s"
    )


def keep_trying_zones(env: Environment, stop: Event) -> None:
    """Returns when `stop` is set. `env` is its own."""
    if not any(service.dns for service in env.plan.services.values()) or stop.wait(FIRST_AFTER):
        return
    watch, say = ZoneWatch(env), SayOnce(log)

    def turn() -> None:
        is_well = watch.turn(stop)
        say.well("zones")
        stop.wait(EVERY if is_well else AGAIN_AFTER)

    trouble = "whether DNS could follow is not known: {}; going on".format
    go_on(turn, stop=stop, say=say, about="zones", trouble=trouble, again_after=AGAIN_AFTER)
