"""Which primaries of a hypervisor still answer: whoever powers the hypervisor off ends them too."""

from __future__ import annotations

import math

from vcrecovery.core.service_state import Side
from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.probe import Probes
from vcrecovery.drivers.runtime import Runtime, each
from vcrecovery.operations.whereabouts import Whereabouts
from vcrecovery.plan.model import Plan
from vcrecovery.store.journal import Journal

#: Seconds for which a look counts: all services of a hypervisor that fails ask at the same time.
VALID_FOR = 3.0


class Neighbours:
    """Asks the ports of all primaries of a hypervisor, once for all who want to know at the same time."""

    def __init__(
        self,
        plan: Plan,
        clock: Clock,
        journal: Journal,
        whereabouts: Whereabouts,
        probes: Probes,
        runtime: Runtime,
    ) -> None:
        self._plan = plan
        self._whereabouts = whereabouts
        self._clock = clock
        self._journal = journal
        self._probes = probes
        self._runtime = runtime
        self._locks = {host: runtime.lock() for host in plan.hypervisors}
        self._seen: dict[str, tuple[float, dict[str, list[str]]]] = {}

    def answering(self, host: str, besides: str = "", *, anew: bool = False) -> tuple[str, ...]:
        """`service (address:port)` for each primary on `host` that serves and answers, except service `besides`.

        `anew`: what others have just seen does not count. Raises ExternalError when one cannot be asked.
        """
        with self._locks[host]:
            at, found = self._seen.get(host, (-math.inf, {}))
            if anew or self._clock.steady() - at >= VALID_FOR:
                found = self._look(host)
                self._seen[host] = (self._clock.steady(), found)
        return tuple(f"{name} ({', '.join(ports)})" for name, ports in found.items() if ports and name != besides)

    def _look(self, host: str) -> dict[str, list[str]]:
        # One whose standby serves is not there any more, or should not be.
        names = [name for name in self._whereabouts.may_be_on(host) if self._journal.state(name).side is Side.PRIMARY]
        found: dict[str, list[str]] = {}

        def ask(name: str) -> None:
            service = self._plan.services[name]
            # Whatever accepts a connection would end with the hypervisor, well or not.
            found[name] = self._probes.alive(str(service.primary.address), service.ports, service.timeouts.confirm)

        # Raises for one that could not be asked: nobody knows whether it would have answered.
        each(self._runtime, ask, names, f"neighbours on {host}")
        return {name: found[name] for name in names}
