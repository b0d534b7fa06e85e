"""A drill: clones of standbys boot in a network of their own, are asked as the standbys would be, and are removed.

Nothing of production is held meanwhile: files go on arriving, and the standbys can take over. A failover that begins
ends the drill.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Interface, IPv6Interface

from vcrecovery.core.drill import Drill, size, with_needs
from vcrecovery.drivers.drill_network import DrillNetwork
from vcrecovery.errors import BusyError, ExternalError, RefusedError, VCRecoveryError
from vcrecovery.operations.drill_clones import clean_up
from vcrecovery.operations.drill_part import DrillPart, DrillReporter, GaveWayError
from vcrecovery.operations.drill_preflight import objections
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.room import copied_bytes
from vcrecovery.plan.model import Service
from vcrecovery.standby.container import secondary_of
from vcrecovery.store.drills import DrillBook
from vcrecovery.store.lock import drill_lock


def needed(env: Environment, names: Sequence[str]) -> list[str]:
    """These services and those that they need, in the order in which they boot."""
    return with_needs(names, lambda name: env.plan.services[name].needs)


def check(env: Environment, names: Sequence[str]) -> None:
    """Raises RefusedError with every reason against a drill of these services now."""
    if reasons := objections(env, names):
        raise RefusedError(f"no drill: {'; '.join(reasons)}")


def rehearse(env: Environment, names: Sequence[str], by: str, reporter: DrillReporter) -> list[Drill]:
    """A drill of these services, which boot in this order; what came of each.

    First what a drill left that was killed is removed. Raises BusyError while another drill is at work, RefusedError
    when one of them cannot be rehearsed, and ExternalError; in each case nothing was made.
    """
    with drill_lock(env.plan.state_dir, clock=env.clock):
        tidy(env)
        book = DrillBook(env.journal)
        # Before the check, which takes long: a failover that begins meanwhile came after it.
        newest, _ = book.newest_failover()
        check(env, names)
        began_at = env.clock.now()
        numbers = book.begin(names, began_at, by)
        parts = [DrillPart(env, book, Drill(numbers[name], name, began_at, by), reporter) for name in names]
        return _Run(env, book, parts, newest).to_its_end()


def tidy(env: Environment) -> list[str]:
    """Removes what a drill left that was killed, and says so in the journal; the names. The caller holds the lock."""
    removed = clean_up(env)
    DrillBook(env.journal).interrupted(env.clock.now())
    return removed


class _Run:
    """One drill of several services."""

    def __init__(self, env: Environment, book: DrillBook, parts: Sequence[DrillPart], newest: int) -> None:
        self._env, self._book, self._parts = env, book, parts
        #: The failover before it: one that has begun since may be over at the next look.
        self._newest = newest

    def to_its_end(self) -> list[Drill]:
        try:
            with DrillNetwork(_gateways(self._env, [part.service for part in self._parts])) as network:
                try:
                    self._boot_all(network)
                finally:
                    # Those first that need others.
                    for part in reversed(self._parts):
                        part.remove()
        except BaseException as error:
            for part in self._parts:
                part.fail(error)
            if not isinstance(error, VCRecoveryError):
                raise
        finally:
            for part in self._parts:
                part.end()
        return [part.drill for part in self._parts]

    def _boot_all(self, network: DrillNetwork) -> None:
        # All copies first: so they are of about the same moment.
        for part in self._parts:
            with part.may_fail():
                self._give_way(network)
                part.clone(network.plug())
        failed: set[str] = set()
        for part in self._parts:
            with part.may_fail():
                if missing := [name for name in part.service.needs if name in failed]:
                    raise ExternalError(f"not started: it needs {missing[0]}, which did not come up")
                if part.goes_on:
                    part.start()
                    part.wait_for_ports(network, lambda: self._give_way(network))
                    part.run_command()
            if not part.goes_on:
                failed.add(part.drill.service)

    def _give_way(self, network: DrillNetwork) -> None:
        """Raises what ends the drill when a failover has begun."""
        number, service = self._book.newest_failover()
        if number > self._newest:
            raise GaveWayError(f"a failover of {service} has begun", "run it again later")
        if network.closing.is_set():
            raise BusyError("interrupted")


def _gateways(env: Environment, services: Sequence[Service]) -> list[IPv4Interface | IPv6Interface]:
    """What the clones have for a gateway, each with its network."""
    networks = [secondary_of(env.plan, service).network for service in services]
    return [address for network in networks for address in (network.address, network.address6) if address is not None]


def sizes(env: Environment, names: Sequence[str]) -> dict[str, str]:
    """What the copy of each takes, in words. Raises ExternalError."""
    found = {}
    for name in names:
        service = env.plan.services[name]
        bytes_ = copied_bytes(env.lxd[service.standby.secondary], secondary_of(env.plan, service).storage_pool, name)
        found[name] = f"{size(bytes_)} copied" if bytes_ else "nothing copied"
    return found
