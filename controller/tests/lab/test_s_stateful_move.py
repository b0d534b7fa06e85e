"""A standby that serves is moved with its memory and its connections: two real LXDs, a real CRIU, one network."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.errors import ExitCode
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.spare_loop import see_to
from vcrecovery.plan.load import load_plan
from vcrecovery_lab.checkpointing_lxd import CheckpointingLxd
from vcrecovery_lab.criu import criu_folder

from .killable_site import MOST
from .shared_network import Counting, SharedNetwork
from .small_site import started
from .test_r_killed_move import WEB, KillableTwo
from .waiting import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.reaches_out]

MOVE = ["move", WEB, "--to", "sec2", "--how", "stateful"]


class KillableShared(KillableTwo, SharedNetwork):
    """The controller is killed anywhere."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillableShared]:
    with started(KillableShared(tmp_path_factory.mktemp("memory"), [WEB])) as site:
        site.start_primaries()
        yield site
        site.end_primaries()


@pytest.fixture
def site(made: KillableShared) -> KillableShared:
    made.served_at_home()
    return made


@contextmanager
def counting(address: str) -> Iterator[list[float]]:
    """A client counts all the time over one connection, and is answered; the seconds that each answer took."""
    took: list[float] = []
    stop, failed = threading.Event(), list[Exception]()

    def go_on() -> None:
        try:
            with closing(Counting(address)) as client:
                while not stop.wait(0.005):
                    before = time.monotonic()
                    client.ask()
                    took.append(time.monotonic() - before)
        except (OSError, AssertionError) as error:
            failed.append(error)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield took
    finally:
        # What it serves with now answers, too.
        enough = len(took) + 20
        try:
            wait_for(lambda: len(took) >= enough or not thread.is_alive(), "twenty more answers", 20)
        finally:
            stop.set()
            thread.join()
    assert not failed, failed


def test_a_connection_survives_moves_there_and_back(site: KillableShared) -> None:
    with counting(site.address(WEB)):
        dry = site.well(*MOVE, "--dry-run")
        assert [line.split()[0] for line in dry.splitlines()[3:6]] == ["copy", "stop", "last"]
        told = site.well(*MOVE)
        assert site.lives_on() == ["sec2"]
        assert "requested by root, stateful" in told
        assert "container a on sec2: went on with its memory" in told
        assert site.well(*MOVE).startswith("a: nothing to do")
        assert "stateful" in site.well("explain", WEB)
        # What was written of the memory ends with the next copy.
        written = site.rootfs(WEB).parent / "state"
        assert written.exists()
        see_to(Environment(load_plan(site.plan), SystemClock()), WEB)
        assert not written.exists()
        site.well("move", WEB, "--to", "sec1", "--how", "stateful")
        assert site.lives_on() == ["sec1"]
    assert site.page(WEB) == WEB


def test_killed_before_each_change_it_is_moved_by_the_next_call(site: KillableShared) -> None:
    with counting(site.address(WEB)):
        changes = site.killed_ever_further(*MOVE, kinds="journal,lxd")
        site.serves_on("sec2")
    assert {"PUT instances/a/state", "the end of PUT instances/a/state"} <= set(changes)
    site.changes_nothing(*MOVE)


def test_killed_at_every_step_from_the_stop_on(site: KillableShared) -> None:
    """An entry for the beginning and one for the end of each."""
    boundaries = site.killed_everywhere(
        lambda: MOVE, site.served_at_home, lambda: site.serves_on("sec2"), "journal", range(7, MOST, 2)
    )
    assert boundaries > 1 + 8 * 2


@contextmanager
def broken(lxd: CheckpointingLxd, action: str) -> Iterator[None]:
    """CRIU there fails in that."""
    program = lxd.programs / "criu"
    whole = program.read_text()
    program.write_text(f'#!/bin/sh\n[ "$1" = {action} ] && exit 1\nexec {criu_folder()}/criu "$@"\n')
    try:
        yield
    finally:
        program.write_text(whole)


@pytest.mark.parametrize(("secondary", "action"), [("sec1", "dump"), ("sec2", "restore")])
def test_what_criu_cannot_do_leaves_it_where_it_was(site: KillableShared, secondary: str, action: str) -> None:
    lxd = site.lxd if secondary == "sec1" else site.spare_lxd
    with counting(site.address(WEB)):
        with broken(lxd, action):
            failed = site.run(*MOVE)
        assert failed.returncode == ExitCode.EXTERNAL, (failed.stdout, failed.stderr)
        assert site.lives_on() == ["sec1"]
        site.well(*MOVE)
        assert site.lives_on() == ["sec2"]


def test_what_speaks_against_it_is_said_in_one_line(site: KillableShared) -> None:
    site.spare_lxd.lxc("project", "unset", "default", "user.vcrecovery.criu")
    try:
        refused = site.run(*MOVE, "--dry-run")
    finally:
        site.spare_lxd.note_checkpoints()
    assert refused.returncode == ExitCode.REFUSED
    assert "secondary sec2 has no CRIU that was set up" in refused.stdout
    live = site.run(*MOVE[:-1], "live")
    assert live.returncode == ExitCode.REFUSED
    assert len(live.stderr.splitlines()) == 1
    assert site.lives_on() == ["sec1"]
