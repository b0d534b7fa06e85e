"""What befalls a controller besides its death: a full disk, another controller, a clock that is set."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from vcrecovery.core.episode import Step
from vcrecovery.errors import ExitCode
from vcrecovery_lab.run import run

from .killable_site import MOST, KillableSite, crashing_vm, killable_site
from .killed_controller import fill_the_disk_of
from .waiting import wait_for

pytestmark = pytest.mark.lab

HOUR = 3600


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillableSite]:
    """Its journal has a small disk of its own."""
    folder = tmp_path_factory.mktemp("controller")
    (folder / "state").mkdir()
    run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=0755", "vcrt-small", folder / "state"], timeout=30)
    try:
        with killable_site(folder, ["a"]) as site:
            yield site
    finally:
        run(["umount", "--lazy", folder / "state"], timeout=30)


@pytest.fixture
def site(made: KillableSite) -> Iterator[KillableSite]:
    made.back()
    made.start_primaries()
    # As in mode hot: a start takes less then.
    made.lxd.server.start("a", timeout=60)
    yield made
    ballast(made).unlink(missing_ok=True)
    made.end_primaries()


def ballast(site: KillableSite) -> Path:
    return site.state / "ballast"


def test_a_full_disk_at_any_moment(site: KillableSite) -> None:
    words = ("failover", "a", "--force")
    stopped = 0
    for boundary in range(1, MOST):
        site.afresh()
        done = site.run(*words, before=f"{boundary}:{ballast(site)}")
        site.never_two()
        if not ballast(site).exists():
            break
        if done.returncode:
            stopped += 1
            assert done.returncode == ExitCode.EXTERNAL, (boundary, done.stderr)
            (line,) = done.stderr.splitlines()
            assert f"{site.state}/" in line
            assert "free some space" in line
            # SQLite may have made a little room by tidying up.
            assert site.run(*words).returncode in (ExitCode.EXTERNAL, ExitCode.DONE)
            site.never_two()
        ballast(site).unlink()
        if site.is_live("a"):
            (episode,) = site.journal().history("a")
            assert episode.done(Step.FENCE) is not None, "started without a fence in the journal"
        site.well(*words)
        site.serves("a")
    assert stopped > 5


def test_a_watcher_whose_disk_is_full(site: KillableSite) -> None:
    with crashing_vm(site, "a") as vm:
        site.afresh()
        site.end_primaries()
        with site.watching() as watcher:
            wait_for(lambda: watcher.says("a: the primary is running"), "the first look", 100)
            fill_the_disk_of(ballast(site))
            vm.crash()
            wait_for(lambda: watcher.says("free some space"), "the word about the disk", 100)
            assert not watcher.ended
            assert not site.is_live("a")
            ballast(site).unlink()
            wait_for(lambda: site.is_done("a"), "the failover", 100)
            assert watcher.stop() == 0
    site.serves("a")


def test_controllers_that_begin_at_the_same_moment(site: KillableSite) -> None:
    with crashing_vm(site, "a") as vm:
        for turn in range(3):
            vm.boot()
            site.afresh()
            site.end_primaries()
            with site.watching() as watcher:
                wait_for(lambda: watcher.says("a: the primary is running"), "the first look", 100)
                serial = site.serial()
                vm.crash()
                commands = [
                    subprocess.Popen(
                        site.command("failover", "a"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                    )
                    for _ in range(2)
                ]
                said = [command.communicate(timeout=100) for command in commands]
                wait_for(lambda: site.is_done("a"), "the failover", 100)
                assert watcher.stop() == 0
            site.serves("a")
            assert site.serial() == serial + 1, turn
            for command, (out, err) in zip(commands, said, strict=True):
                assert command.returncode in (ExitCode.DONE, ExitCode.BUSY), err
                if command.returncode == ExitCode.BUSY:
                    (line,) = err.splitlines()
                    assert "is already at work on a; `vcrecovery status a` shows how far it is" in line
                else:
                    assert "a: nothing to do: its standby serves" in out or "a: served by its standby" in out
                    assert err == ""


def test_a_clock_that_is_set_at_any_moment(site: KillableSite) -> None:
    # Each step once, forward and back in turns; tests/test_clock_jumps.py has all of them both ways.
    for boundary in range(1, 18, 3):
        site.afresh()
        site.end_primaries()
        jump = HOUR if boundary % 2 else -HOUR
        done = site.run("failover", "a", before=f"{boundary}:{jump:+d}")
        site.never_two()
        if done.returncode:
            assert (done.returncode, jump < 0) == (ExitCode.REFUSED, True), done.stderr
            assert "in the future" in done.stderr
            assert not site.is_live("a")
            site.well("failover", "a")
        site.serves("a")
