"""What decides when a standby may start: what it needs, and how many its secondary starts at once."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import Protocol

from vcrecovery.core.service_state import ServiceState
from vcrecovery.errors import ExternalError
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.modes import Mode
from vcrecovery.standby.modes import ChosenModes

log = logging.getLogger("vcrecovery.several")

GIB = 2**30
#: Where LXD does not say how big its machine is.
STARTS_WHEN_NOT_KNOWN = 2
#: More do not come up faster, however big the machine is: LXD itself is in the way.
MOST_STARTS = 32


def starts_at_once(cores: int, memory_bytes: int) -> int:
    """How many standbys a machine may start at the same time.

    A boot keeps about half a core busy, since it also waits for the disk and for the network, and wants up to 1 GiB.
    """
    return max(1, min(2 * cores, memory_bytes // GIB, MOST_STARTS))


class StartConditions(Protocol):
    """What the gate asks about services."""

    def needs(self, service: str) -> Sequence[str]: ...

    def secondary(self, service: str) -> str: ...

    def most(self, secondary: str) -> int:
        """How many standbys may start there at the same time."""

    def boots(self, service: str) -> bool:
        """Whether its standby has services to start, so that it wants a part of the machine for a while."""

    def state(self, service: str) -> ServiceState: ...

    def primary_answers(self, service: str) -> bool:
        """Whether a port of its primary is open."""


class LiveConditions:
    """The surroundings as the plan, the journal and the outside have them."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        # What all failovers share is made before one of them asks for it: a cached property has no lock.
        _ = (env.hosts, env.lxd, env.neighbours, env.journal)
        self._chosen = ChosenModes(env.plan.state_dir)
        self._most: dict[str, int] = {}
        # One for each: a secondary that hangs must not hold back what starts on the others.
        self._one_asks = defaultdict(env.runtime.lock, {name: env.runtime.lock() for name in env.plan.secondaries})

    def needs(self, service: str) -> Sequence[str]:
        return self._env.plan.services[service].needs

    def secondary(self, service: str) -> str:
        return self._env.plan.services[service].standby.secondary

    def most(self, secondary: str) -> int:
        if (wanted := self._env.plan.secondaries[secondary].starts_at_once) is not None:
            return wanted
        with self._one_asks[secondary]:
            if secondary not in self._most:
                try:
                    size = self._env.lxd[secondary].size()
                except ExternalError as error:
                    # Asked again the next time; whether LXD is there at all is found out by the start.
                    log.debug("%s", error)
                    return STARTS_WHEN_NOT_KNOWN
                self._most[secondary] = starts_at_once(size.cores, size.memory)
            return self._most[secondary]

    def boots(self, service: str) -> bool:
        return self._chosen.of(service, self._env.plan.services[service]) in (Mode.COLD, Mode.WARM)

    def state(self, service: str) -> ServiceState:
        return self._env.journal.state(service)

    def primary_answers(self, service: str) -> bool:
        entry = self._env.plan.services[service]
        return bool(self._env.probes.answering(str(entry.primary.address), entry.ports, entry.timeouts.confirm))
