"""What a VM that starts no service is told to do, and what it says of that: over the key of its sync, which it has."""

from __future__ import annotations

from pathlib import Path

from vcrecovery.transfer import failback_orders
from vcrecovery.transfer.failback_orders import Given, Order, Report

__all__ = ["Given", "Order", "Report", "VmOrders"]


class VmOrders:
    """The orders for the VMs whose standbys are on this machine. Everything raises ExternalError for a bad disk."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    def give(self, service: str, epoch: int, order: Order) -> None:
        """From now on the VM is told that; with `copy` and `last` it may read its standby's tree."""
        failback_orders.give(self._state_dir, service, epoch, order)

    def withdraw(self, service: str) -> None:
        """It is told no more than who serves, and reads nothing."""
        failback_orders.withdraw(self._state_dir, service)

    def given(self, service: str) -> Given | None:
        return failback_orders.read_order(self._state_dir, service)

    def report(self, service: str) -> Report | None:
        """The VM's newest; it may be of an earlier order."""
        return failback_orders.read_report(self._state_dir, service)
