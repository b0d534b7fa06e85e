"""What a confirmation does when something outside fails in the middle of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from vcrecovery.drivers.libvirt import DomainReading
from vcrecovery.drivers.lxd import Instance
from vcrecovery.errors import OutsideError
from vcrecovery.plan.load import load_plan
from vcrecovery.recover.outside import Outside
from vcrecovery.recover.states import Episode, Power, Request, Step
from vcrecovery.recover.world import World
from vcrecovery.sync.standby import READY_KEY


class Host:
    """A hypervisor whose VM has crashed."""

    name = "hv1"

    def read(self, _uuid: str) -> DomainReading:
        return DomainReading(Power.SHUTOFF, "crashed")


class Lxd:
    """A secondary elsewhere, of whose containers no file can be read now."""

    name, is_here = "sec1", False

    def get(self, name: str) -> Instance:
        return Instance(name, running=False, status="Stopped", config={READY_KEY: "true"}, devices={})

    def template(self, _name: str, _template: str) -> bytes | None:
        return None

    def file(self, _name: str, _path: str) -> bytes | None:
        raise OutsideError("LXD on secondary sec1 does not answer")


@pytest.fixture
def outside(plan_file: Path) -> Outside:
    plan_file.write_text(plan_file.read_text().replace("address: 10.10.0.10}", "address: 127.0.0.1}"))
    world = World(load_plan(plan_file))
    world.hosts = {"hv1": Host()}  # type: ignore[dict-item]
    world.lxd = {"sec1": Lxd()}  # type: ignore[dict-item]
    return Outside(world, "web")


def episode(*, automatic: bool) -> Episode:
    return Episode(1, "web", 1, "libvirt: shutoff (crashed)", Request(automatic=automatic), 1.0)


def test_an_age_that_cannot_be_read_now_is_read_again(outside: Outside) -> None:
    """A refusal would be the end: nobody calls again."""
    with pytest.raises(OutsideError, match="LXD on secondary sec1 does not answer"):
        outside.carry_out(Step.CONFIRM, episode(automatic=True))


def test_an_operator_is_told_at_once_that_it_cannot_be_read(outside: Outside) -> None:
    found = outside.carry_out(Step.CONFIRM, episode(automatic=False))
    assert found["freshness"] is None
    assert found["freshness_detail"] == "LXD on secondary sec1 does not answer"
