"""The orders of a failback lie in LXD: which are given, to whom, and what counts of the answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from simulated.environment import SimulatedEnvironment
from simulated.site import Site
from vcrecovery.errors import RefusedError
from vcrecovery.operations.vm_orders import Given, Order, VmOrders
from vcrecovery.standby.container import EPOCH_KEY, stand_by_again
from vcrecovery.transfer.failback_orders import ORDER_KEY


def in_site(site: Site, act: Callable[[SimulatedEnvironment], None]) -> None:
    site.do(site._begin("operator", act))
    assert site.scheduler.broken is None


def test_a_talk_has_one_beginning(memory_path: Path) -> None:
    site, seen = Site(memory_path), list[Given | None]()

    def act(env: SimulatedEnvironment) -> None:
        orders: VmOrders = env.vm_orders
        seen.extend([orders.given("web"), orders.begin("web", 7), orders.give("web", 7, Order.COPY)])
        seen.append(orders.given("web"))
        seen.append(orders.begin("web", 7))
        seen.append(orders.give("web", 8, Order.LAST))

    in_site(site, act)
    nothing, begun, copying, read, anew, next_epoch = seen
    assert nothing is None
    assert begun is not None
    assert copying == read == Given(7, Order.COPY, begun.since)
    assert anew is not None
    assert (anew.order, anew.since > begun.since) == (Order.HOLD, True)
    # Of a failback that nobody has begun to talk for, another one's answers say nothing.
    assert next_epoch is not None
    assert next_epoch.since > anew.since


def test_nobody_gives_orders_once_a_later_epoch_has_the_standby(memory_path: Path) -> None:
    site = Site(memory_path)
    site.world.services["web"].container.config[EPOCH_KEY] = "8"
    said: list[str] = []

    def act(env: SimulatedEnvironment) -> None:
        with pytest.raises(RefusedError) as refused:
            env.vm_orders.give("web", 7, Order.LAST)
        said.append(str(refused.value))

    in_site(site, act)
    (line,) = said
    assert line.startswith(
        "container web belongs to epoch 8; this failback is of epoch 7; another controller has failed"
    )
    assert ORDER_KEY not in site.world.services["web"].container.config


def test_what_is_withdrawn_twice_is_written_once(memory_path: Path) -> None:
    site = Site(memory_path)
    web = site.world.services["web"]
    etags: list[str] = []

    def act(env: SimulatedEnvironment) -> None:
        orders: VmOrders = env.vm_orders
        orders.begin("web", 7)
        for _ in range(2):
            orders.withdraw("web")
            etags.append(web.container.etag)

    in_site(site, act)
    assert ORDER_KEY not in web.container.config
    assert etags[0] == etags[1]


def test_one_that_stands_by_again_has_no_order(memory_path: Path) -> None:
    site = Site(memory_path)
    web = site.world.services["web"]

    def act(env: SimulatedEnvironment) -> None:
        env.vm_orders.begin("web", 7)
        assert web.order is not None
        stand_by_again(env.lxd["sec1"], "web")

    in_site(site, act)
    assert web.order is None
