"""A VM whose failback was cut off while it fetched does not read its standby for ever."""

from __future__ import annotations

from pathlib import Path

from test_failback import WANTS, failed_over

from simulated.observed import Observed
from vcrecovery.core.service_state import Side
from vcrecovery.operations.order_keeper import rest_those_left
from vcrecovery.operations.vm_orders import Order


def order_of(site: Observed) -> Order | None:
    given = site.world.services["web"].order
    return None if given is None else given.order


def while_it_fetches(folder: Path) -> Observed:
    """Its failback goes on."""
    site = failed_over(folder, WANTS)
    site.begin_failover(verb="failback")
    site.run(60.0, lambda: order_of(site) is Order.COPY)
    return site


def look(site: Observed) -> None:
    site.do(site._begin("watch", rest_those_left))


def test_it_waits_for_its_turn(memory_path: Path) -> None:
    site = while_it_fetches(memory_path)
    (operator,) = site.operators
    with site.heard():
        site.scheduler.kill(operator)
    site.run(60.0)
    web = site.world.services["web"]
    assert web.report is not None
    assert (order_of(site), web.report.passes > 10) == (Order.COPY, True)
    look(site)
    look(site)
    assert order_of(site) is Order.HOLD
    said = "web: its failback was cut off while its VM fetched: the VM waits; `vcrecovery failback web` goes on"
    assert sum(said in line for line in site.log) == 1
    site.failback()
    assert (site.journal.state("web").side, web.open_ports) == (Side.PRIMARY, True)


def test_one_whose_controller_is_at_work_fetches_on(memory_path: Path) -> None:
    site = while_it_fetches(memory_path)
    look(site)
    assert order_of(site) is Order.COPY
    (operator,) = site.operators
    site.do(operator)
    assert site.journal.state("web").side is Side.PRIMARY
    look(site)
    assert order_of(site) is None


def test_one_without_its_lxd_is_left_for_the_next_look(memory_path: Path) -> None:
    site = while_it_fetches(memory_path)
    (operator,) = site.operators
    with site.heard():
        site.scheduler.kill(operator)
    site.change(["web"], {"lxd_answers": False})
    look(site)
    assert order_of(site) is Order.COPY
    site.change(["web"], {"lxd_answers": True})
    look(site)
    assert order_of(site) is Order.HOLD
