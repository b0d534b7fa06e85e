"""What the walks of `test_promises` would notice: the program is broken, and somebody who looks says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulated.observed import Observed
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
