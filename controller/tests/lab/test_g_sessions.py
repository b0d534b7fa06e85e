"""A session that is open when its standby is promoted ends before the container starts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from vcrecovery.standby.container import ACTIVE, ROLE_KEY
from vcrecovery.transfer import sessions

from .own_standby import Ground, OwnStandby, own_standby, pool
from .waiting import wait_for

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def made(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnStandby]:
    folder = tmp_path_factory.mktemp("sessions")
    with pool(ground, "vcrt-dir", "dir") as name, own_standby(ground, "vcrt-a", name, folder) as made:
        made.make_source()
        made.apply()
        yield made


@pytest.fixture
def standby(made: OwnStandby) -> Iterator[OwnStandby]:
    (made.source / "www/big").unlink(missing_ok=True)
    made.stamp()
    done = made.sync()
    assert done.returncode == 0, done.stderr
    yield made
    made.stand_by_again()


def half_sent(standby: OwnStandby) -> list[Path]:
    return list((standby.rootfs / "www").glob(".big.*"))


@pytest.fixture
def session(standby: OwnStandby) -> Iterator[subprocess.Popen[bytes]]:
    """An rsync that is in the middle of a file that takes it a minute and more."""
    (standby.source / "www/big").write_bytes(os.urandom(20_000_000))
    with subprocess.Popen(standby.rsync("--bwlimit=300"), stderr=subprocess.PIPE) as process:
        try:
            wait_for(lambda: half_sent(standby), "the first part of a file")
            yield process
        finally:
            process.kill()


def test_promotion_ends_the_open_session(standby: OwnStandby, session: subprocess.Popen[bytes]) -> None:
    done = standby.fail_over()
    assert done.returncode == 0, done.stderr
    assert standby.steps()["start"]["sessions_ended"] == 1
    assert "1 session of its primary ended" in done.stdout
    assert session.wait(timeout=60) != 0
    assert sessions.holders(sessions.lock_file(standby.state, standby.name)) == {}
    assert standby.instance.running
    # The whole older file, or none, but no half of the new one under its name.
    assert not (standby.rootfs / "www/big").exists()
    # The primary tries again.
    again = standby.sync()
    assert again.returncode != 0
    assert "its files are live" in again.stderr
    assert "nothing to do" in standby.fail_over().stdout


def test_also_when_an_earlier_controller_was_killed_between(
    standby: OwnStandby, session: subprocess.Popen[bytes]
) -> None:
    standby.lxd.configure(standby.instance, {ROLE_KEY: ACTIVE})
    assert session.poll() is None
    done = standby.fail_over()
    assert done.returncode == 0, done.stderr
    assert standby.steps()["start"]["sessions_ended"] == 1
    assert session.wait(timeout=60) != 0


def test_without_a_session_nothing_is_ended(standby: OwnStandby) -> None:
    done = standby.fail_over()
    assert done.returncode == 0, done.stderr
    assert standby.steps()["start"]["sessions_ended"] == 0
    assert "ended" not in done.stdout
