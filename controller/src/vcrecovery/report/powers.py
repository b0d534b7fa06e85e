"""Secondaries that are not always there, as Zabbix is told of them: on demand, and made for a while."""

from __future__ import annotations

from collections.abc import Mapping

from vcrecovery.core.lease import Lease, LeaseState
from vcrecovery.cost.month import hours_in, month_of, on_for
from vcrecovery.detect.zabbix_health import SeenPower
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.secondary_power import on_demand_secondaries
from vcrecovery.store.leases import LeaseBook
from vcrecovery.store.powered import PoweredBook

#: As the value map of the template has them.
OFF, ON, BEING_MADE, BEING_GIVEN_BACK = 0, 1, 2, 3


def powers(env: Environment) -> Mapping[str, SeenPower]:
    """By the controller's own books: nobody is asked. Raises ExternalError when these cannot be read."""
    month, found = month_of(None, env.clock.now()), {}
    book = PoweredBook(env.journal)
    for name in on_demand_secondaries(env):
        periods = book.periods(name)
        is_on = any(off_at is None for _, off_at in periods)
        found[name] = SeenPower(ON if is_on else OFF, 3600 * on_for(periods, month).hours)
    for lease in LeaseBook(env.journal).open():
        there = 0.0 if lease.made_at is None else hours_in(lease.made_at, None, month)
        found[lease.name] = SeenPower(_power_of(lease), 3600 * there)
    return found


def _power_of(lease: Lease) -> int:
    if lease.is_coming:
        return BEING_MADE
    return BEING_GIVEN_BACK if lease.state is LeaseState.RELEASING else ON
