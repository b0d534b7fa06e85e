"""How a standby waits, on the real LXD with a real Debian in it: hot, frozen, warm, cold, and what a failover finds."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import TryAgainError
from vcrecovery.errors import BusyError
from vcrecovery.plan.load import load_plan
from vcrecovery.standby.container import EPOCH_KEY
from vcrecovery.standby.keeper import StandbyKeeper
from vcrecovery.store.journal import Journal
from vcrecovery.store.lock import service_lock
from vcrecovery_lab.run import run

from .conftest import PROGRAM, Lab
from .waiting import wait_for
from .waiting_standby import NAME, WaitingStandby, waiting_standby

pytestmark = pytest.mark.lab

KILLER = Path(__file__).with_name("killed_keeper.py")
ADDED = "server { listen 8080; return 200 'two'; }\n"
JOURNAL_ON_DISK = {"/etc/systemd/journald.conf.d/test.conf": "[Journal]\nStorage=persistent\n"}
#: LXD's word for each mode.
STATUS = {"hot": "Running", "frozen": "Frozen", "warm": "Running", "cold": "Stopped"}


@pytest.fixture(scope="module")
def made(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WaitingStandby]:
    folder = tmp_path_factory.mktemp("modes")
    with waiting_standby(
        lab, folder, masked_units=["ssh.service"], warm_units=["dbus.service"], timeouts={"ports": "60s"}
    ) as standby:
        yield standby


@pytest.fixture
def standby(made: WaitingStandby) -> Iterator[WaitingStandby]:
    """The standby as its primary has left it, in the plan's mode."""
    yield made
    made.stand_by_again()
    (made.rootfs / "etc/nginx/conf.d/added.conf").unlink(missing_ok=True)
    made.write_plan(mode="cold", refresh={"every": "1h"}, first_units=[])
    made.set_mode("plan")


@contextmanager
def watching(standby: WaitingStandby) -> Iterator[Path]:
    """A `vcrecovery watch`; where it writes to."""
    log = standby.folder / "watch.log"
    log.write_text("")
    with log.open("ab") as output:
        process = subprocess.Popen([PROGRAM, "watch", "--plan", standby.plan], stdout=output, stderr=output)
    try:
        yield log
    finally:
        process.kill()
        process.wait(timeout=60)
    assert "Traceback" not in log.read_text()


def stopped(standby: WaitingStandby) -> bool:
    """Stops it, unless the server is busy with it at this moment."""
    try:
        standby.lxd.stop(NAME, 30)
    except TryAgainError:
        return False
    return True


def is_as(standby: WaitingStandby, mode: str) -> None:
    assert standby.instance.status == STATUS[mode]
    if mode in ("hot", "warm"):
        # The masked unit waits for the failover, the warm one does not.
        nginx = "active" if mode == "hot" else "inactive"
        assert [standby.unit(name) for name in ("nginx", "ssh", "dbus")] == [nginx, "inactive", "active"]
        assert (standby.page() is not None) == (mode == "hot")


def test_every_mode_from_every_other(standby: WaitingStandby) -> None:
    for mode in ("hot", "frozen", "warm", "hot", "warm", "frozen", "cold"):
        standby.set_mode(mode)
        is_as(standby, mode)
        before = standby.instance
        assert standby.set_mode(mode).endswith("nothing to do\n")
        assert standby.instance == before
        assert standby.apply() == f"{NAME}: nothing to do"
    shown = json.loads(standby.vcrecovery("standby", "modes", "--json").stdout)["services"][NAME]
    assert (shown["mode"], shown["plan"], shown["state"]) == ("cold", "cold", "stopped")


@pytest.mark.parametrize("mode", list(STATUS))
def test_a_failover_out_of_each_mode(standby: WaitingStandby, mode: str) -> None:
    standby.set_mode(mode)
    init = standby.init() if mode != "cold" else ""
    # These come while it waits, and are newer than what its processes have read.
    standby.send({"/var/www/html/index.html": f"for {mode}\n", "/etc/nginx/conf.d/added.conf": ADDED})
    done = standby.fail_over()
    assert done.returncode == 0, done.stderr
    assert standby.page() == f"for {mode}\n"
    wait_for(lambda: standby.page(8080) == "two", "what the new settings say")
    wait_for(lambda: standby.unit("ssh") == "active", "the unit that was masked")
    if mode != "cold":
        assert standby.init() == init  # it was not booted once more
    # Whichever way it was booted: after the next boot it serves too.
    run(["lxc", "restart", NAME, "--timeout", "20"], timeout=60)
    wait_for(lambda: standby.page() == f"for {mode}\n", "the page after a boot")


