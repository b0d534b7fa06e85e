"""A secondary is made while there is too much to do, and given back, by a command: each is an LXD on this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vcrecovery_lab
from vcrecovery.errors import ExitCode
from vcrecovery_lab.run import run

from . import lxd_cloud
from .elastic_site import NETWORK, THERE, WEB, ElasticSite
from .small_site import page_at, started
from .waiting import wait_for

pytestmark = pytest.mark.lab

BRIDGE = "vcrlab-cloud"


class CommandSite(ElasticSite):
    def __init__(self, folder: Path) -> None:
        self.cloud = folder / "cloud"
        self.cloud.mkdir()
        super().__init__(folder)

    def elastic_section(self) -> dict[str, Any]:
        lab = Path(vcrecovery_lab.__file__).parents[1]
        command = ["env", f"PYTHONPATH={lab}", sys.executable, lxd_cloud.__file__, str(self.cloud)]
        return {
            "template": {
                "cores": 2,
                "memory": "24GiB",
                "networks": [NETWORK],
                "bridge": BRIDGE,
                "storage_pool": BRIDGE,
            },
            "provisioner": {"command": command, "timeout": "2m"},
            "join_within": "1m",
        }

    def elastic(self, **changes: Any) -> None:
        self.write_plan()
        self.data["balance"]["elastic"].update(changes)
        self.save_plan()

    @property
    def machines(self) -> list[dict[str, Any]]:
        return [json.loads(file.read_text()) for file in self.cloud.glob("*.json")]

    def calls(self) -> list[str]:
        file = self.cloud / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def back(self) -> None:
        self.end_machines()
        for file in ("fault", "calls"):
            (self.cloud / file).unlink(missing_ok=True)
        super().back()

    def end_machines(self) -> None:
        cloud = lxd_cloud.Cloud(self.cloud)
        (self.cloud / "fault").unlink(missing_ok=True)
        for file in self.cloud.glob("*.json"):
            cloud.destroy(file.stem)

    def close(self) -> None:
        try:
            self.end_machines()
        finally:
            super().close()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandSite]:
    with started(CommandSite(tmp_path_factory.mktemp("elastic"))) as site:
        yield site


@pytest.fixture
def site(made: CommandSite) -> Iterator[CommandSite]:
    made.serve()
    made.burn()
    yield made
    for name in made.names:
        made.lxd.lxc("config", "unset", name, "limits.cpu.allowance")
    made.back()


def nothing_is_left() -> None:
    assert BRIDGE not in run(["ip", "-br", "link"], timeout=30).stdout


def test_one_is_made_used_and_given_back(site: CommandSite) -> None:
    proposed: list[str] = []

    def is_overloaded() -> bool:
        dry = site.vcrecovery("rebalance", "--dry-run")
        proposed.append(dry.stdout)
        return dry.returncode == ExitCode.REFUSED

    # Each looks for 5 s, in which other tests may have had the cores.
    wait_for(is_overloaded, "the overload", 180)
    assert "would make a secondary with 2 cores and 24 GiB of memory:\n  web to new-1: takes " in proposed[-1]
    assert site.machines == []
    with site.watched() as said:
        wait_for(lambda: site.where(WEB) == "elastic-1", "the move there", 300)
        wait_for(lambda: site.page(WEB) == WEB, "its page by its name", 30)
        assert page_at(THERE) == WEB
        assert page_at(site.address(WEB)) is None
        assert len(site.machines) == 1
        status = site.vcrecovery("status").stdout
        assert "elastic-1: made for a while, since " in status
        assert "web serves there" in status
        # It has a copy at home meanwhile, as with a spare.
        wait_for(lambda: site.spare(WEB)["whole"], "its copy at home", 60)
        assert site.spare(WEB)["secondary"] == "sec1"
        site.calm()
        wait_for(lambda: site.where(WEB) == "sec1", "the way home", 240)
        wait_for(lambda: site.machines == [], "its end", 120)
        wait_for(lambda: "elastic-1: gone" in said(), "its word", 30)
    assert (site.page(WEB), page_at(site.address(WEB))) == (WEB, WEB)
    assert "elastic" not in site.vcrecovery("status").stdout
    nothing_is_left()


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("lie", "one machine was to be made, and there is none"),
        ("silent", "it has not joined within 5 s: "),
        ("hang", "did not finish within 20 s, and was killed"),
    ],
)
def test_one_that_never_joins_is_not_paid_for(site: CommandSite, fault: str, why: str) -> None:
    site.elastic(join_within="5s", provisioner={**site.data["balance"]["elastic"]["provisioner"], "timeout": "20s"})
    (site.cloud / "fault").write_text(fault)
    with site.watched() as said:
        wait_for(lambda: "elastic-1: gone: " in said(), "its end", 240)
        assert why in said()
    assert site.machines == []
    assert site.where(WEB) == "sec1"
    assert site.page(WEB) == WEB
    nothing_is_left()


def test_a_watcher_that_is_killed_goes_on(site: CommandSite) -> None:
    with site.watched():
        wait_for(lambda: any(call.startswith("create") for call in site.calls()), "the call", 120)
    # Ended in the middle of it; its command goes on, or was killed.
    with site.watched() as said:
        wait_for(lambda: "web is served on elastic-1" in said(), "the move there", 180)
        assert len(site.machines) == 1
        drained = site.vcrecovery("drain", "elastic-1")
        assert drained.returncode == 0, (drained.stdout, drained.stderr)
        assert site.where(WEB) == "sec1"
        wait_for(lambda: site.machines == [], "its end", 120)
    assert site.page(WEB) == WEB
    nothing_is_left()
