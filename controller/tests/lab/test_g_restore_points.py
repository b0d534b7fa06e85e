"""Restore points of a real standby: made when due, kept in number, restored before the start, also by a second try."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from vcrecovery.standby.container import ACTIVE, EPOCH_KEY, ROLE_KEY, STANDBY
from vcrecovery.standby.restore_points import RestorePoint, restore_points
from vcrecovery.transfer import sessions
from vcrecovery_lab.run import run

from .own_standby import Ground, OwnStandby, own_standby, pool
from .waiting import wait_for

pytestmark = pytest.mark.lab

#: The real `vcrecovery`, killed when LXD has restored and the standby is not yet marked again as the one that serves.
KILLED = """\
import os, signal
from vcrecovery.cli.main import main
from vcrecovery.drivers.lxd import LxdServer
restore = LxdServer.restore
def restore_and_die(*args):
    restore(*args)
    os.kill(os.getpid(), signal.SIGKILL)
LxdServer.restore = restore_and_die
main()
"""


@pytest.fixture(scope="module")
def made(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnStandby]:
    points = {"keep": 2, "every": "1h"}
    folder = tmp_path_factory.mktemp("points")
    with (
        pool(ground, "vcrt-dir", "dir") as name,
        own_standby(ground, "vcrt-r", name, folder, restore_points=points) as made,
    ):
        made.make_source()
        made.apply()
        yield made


@pytest.fixture
def standby(made: OwnStandby) -> Iterator[OwnStandby]:
    for name in made.lxd.snapshots(made.name):
        made.lxd.delete_snapshot(made.name, name, 60)
    send(made, "one")
    yield made
    if made.instance.config[ROLE_KEY] == ACTIVE:
        made.stand_by_again()


def send(standby: OwnStandby, page: str) -> None:
    (standby.source / "www/index.html").write_text(page + "\n")
    standby.stamp()
    done = standby.sync()
    assert done.returncode == 0, done.stderr


def openers(file: Path) -> set[str]:
    """The processes that have it open."""
    found = set()
    for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if descriptor.readlink() == file:
                found.add(descriptor.parts[2])
    return found


def points(standby: OwnStandby) -> list[RestorePoint]:
    return restore_points(standby.lxd, standby.name)


def snapshot(standby: OwnStandby) -> str:
    done = standby.vcrecovery("standby", "snapshot", standby.name)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().removeprefix(f"{standby.name}: ")


def age(standby: OwnStandby, hours: int) -> str:
    """Makes the newest restore point so many hours older; its name."""
    newest = points(standby)[-1]
    moment = datetime.fromtimestamp(newest.taken_at - hours * 3600, UTC)
    name = moment.strftime("vcr-%Y%m%dT%H%M%SZ")
    standby.lxd.rename_snapshot(standby.name, newest.name, name)
    return name


def test_made_when_due_and_kept_in_number(standby: OwnStandby) -> None:
    standby.lxd.take_snapshot(standby.name, "vcr-new-1", 60)  # a run that was killed left this
    standby.lxd.take_snapshot(standby.name, "by-hand", 60)
    assert snapshot(standby).endswith(" made")
    assert "nothing to do: the newest is" in snapshot(standby)
    oldest = age(standby, hours=5)
    assert snapshot(standby).endswith(" made")
    age(standby, hours=2)
    assert snapshot(standby).endswith(f" made; removed: {oldest}")
    assert len(points(standby)) == 2
    assert set(standby.lxd.snapshots(standby.name)) == {"by-hand", *(point.name for point in points(standby))}
    listed = json.loads(standby.vcrecovery("standby", "snapshots", standby.name, "--json").stdout)["restore_points"]
    assert [entry["name"] for entry in listed] == [point.name for point in reversed(points(standby))]
    assert 7000 < listed[1]["age"] < 7400


def test_none_is_made_of_what_is_not_whole(standby: OwnStandby) -> None:
    heartbeat = standby.source / "var/lib/vcrecovery/heartbeat"
    now = json.loads(heartbeat.read_text())["at"]
    for marker, why in (({"at": now, "good_until": now - 5}, "not complete"), ({"at": now - 5000}, "1.4 h old")):
        heartbeat.write_text(json.dumps(marker))
        assert standby.sync().returncode == 0
        assert why in snapshot(standby)
    assert points(standby) == []


def test_a_session_waits_for_a_restore_point(standby: OwnStandby) -> None:
    lock = sessions.lock_file(standby.state, standby.name)
    with sessions.set_aside(standby.state, standby.name, 10):
        process = subprocess.Popen(standby.rsync(), stderr=subprocess.PIPE)
        wait_for(lambda: len(openers(lock)) > 1, "a session that waits")
        assert process.poll() is None
    assert process.communicate(timeout=60)[1] == b""
    assert process.returncode == 0


def test_back_to_a_restore_point(standby: OwnStandby) -> None:
    snapshot(standby)
    name = age(standby, hours=3)
    send(standby, "corrupt")
    # The plan has changed since, so that the container's configuration of then is no longer right.
    address = standby.move()
    standby.apply()
    refused = standby.fail_over("--restore-point", "vcr-20200101T000000Z")
    assert refused.returncode == 3
    assert f"no restore point 'vcr-20200101T000000Z' (there are: {name})" in refused.stderr
    done = standby.fail_over("--restore-point", "latest")
    assert done.returncode == 0, done.stderr
    assert f"restored      to {name}, 3.0 h old" in done.stdout
    assert standby.inside("cat", "/www/index.html") == "one\n"
    assert standby.inside("cat", "/etc/hostname") == f"{standby.name}\n"
    config = standby.instance.config
    assert (config[ROLE_KEY], config[EPOCH_KEY], config["boot.autostart"]) == (ACTIVE, "1", "true")
    assert address in config["raw.lxc"]
    assert 10700 < standby.steps()["restore"]["age"] < 11000
    assert "not now: the standby serves" in snapshot(standby) or "nothing to do" in snapshot(standby)
    assert "nothing to do" in standby.fail_over("--restore-point", "latest").stdout


def test_killed_in_the_middle_of_the_restore(standby: OwnStandby) -> None:
    snapshot(standby)
    send(standby, "corrupt")
    words = ["failover", standby.name, "--primary-is-down", standby.name, "--restore-point", "latest"]
    killed = run([sys.executable, "-c", KILLED, *words, "--plan", str(standby.plan)], timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    # LXD has brought back the role of then: a session may come in, and does.
    assert standby.instance.config[ROLE_KEY] == STANDBY
    send(standby, "corrupt again")
    done = standby.fail_over()
    assert done.returncode == 0, done.stderr
    assert standby.inside("cat", "/www/index.html") == "one\n"
    assert standby.instance.config[ROLE_KEY] == ACTIVE
    assert standby.sync().returncode != 0
