"""The orders that a VM gets which starts no service, and what it makes of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from simulated.scheduler import Scheduler
from simulated.world import Service, World
from vcrecovery.core.power import Power
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.operations.vm_orders import Given, Order, Report, VmOrders

#: Seconds until it hears of a new order, and between two questions of one that has nothing to do.
HEARS_WITHIN, ASKS_EVERY = 0.2, 10.0


class SimulatedVmOrders(VmOrders):
    """One machine's, whichever process gives them."""

    def __init__(self, scheduler: Scheduler, world: World) -> None:
        super().__init__(Path("/none"))
        self._scheduler, self._world = scheduler, world

    def give(self, service: str, epoch: int, order: Order) -> None:
        self._scheduler.takes(0.001)
        vm, given = self._world.services[service], Given(epoch, order)
        vm.order = given
        self._later(HEARS_WITHIN, vm, given)

    def withdraw(self, service: str) -> None:
        self._scheduler.takes(0.001)
        vm = self._world.services[service]
        vm.order = vm.report = None

    def given(self, service: str) -> Given | None:
        return self._world.services[service].order

    def report(self, service: str) -> Report | None:
        return self._world.services[service].report

    # -- the VM ------------------------------------------------------------------------------------------------

    def _later(self, seconds: float, vm: Service, given: Given) -> None:
        self._scheduler.at(self._scheduler.time + seconds, lambda: self._asks(vm, given))

    def _asks(self, vm: Service, given: Given) -> None:
        if vm.order is not given:
            return
        if vm.power is not Power.RUNNING or not vm.superseded or vm.network_cut:
            self._later(1.0, vm, given)
            return
        if given.order is Order.HOLD:
            self._reports(vm, vm.report or Report(f"boot-{vm.boots_so_far}", "", 0, "", 0, 0.0, 0, 0, "", 0.0))
            self._later(ASKS_EVERY, vm, given)
            return
        takes = vm.fetches_within
        self._scheduler.at(self._scheduler.time + (1.0 if takes is None else takes), lambda: self._fetched(vm, given))

    def _fetched(self, vm: Service, given: Given) -> None:
        if vm.power is not Power.RUNNING or not vm.superseded:
            self._asks(vm, given)
            return
        before = vm.report
        passes = before.passes if before is not None and before.epoch == given.epoch else 0
        report = Report(f"boot-{vm.boots_so_far}", "", given.epoch, given.order.value, passes, 2.0, 3000, 3, "", 0.0)
        if vm.fetches_within is None:
            report = replace(report, error="rsync: No space left on device (28)")
        else:
            report = replace(report, passes=passes + 1, seconds=vm.fetches_within)
            if given.order is Order.LAST and vm.container.status == STOPPED:
                vm.has_everything = True
        if vm.order is not None:
            self._reports(vm, report)
        if given.order is Order.COPY or report.error:
            self._later(1.0, vm, given)

    def _reports(self, vm: Service, report: Report) -> None:
        vm.report = replace(report, at=self._scheduler.wall)