def test_the_first_units_start_first_and_all_the_rest_after_them(standby: WaitingStandby) -> None:
    def monotonic(unit: str, stamp: str) -> int:
        return int(standby.inside("systemctl", "show", "--value", "-p", f"{stamp}TimestampMonotonic", unit))

    standby.send(JOURNAL_ON_DISK)
    standby.write_plan(first_units=["nginx.service", "not-installed.service"])
    assert "first units: nginx.service not-installed.service" in standby.apply()
    assert standby.apply() == f"{NAME}: nothing to do"
    assert standby.fail_over().returncode == 0
    assert standby.page()
    wait_for(lambda: standby.unit("default.target") == "active", "the rest of the boot")
    running = monotonic("nginx.service", "ActiveEnter")
    assert 0 < running <= min(monotonic(unit, "InactiveExit") for unit in ("ssh.service", "basic.target"))
    for unit in ("ssh.service", "dbus.service", "timers.target"):
        assert standby.unit(unit) == "active"
    wait_for(lambda: standby.inside("ls", "/run/systemd/journal").split().count("flushed"), "the journal on its disk")
    # What it sees of memory is its own share, as with Debian's hook, on a machine that has lxcfs.
    seen = standby.inside("cat", "/proc/mounts")
    assert ("lxcfs /proc/meminfo " in seen) == Path("/var/lib/lxcfs/proc/meminfo").exists()
    standby.stand_by_again()
    standby.write_plan(first_units=[])
    assert "first units: none" in standby.apply()
    assert "lxc.init.cmd" not in standby.instance.config["raw.lxc"]


def test_a_first_unit_that_hangs_holds_back_the_rest_for_its_time_only(standby: WaitingStandby) -> None:
    hangs = "[Service]\nType=oneshot\nTimeoutStartSec=infinity\nExecStart=/bin/sleep infinity\n"
    standby.send({"/etc/systemd/system/hangs.service": hangs, **JOURNAL_ON_DISK})
    standby.write_plan(first_units=["hangs.service"])
    standby.apply()
    rest = standby.rootfs / "etc/systemd/system/vcrecovery-rest.service"
    rest.write_text(rest.read_text().replace("JobTimeoutSec=60\n", "JobTimeoutSec=3\n"))
    done = standby.fail_over()
    assert done.returncode == 0, done.stderr
    assert standby.page()
    wait_for(lambda: standby.unit("ssh") == "active", "the rest of the boot", 60)
    assert standby.unit("hangs") == "activating"
    wait_for(lambda: standby.inside("ls", "/run/systemd/journal").split().count("flushed"), "the journal on its disk")
    standby.stand_by_again()
    standby.write_plan(first_units=[])
    standby.apply()


def test_owners_are_right_in_one_that_runs(standby: WaitingStandby) -> None:
    standby.set_mode("hot")
    standby.send({"/srv/file": "x"})
    assert standby.inside("stat", "-c", "%u %g", "/srv/file").split() == ["0", "0"]


def test_an_open_file_that_was_replaced(standby: WaitingStandby) -> None:
    standby.set_mode("frozen")
    # Its own log, as the primary's has come in: the process still holds the old one, which has no name any more.
    standby.send({"/var/log/nginx/access.log": "the primary's\n"})
    assert standby.fail_over().returncode == 0
    assert "restarted nginx.service" in standby.steps()["start"]["summary"]
    assert standby.page()
    log = standby.rootfs / "var/log/nginx/access.log"
    wait_for(lambda: len(log.read_text().splitlines()) == 2, "the request in the log that has a name")


def test_the_watcher_keeps_it_there_and_refreshes_it(standby: WaitingStandby) -> None:
    standby.write_plan(mode="frozen", refresh={"every": "5s"})
    with watching(standby) as log:
        wait_for(lambda: standby.instance.status == "Frozen", "the frozen standby")
        standby.send({"/etc/nginx/conf.d/added.conf": ADDED})
        wait_for(lambda: "was refreshed: restarted nginx.service" in log.read_text(), "the refresh")
        wait_for(lambda: standby.instance.status == "Frozen", "the freezing after it")
        # Somebody stops it, or it ends by itself.
        before = standby.instance.started_at
        wait_for(lambda: stopped(standby), "the stop")
        wait_for(lambda: standby.instance.started_at > before, "the boot")
        wait_for(lambda: standby.instance.status == "Frozen", "the freezing after the boot")
        # A choice of the operator's, made while the watcher runs, holds after both have gone.
        standby.set_mode("hot")
        wait_for(lambda: standby.instance.status == "Running", "the thaw")
    standby.lxd.freeze(NAME, 30)
    with watching(standby):
        wait_for(lambda: standby.page() is not None, "the thaw by another watcher")
    standby.set_mode("plan")
    wait_for(lambda: standby.instance.status == "Frozen", "the plan's mode")


