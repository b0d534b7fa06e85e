"""What a VM that starts no service is told to do, and what it says of that: over the key of its sync, which it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.lxd import Instance
from vcrecovery.errors import RefusedError
from vcrecovery.transfer.failback_orders import ORDER_KEY, REPORT, Given, Order, Report, order_in, report_in

if TYPE_CHECKING:
    from vcrecovery.drivers.lxd import LxdServer

__all__ = ["Given", "Order", "Report", "VmOrders"]


class VmOrders:
    """The orders for VMs, which lie with their standbys in LXD.

    Everything raises ExternalError when that does not answer, or cannot.
    """

    def __init__(self, lxd_of: Callable[[str], LxdServer], clock: Clock) -> None:
        """`lxd_of`: that of a service's standby."""
        self._lxd_of = lxd_of
        self._clock = clock

    def begin(self, service: str, epoch: int) -> Given:
        """Begins to talk: the VM is to wait for its turn, and what it has said before says nothing of now.

        Raises RefusedError when a later epoch has the standby.
        """
        return self._write(service, lambda _open: Given(epoch, Order.HOLD, round(self._clock.now(), 6)), epoch)

    def give(self, service: str, epoch: int, order: Order) -> Given:
        """From now on the VM is told that; with `copy` and `last` it may read its standby's tree. Raises as `begin`."""

        def next_of(is_open: Given | None) -> Given:
            known = is_open is not None and is_open.epoch == epoch
            since = is_open.since if is_open is not None and known else round(self._clock.now(), 6)
            return Given(epoch, order, since)

        return self._write(service, next_of, epoch)

    def _write(self, service: str, next_of: Callable[[Given | None], Given], epoch: int) -> Given:
        lxd = self._lxd_of(service)
        wanted: list[Given] = []

        def read() -> Instance:
            found = lxd.must_get(service)
            if (later := int(found.config.get("user.vcrecovery.epoch") or 0)) > epoch:
                raise RefusedError(
                    f"container {service} belongs to epoch {later}; this failback is of epoch {epoch}",
                    "another controller has failed over since: see its `vcrecovery history`",
                )
            return found

        def keys(found: Instance) -> dict[str, str]:
            wanted.append(next_of(order_in(found.config)))
            return {ORDER_KEY: str(wanted[-1])} if found.config.get(ORDER_KEY) != str(wanted[-1]) else {}

        lxd.reconfigure(read, keys)
        return wanted[-1]

    def withdraw(self, service: str) -> None:
        """It is told no more than who serves, and reads nothing. Also where no container is any more."""
        lxd = self._lxd_of(service)
        if (found := lxd.get(service)) is not None and ORDER_KEY in found.config:
            lxd.set_keys(lambda: lxd.must_get(service), {ORDER_KEY: ""})

    def given(self, service: str) -> Given | None:
        found = self._lxd_of(service).get(service)
        return None if found is None else order_in(found.config)

    def report(self, service: str, given: Given) -> Report | None:
        """The VM's newest since that talk began; it may be of an earlier order."""
        return report_in(self._lxd_of(service).template(service, REPORT), given)
