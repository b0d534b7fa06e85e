"""A VM that starts no service: what it makes of the orders that lie with its standby, and what it leaves there."""

from __future__ import annotations

import json

from simulated.scheduler import Scheduler
from simulated.world import Service
from vcrecovery.core.power import Power
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.operations.vm_orders import Given, Order, Report

#: Seconds until it hears of a new order, and between two questions of one that has nothing to do.
HEARS_WITHIN, ASKS_EVERY = 0.2, 10.0


def is_ordered(scheduler: Scheduler, vm: Service) -> None:
    """Another order lies there."""
    if (given := vm.order) is not None:
        _later(scheduler, HEARS_WITHIN, vm, given)


def left_by(vm: Service) -> bytes | None:
    """What the receiver has left of its newest report."""
    return None if vm.report is None else json.dumps(vm.report._asdict()).encode()


def _later(scheduler: Scheduler, seconds: float, vm: Service, given: Given) -> None:
    scheduler.at(scheduler.time + seconds, lambda: _asks(scheduler, vm, given))


def _asks(scheduler: Scheduler, vm: Service, given: Given) -> None:
    if vm.order != given:
        return
    if vm.power is not Power.RUNNING or not vm.superseded or vm.network_cut:
        _later(scheduler, 1.0, vm, given)
        return
    if given.order is Order.HOLD:
        _reports(scheduler, vm, _said(vm, given))
        _later(scheduler, ASKS_EVERY, vm, given)
        return
    takes = vm.fetches_within
    scheduler.at(scheduler.time + (1.0 if takes is None else takes), lambda: _fetched(scheduler, vm, given))


def _fetched(scheduler: Scheduler, vm: Service, given: Given) -> None:
    if vm.power is not Power.RUNNING or not vm.superseded:
        _asks(scheduler, vm, given)
        return
    before = _said(vm, given)
    passes = before.passes if before.epoch == given.epoch else 0
    report = before._replace(
        epoch=given.epoch, order=given.order.value, passes=passes, seconds=2.0, bytes=3000, files=3
    )
    if vm.fetches_within is None:
        report = report._replace(error="rsync: No space left on device (28)")
    else:
        report = report._replace(passes=passes + 1, seconds=vm.fetches_within, error="")
        if given.order is Order.LAST and vm.container.status == STOPPED:
            vm.has_everything = True
    if vm.order is not None:
        _reports(scheduler, vm, report)
    if given.order is Order.COPY or report.error:
        _later(scheduler, 1.0, vm, given)


def _said(vm: Service, given: Given) -> Report:
    """What it says again, in this talk; nothing yet of a failback that is new to it."""
    boot = f"b007-{vm.boots_so_far}"
    if vm.report is not None and (vm.report.boot, vm.report.epoch) == (boot, given.epoch):
        return vm.report._replace(since=given.since)
    return Report(boot, "", 0, "", 0, 0.0, 0, 0, "", 0.0, given.since)


def _reports(scheduler: Scheduler, vm: Service, report: Report) -> None:
    vm.report = report._replace(at=scheduler.wall)