def test_one_that_serves_is_left_alone(standby: WaitingStandby) -> None:
    standby.set_mode("hot")
    plan, clock = load_plan(standby.plan), SystemClock()
    keeper = StandbyKeeper(plan, {"sec1": standby.lxd}, Journal(standby.state / "journal.db"), clock)
    standby.lxd.freeze(NAME, 30)
    with service_lock(standby.state, NAME), pytest.raises(BusyError):
        keeper.look(NAME)
    assert standby.instance.status == "Frozen"
    # Frozen by somebody else's hand in mode hot: a failover thaws it.
    assert standby.fail_over().returncode == 0
    assert standby.page() is not None
    standby.lxd.freeze(NAME, 30)
    looked = keeper.look(NAME)
    assert (looked.there, looked.sentence) == (True, "left alone: the standby serves")
    assert standby.instance.status == "Frozen"
    said = standby.vcrecovery("standby", "set", NAME, "cold")
    assert (said.returncode, said.stdout) == (0, f"{NAME}: left alone: the standby serves\n")
    assert standby.instance.status == "Frozen"


def test_one_that_is_to_serve_and_does_not_is_brought_up_again(standby: WaitingStandby) -> None:
    assert standby.fail_over().returncode == 0
    epoch = int(standby.instance.config[EPOCH_KEY])
    assert f"nothing to do: its standby serves since epoch {epoch}" in standby.fail_over().stdout
    booted = standby.init()
    standby.inside("systemctl", "stop", "nginx")
    assert standby.page() is None
    assert json.loads(standby.vcrecovery("status", "--json").stdout)["services"][0]["verdict"] == "service down"
    done = standby.fail_over()
    assert done.returncode == 0, done.stderr
    assert "was running; started nginx.service" in done.stdout
    assert standby.page() is not None
    # What ran there goes on.
    assert standby.init() == booted
    wait_for(lambda: stopped(standby), "its end")
    done = standby.fail_over()
    assert done.returncode == 0, done.stderr
    assert standby.page() is not None
    assert standby.instance.config[EPOCH_KEY] == str(epoch + 2)
    assert f"nothing to do: its standby serves since epoch {epoch + 2}" in standby.fail_over().stdout


def test_killed_at_every_step(standby: WaitingStandby) -> None:
    # cold to frozen: configure, start, ask, configure, freeze; on to warm: shut down, configure, start, ask, configure.
    for mode in ("frozen", "warm"):
        for boundary in range(1, 20):
            words = ["standby", "set", NAME, mode, "--plan", str(standby.plan)]
            killed = run([sys.executable, KILLER, str(boundary), *words], timeout=100, check=False)
            if killed.returncode == 0:
                break
            assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert 1 < boundary < 19
        is_as(standby, mode)
    # A failover right after the keeper was killed in the middle of a boot.
    standby.set_mode("cold")
    killed = run(
        [sys.executable, KILLER, "4", "standby", "set", NAME, "hot", "--plan", standby.plan], timeout=100, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert standby.fail_over().returncode == 0
    assert standby.page() is not None
    wait_for(lambda: standby.unit("ssh") == "active", "the masked unit")


#: As in the middle of a boot: for three seconds nobody answers.
NOT_YET = """#!/bin/sh
[ -e /run/asked ] || : >/run/asked
[ $(($(date +%s) - $(stat -c %Y /run/asked))) -ge 3 ] || { echo "Failed to connect to bus" >&2; exit 1; }
exec /usr/bin/systemctl "$@"
"""


def test_a_failover_waits_for_a_systemd_that_still_boots(standby: WaitingStandby) -> None:
    standby.set_mode("warm")
    in_its_place = standby.rootfs / "usr/local/sbin/systemctl"
    in_its_place.write_text(NOT_YET)
    in_its_place.chmod(0o755)
    try:
        done = standby.fail_over()
        assert done.returncode == 0, done.stderr
        assert standby.page() is not None
    finally:
        in_its_place.unlink()


def test_not_booted_before_its_first_sync(standby: WaitingStandby) -> None:
    (standby.rootfs / "var/lib/vcrecovery/heartbeat").unlink()
    done = standby.vcrecovery("standby", "set", NAME, "hot", "--timeout", "1s")
    assert done.returncode == 4
    assert "is not booted yet: no heartbeat has arrived" in done.stderr
    assert standby.instance.status == "Stopped"
