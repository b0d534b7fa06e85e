"""What the walks of `test_promises` would notice: the program is broken, and somebody who looks says so."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulated.libvirt import SimulatedHost
from simulated.lxd import SimulatedLxd
from simulated.observed import Observed
from simulated.site import Site
from vcrecovery.core.episode import StepRecord
from vcrecovery.core.power import Power
from vcrecovery.operations.neighbours import Neighbours


def of_two_on_a_hypervisor(folder: Path) -> Observed:
    """It is silent, and one of them is dead; the other one answers."""
    site = Observed(folder, {"web": {}, "shop": {}}, world={"fence_command": True})
    site.watch(5)
    site.change(["web", "shop"], {"hypervisor_answers": False})
    site.change(["web"], {"primary_ports_open": False})
    return site


def test_a_hypervisor_is_powered_off_although_a_neighbour_answers(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = of_two_on_a_hypervisor(memory_path)
    monkeypatch.setattr(Neighbours, "answering", lambda *_asked, **_how: ())
    with pytest.raises(AssertionError, match="shop answers, and is ended with its hypervisor"):
        site.watch(60)


def test_an_operator_may_weigh_the_one_against_the_other(memory_path: Path) -> None:
    site = of_two_on_a_hypervisor(memory_path)
    site.watch(20)
    site.failover(name="web", force=True)
    assert site.world.services["web"].serves, site.log


def started_by_hand_after_its_fence(folder: Path) -> Observed:
    """LXD is away for longer than a fence holds, and the VM is up long before it is back."""
    site = Observed(folder)
    site.watch(3)
    site.then["journalled start"] = [lambda: site.change(["web"], {"lxd_answers": False})]
    site.crash("web")
    site.watch(5, to_the_end=False)
    web = site.world.services["web"]
    web.is_started_by_hand()
    site.start_primary("web")
    site.watch(90, to_the_end=False)
    assert not web.serves
    site.change(["web"], {"lxd_answers": True})
    return site


def test_the_word_of_who_starts_a_primary_by_hand_ends_with_its_fence(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StepRecord, "is_recent", lambda *_asked: True)
    site = started_by_hand_after_its_fence(memory_path)
    with pytest.raises(AssertionError, match="starts long after its primary was started by hand"):
        site.watch(60)


def test_it_is_fenced_again_first(memory_path: Path) -> None:
    site = started_by_hand_after_its_fence(memory_path)
    site.watch(60)
    web = site.world.services["web"]
    assert (web.power, web.serves) == (Power.SHUTOFF, True), site.log


def test_who_goes_back_has_seen_the_failover(memory_path: Path) -> None:
    """Also where somebody looks at both only when they are over."""
    site = Observed(memory_path)
    site.watch(3)
    site.crash("web")
    site.watch(10)
    site.failback()
    site.watch(3)
    site.closed()
    site.crash("web")
    site.watch(30)
    assert site.world.services["web"].serves, site.log


def test_a_seed_walks_the_same_way_whatever_code_is_loaded(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a failure in company would not be seen again alone."""

    def walked() -> list[int]:
        drawn: list[int] = []

        @settings(max_examples=300, derandomize=True, database=None)
        @given(st.integers(0, 2**32 - 1))
        def walk(number: int) -> None:
            drawn.append(number)

        walk()
        return drawn

    alone = walked()
    code = memory_path / "just_loaded.py"
    code.write_text(f"NUMBERS = {list(range(1_000_003, 1_000_403))}\n", encoding="utf-8")
    monkeypatch.syspath_prepend(memory_path)
    import_module("just_loaded")
    assert walked() == alone


def has_a_fault(*_asked: object, **_how: object) -> None:
    raise ValueError("not 42")


def meets_what_has_failed(site: Site, who: str) -> None:
    site.crash("web")
    match who:
        case "the watcher":
            site.watch(30)
        case "an operator":
            site.failover(name="web")
        case _:
            site.crash("shop")
            site.failover("group", "all")


@pytest.mark.parametrize(
    ("driver", "method"), [(SimulatedHost, "destroy"), (SimulatedLxd, "configure"), (SimulatedLxd, "ask")]
)
@pytest.mark.parametrize("who", ["the watcher", "an operator", "an operator of a group"])
def test_no_fault_of_the_program_is_only_logged(
    who: str, driver: type, method: str, memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However the program words what it did not expect of a driver, and whoever meets it."""
    site = Site(memory_path, {"web": {"mode": "hot"}, "shop": {}}, groups={"all": ["web", "shop"]})
    site.watch(3)
    monkeypatch.setattr(driver, method, has_a_fault)
    with pytest.raises((AssertionError, ValueError), match="not 42"):
        meets_what_has_failed(site, who)


@pytest.mark.parametrize(
    "fault",
    ["vcrecovery.detect.load_watch.carry_out", "simulated.lxd.SimulatedLxd.reading", "simulated.lxd.SimulatedLxd.pull"],
)
def test_nor_one_in_what_the_watcher_does_besides(
    fault: str, memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its looks at the load, its copies and its moves go on after an error."""
    too_much = {"do": "move", "cpu_high": 50, "target": 45, "high_for": "20s"}
    site = Site(memory_path, world={"spare": "sec2", "spare_every": "5s"}, plan={"balance": too_much})
    site.watch(3)
    site.crash("web")
    site.watch(15)
    assert not any("this is a bug" in line for line in site.log)
    monkeypatch.setattr(fault, has_a_fault)
    site.change(["web"], {"standby_uses": 0.5, "others_use": 0.7})
    with pytest.raises(AssertionError, match="not 42"):
        site.watch(70)
