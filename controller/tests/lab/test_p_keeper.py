"""A failover that begins while the keeper is at work on the standby, on the real LXD."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from vcrecovery.core.episode import Step
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.plan.load import load_plan
from vcrecovery.standby.keeper import Looked, StandbyKeeper
from vcrecovery.standby.modes import Act
from vcrecovery.store.journal import Journal

from .conftest import PROGRAM
from .own_standby import Ground, OwnStandby, own_standby, pool
from .waiting import wait_for

pytestmark = pytest.mark.lab

NAME = "vcrt-keeper"


class SlowServer(LxdServer):
    """The real one. The answer to one act is kept back after it was done, as on a machine under load."""

    held: str = ""

    def __init__(self, like: LxdServer, socket: Path) -> None:
        super().__init__(like.name, socket, SystemClock())
        self.done, self.may_end = threading.Event(), threading.Event()

    def freeze(self, instance: str, timeout: float) -> None:
        super().freeze(instance, timeout)
        self._hold("freeze")

    def unfreeze(self, instance: str, timeout: float) -> None:
        super().unfreeze(instance, timeout)
        self._hold("unfreeze")

    def shut_down(self, instance: str, timeout: float) -> None:
        super().shut_down(instance, timeout)
        self._hold("shut_down")

    def _hold(self, what: str) -> None:
        if what == self.held:
            self.done.set()
            assert self.may_end.wait(200), "the failover never got on"


@pytest.fixture(scope="module")
def made(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnStandby]:
    folder = tmp_path_factory.mktemp("keeper")
    with (
        pool(ground, NAME, "dir") as name,
        own_standby(ground, NAME, name, folder, timeouts={"ports": "60s"}) as standby,
    ):
        standby.apply()
        standby.make_source()
        assert standby.sync().returncode == 0
        yield standby


@pytest.mark.parametrize(
    ("held", "act", "mode"),
    [("unfreeze", Act.THAW, "frozen"), ("freeze", Act.FREEZE, "frozen"), ("shut_down", Act.STOP, "cold")],
)
def test_a_failover_in_the_middle_of_an_act(made: OwnStandby, held: str, act: Act, mode: str) -> None:
    standby = made
    standby.move()
    standby.write_plan(mode="frozen", refresh={"every": "1h"})
    standby.apply()
    wanted = "frozen" if act is Act.THAW else "hot"
    done = standby.vcrecovery("standby", "set", NAME, wanted)
    assert done.returncode == 0, done.stderr
    if act is Act.THAW:
        standby.write_plan(refresh={"every": "1ms"})
    plan, server = load_plan(standby.plan), SlowServer(standby.lxd, standby.ground.socket)
    server.held = held
    journal = Journal(standby.state / "journal.db")
    (standby.state / "modes" / NAME).write_text(mode)
    keeper = StandbyKeeper(plan, {"sec1": server}, journal, SystemClock())
    looked: list[Looked] = []
    keeping = threading.Thread(target=lambda: looked.append(keeper.look(NAME)))
    keeping.start()
    try:
        wait_for(server.done.is_set, "the keeper's act")
        words = ["failover", NAME, "--primary-is-down", NAME, "--plan", str(standby.plan)]
        failover = subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            # While the act is not over, all is done that comes before the container: it is confirmed and fenced.
            wait_for(lambda: Step.START in begun(journal), "the failover's start")
            assert begun(journal) == [Step.CONFIRM, Step.FENCE, Step.START]
            assert standby.instance.config["user.vcrecovery.role"] == "standby"
            server.may_end.set()
            said = failover.communicate(timeout=100)[0]
        finally:
            failover.kill()
            failover.wait(timeout=60)
    finally:
        server.may_end.set()
        keeping.join(120)
    assert failover.returncode == 0, said
    assert [one.act for one in looked] == [act]
    assert standby.instance.status == "Running"
    assert keeper.look(NAME).sentence == "left alone: the standby serves"
    standby.stand_by_again()


def begun(journal: Journal) -> list[Step]:
    episode = journal.state(NAME).open_episode
    return [] if episode is None else [record.step for record in episode.steps]


def test_status_says_that_one_is_not_in_its_mode_and_how_to_mend_it(made: OwnStandby) -> None:
    made.move()
    made.write_plan(mode="hot", refresh={"every": "1h"})
    made.apply()
    assert made.vcrecovery("standby", "set", NAME, "plan").returncode == 0
    said = "its standby is to wait in mode hot, and its container is stopped"
    assert "in mode hot" not in made.vcrecovery("status", "--check", "--within", "60").stdout
    made.lxd.stop(NAME, 60)
    found = made.vcrecovery("status", "--check", "--within", "60").stdout
    assert f"warning: {NAME}: {said}" in found
    assert f"`vcrecovery standby set {NAME} plan`" in found
    assert made.vcrecovery("standby", "set", NAME, "plan").returncode == 0
    assert made.instance.status == "Running"
    assert "in mode hot" not in made.vcrecovery("status", "--check", "--within", "60").stdout
