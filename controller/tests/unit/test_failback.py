"""What a failback is refused for before its VM is touched, when enough is copied, and what it leaves in the journal."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from simulated.observed import Observed
from vcrecovery.core.episode import Outcome
from vcrecovery.core.failback import PASSES, is_copied
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import Side
from vcrecovery.operations.vm_orders import Order

WANTS = "etc/systemd/system/basic.target.wants/vcrecovery-who-serves.service"
NETWORK_MANAGER = "etc/systemd/system/multi-user.target.wants/NetworkManager.service"


def failed_over(folder: Path, *links: str, **world: object) -> Observed:
    """Its standby has these units enabled, as its VM had."""
    site = Observed(folder, world=world)
    site.watch(1)
    site.crash("web")
    site.watch(3)
    tree = folder / "lxd/storage-pools/default/containers/web/rootfs"
    tree.mkdir(parents=True)
    for link in links:
        (tree / link).parent.mkdir(parents=True)
        (tree / link).symlink_to("/nowhere")
    # Nothing else of it is simulated in files.
    site.then["ended confirm"] = [lambda: shutil.rmtree(tree)]
    return site


@pytest.mark.parametrize(
    ("links", "said"),
    [
        ((), "its VM does not ask at its boot who serves, and would serve beside it: run the role `primary`"),
        ((WANTS, NETWORK_MANAGER), "NetworkManager brings its VM's network up too late to ask who serves"),
    ],
)
def test_a_vm_that_would_serve_beside_its_standby_is_not_started(
    links: tuple[str, ...], said: str, memory_path: Path
) -> None:
    site = failed_over(memory_path, *links)
    site.failback()
    assert said in site.log[-1]
    assert site.world.services["web"].power is Power.SHUTOFF
    assert site.journal.history("web")[0].outcome is Outcome.REFUSED


def test_a_vm_whose_own_address_its_standby_has_is_not_started(memory_path: Path) -> None:
    """It would come up with it beside this machine, and could not ask for its orders."""
    site = failed_over(memory_path, WANTS, virtual_ip="10.10.0.10")
    site.failback()
    assert "its VM's own address is the virtual one, which its standby has" in site.log[-1]
    assert site.world.services["web"].power is Power.SHUTOFF
    assert site.world.services["web"].virtual_ip_is_here
    assert site.journal.state("web").open_episode is None


def test_one_that_asks_is_started_and_serves_in_the_end(memory_path: Path) -> None:
    site = failed_over(memory_path, WANTS)
    site.failback()
    state = site.journal.state("web")
    assert (state.side, state.open_episode, site.world.services["web"].open_ports) == (Side.PRIMARY, None, True)


@pytest.mark.parametrize("why", ["LXD is away, and the VM ends", "its container was started"])
def test_a_standby_that_serves_again_has_its_address_still(memory_path: Path, why: str) -> None:
    site = failed_over(memory_path, WANTS, virtual_ip="10.10.0.50")
    web = site.world.services["web"]

    def meanwhile() -> None:
        site.change(["web"], {"lxd_answers": False} if "LXD" in why else {"standby_running": True})

    site.then["journalled hand over"] = [meanwhile]
    site.failback()
    if "LXD" in why:
        site.change(["web"], {"lxd_answers": True})
        site.crash("web")
        site.failback()
    assert "web is served by its standby again" in site.log[-1]
    assert (web.serves, web.virtual_ip_is_here) == (True, True)


def test_who_goes_back_has_seen_the_failover(memory_path: Path) -> None:
    site = failed_over(memory_path, WANTS)
    failover = site.journal.newest_done("web")
    site.failback()
    state = site.journal.state("web")
    assert not state.cools(3600.0, site.scheduler.wall)
    assert site.journal.newest_done("web") == failover


@pytest.mark.parametrize(
    ("seconds", "enough"),
    [
        ([], False),
        ([1.0], False),
        ([900.0, 1.0], True),
        ([900.0, 100.0], False),
        ([900.0, 100.0, 60.0], False),
        ([900.0, 100.0, 80.0], True),
        # From 0.7 of the last one on it has come to its end; five seconds are short in any case.
        ([900.0, 100.0, 69.9], False),
        ([900.0, 100.0, 70.0], True),
        ([4.0, 1.0, 100.0, 60.0], False),
        ([900.0, 5.0], True),
        ([900.0, 5.1], False),
        ([900.0 / 2**n for n in range(PASSES - 1)], False),
        ([900.0 / 2**n for n in range(PASSES)], True),
    ],
)
def test_the_standby_stops_when_another_pass_would_not_make_the_last_one_shorter(
    seconds: list[float], enough: bool
) -> None:
    assert is_copied(seconds) is enough


def test_a_failback_that_was_refused_does_not_forget_that_the_vm_started_with_its_host(memory_path: Path) -> None:
    site = failed_over(memory_path, WANTS, autostart=True)
    web = site.world.services["web"]
    assert not web.autostart
    site.change(["web"], {"dns_answers": False})
    site.failback()
    assert site.journal.history("web")[0].outcome is Outcome.REFUSED
    site.change(["web"], {"dns_answers": True})
    site.failback()
    assert (web.open_ports, web.autostart) == (True, True)


@pytest.mark.parametrize(("seconds", "goes_on"), [(8.0, True), (15.0, True), (60.0, False)])
def test_lxd_is_restarted_while_the_vm_fetches(memory_path: Path, seconds: float, goes_on: bool) -> None:
    """A copy of hours does not begin anew for that."""
    site = failed_over(memory_path, WANTS)
    site.change(["web"], {"fetches_within": 12.0})
    web = site.world.services["web"]
    process = site.begin_failover(verb="failback")
    site.run(60.0, lambda: web.order is not None and web.order.order is Order.COPY)
    site.change(["web"], {"lxd_answers": False})
    site.run(seconds)
    site.change(["web"], {"lxd_answers": True})
    site.do(process)
    assert site.journal.state("web").side is (Side.PRIMARY if goes_on else Side.STANDBY)
    assert web.open_ports is goes_on
    if not goes_on:
        assert "LXD on secondary sec1 (/etc/lxd/unix.socket) does not answer" in site.log[-1]
