"""The controller is killed at every change of a move, and of a failover to the spare; the next call goes on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.errors import ExitCode
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.spare_loop import see_to
from vcrecovery.plan.load import load_plan
from vcrecovery.standby.container import ACTIVE, ROLE_KEY
from vcrecovery.store.drained import Drained, DrainedBook

from .killable_site import MOST, KillableSite
from .small_site import started
from .two_secondaries import TwoSecondaries

pytestmark = pytest.mark.lab

WEB = "a"
#: Of the changes. All of them take twice as long, and the simulation has each (`test_promises_of_a_spare`).
EVERY_OTHER = range(1, MOST, 2)
#: Of those that end in a move, whose own changes are all tried.
SOME = (1, 2, 12, 24)
#: Per cent: what the container uses, together with a busy program beside it, is too much, and alone it is not.
BALANCE = {"cpu_high": 40, "target": 30, "memory_high": 100}


class KillableTwo(KillableSite, TwoSecondaries):
    """Two LXDs, and primaries that are ended by a fence."""

    def lives_on(self) -> list[str]:
        """The secondaries on which it serves."""
        found = {"sec1": self.lxd.server.get(WEB), "sec2": self.on_spare(WEB)}
        return [name for name, one in found.items() if one and one.running and one.config.get(ROLE_KEY) == ACTIVE]

    def never_two(self) -> None:
        lives = self.lives_on()
        assert len(lives) + self.primary_serves(WEB) <= 1, lives

    def all_there_is(self) -> dict[str, Any]:
        spare = self.on_spare(WEB)
        ours = spare and {key: value for key, value in spare.config.items() if not key.startswith("volatile.")}
        return super().all_there_is() | {"spare": (spare and spare.status, ours)}

    def served_at_home(self) -> None:
        """Its VM has failed, and nobody has copied it since."""
        self.spare_lxd.stop_all()
        if self.on_spare(WEB) is not None:
            self.spare_lxd.server.delete(WEB)
        self.afresh()
        self.well("failover", WEB, "--force")

    def copied(self) -> None:
        self.served_at_home()
        see_to(Environment(load_plan(self.plan), SystemClock()), WEB)

    def serves_on(self, secondary: str) -> None:
        assert self.lives_on() == [secondary]
        assert self.page(WEB) == WEB
        assert self.epoch(WEB) == ['"epoch=2"']
        assert self.episodes()[0]["outcome"] == self.episodes()[-1]["outcome"] == "done"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillableTwo]:
    with started(KillableTwo(tmp_path_factory.mktemp("moved"), [WEB])) as site:
        site.start_primaries()
        yield site
        site.end_primaries()


def test_a_move(site: KillableTwo) -> None:
    words = ["move", WEB, "--to", "sec2"]
    boundaries = site.killed_everywhere(
        lambda: words, site.served_at_home, lambda: site.serves_on("sec2"), only=EVERY_OTHER
    )
    # Opened; eight steps with a beginning and an end; closed; LXD's changes of three passes, and of both ends.
    assert boundaries > 1 + 8 * 2 + 1 + 3 * 4


def test_a_failover_to_the_spare(site: KillableTwo) -> None:
    def ended() -> None:
        site.copied()
        site.lxd.server.stop(WEB, 60)

    words = ["failover", WEB, "--to", "sec2"]
    boundaries = site.killed_everywhere(lambda: words, ended, lambda: site.serves_on("sec2"), only=EVERY_OTHER)
    assert boundaries > 1 + 6 * 2 + 1


def test_a_drain(site: KillableTwo) -> None:
    site.killed_everywhere(
        lambda: ["drain", "sec1"], site.served_at_home, lambda: site.serves_on("sec2"), only=(*SOME, MOST - 1)
    )


def test_an_undrain(site: KillableTwo) -> None:
    site.served_at_home()

    def drained() -> None:
        DrainedBook(site.journal()).write("sec1", Drained(1.0, "root"))

    def is_not() -> None:
        assert DrainedBook(site.journal()).all() == {}

    site.killed_everywhere(lambda: ["undrain", "sec1"], drained, is_not)


@pytest.fixture
def busy(site: KillableTwo) -> Iterator[None]:
    """A program that uses one core, and a plan by which a container beside it is too much."""
    site.data["balance"] = BALANCE
    site.save_plan()
    program = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    try:
        yield
    finally:
        program.kill()
        program.wait()
        site.lxd.lxc("config", "unset", WEB, "limits.cpu.allowance")
        site.write_plan()


@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("boundary", [SOME[0], *(pytest.param(at, marks=pytest.mark.at_length) for at in SOME[1:])])
def test_a_rebalance(site: KillableTwo, boundary: int) -> None:
    """The busy program stays, so that its secondary is said not to be relieved."""
    site.served_at_home()
    site.lxd.lxc("config", "set", WEB, "limits.cpu.allowance", "35ms/100ms")
    site.lxd.lxc("exec", WEB, "--", "/bin/busybox", "sh", "-c", "(while :; do :; done) >/dev/null 2>&1 </dev/null &")
    site.run("rebalance", before=f"{boundary}@")
    site.never_two()
    again = site.run("rebalance")
    assert again.returncode == ExitCode.REFUSED, (again.stdout, again.stderr)
    site.never_two()
    site.serves_on("sec2")
