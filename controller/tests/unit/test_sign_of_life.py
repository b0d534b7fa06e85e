"""The watcher's signs of life to systemd, which restarts one that hangs.

systemd itself does not run where the tests do: what it would hear is heard on a socket of its kind. What it then does
(abort, and start again) is its own.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from view_program import PATIENCE, command, env

from lab.waiting import wait_for
from simulated.libvirt import SimulatedHost
from simulated.site import Site
from vcrecovery.cli.watch import watching
from vcrecovery.detect.rounds import BEAT_EVERY, HUNG_AFTER

UNIT = Path(__file__).parents[3] / "templates/vcrecovery-watch.service.j2"
#: The watcher, with less patience, and a call to libvirt that takes as long as a file is there.
IMPATIENT = """
import sys, time
from pathlib import Path
from vcrecovery.cli.main import main
from vcrecovery.detect import host_watch, rounds, watch
from vcrecovery.drivers.libvirt import LibvirtHost

called = LibvirtHost.CALL

def may_hang(*words):
    while Path(sys.argv[-1] + ".hangs").exists():
        time.sleep(0.01)
    return called(*words)

rounds.BEAT_EVERY = watch.TICK = host_watch.ASK_EVERY = 0.1
rounds.HUNG_AFTER = 1.0
LibvirtHost.CALL = may_hang
main()
"""


class Systemd:
    """What hears the watcher, and what its log says."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "notify"
        self.log = folder / "log"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self.path))

    def hears(self, within: float = PATIENCE) -> str:
        """The next word. Raises TimeoutError when none comes."""
        self._socket.settimeout(within)
        return self._socket.recv(1000).decode()

    def hears_nothing(self, seconds: float) -> bool:
        try:
            return self.hears(seconds) == ""
        except TimeoutError:
            return True

    def hears_no_more(self) -> None:
        """Whatever is on its way still arrives."""
        wait_for(lambda: self.hears_nothing(0.5), f"its silence (see {self.log})", PATIENCE)

    def log_says(self, text: str) -> None:
        wait_for(lambda: text in self.log.read_text(), text, PATIENCE)

    @contextmanager
    def runs(self, words: Sequence[str], **changes: str) -> Iterator[subprocess.Popen[bytes]]:
        changes = {"NOTIFY_SOCKET": str(self.path), "WATCHDOG_USEC": "60000000"} | changes
        with (
            self.log.open("wb") as log,
            subprocess.Popen(words, stderr=log, stdout=subprocess.DEVNULL, env=env(**changes)) as process,
        ):
            try:
                yield process
            finally:
                process.kill()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    made = Systemd(tmp_path)
    yield made
    made.close()


def test_the_watcher_gives_signs_of_life(systemd: Systemd, local_plan: Path) -> None:
    with systemd.runs(command("watch", "--plan", local_plan)) as watcher:
        assert [systemd.hears() for _ in range(2)] == ["READY=1", "WATCHDOG=1"]
        # Once its threads wait, as those of one that hangs: Python may fail to show what changes meanwhile.
        systemd.log_says("does not tell who stops its containers")
        watcher.send_signal(signal.SIGABRT)
        assert watcher.wait(PATIENCE) == -signal.SIGABRT
    # Where each of its threads was.
    assert systemd.log.read_text().count("Thread 0x") > 5


def test_one_that_is_stopped_gives_none(systemd: Systemd, local_plan: Path) -> None:
    program = IMPATIENT.replace("CALL", "usage")
    with systemd.runs([sys.executable, "-c", program, "watch", "--plan", str(local_plan)]) as watcher:
        assert [systemd.hears() for _ in range(3)] == ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]
        os.kill(watcher.pid, signal.SIGSTOP)
        systemd.hears_no_more()
        os.kill(watcher.pid, signal.SIGCONT)
        assert systemd.hears() == "WATCHDOG=1"


@pytest.mark.parametrize(
    ("call", "threads"), [("usage", ["questions to"]), ("subscribe", ["subscription to", "hold of old primaries on"])]
)
def test_a_thread_that_hangs_ends_the_signs(systemd: Systemd, failed_over: Path, call: str, threads: list[str]) -> None:
    """After a failover its old primary is looked for, too."""
    plan = failed_over
    program = IMPATIENT.replace("CALL", call)
    with systemd.runs([sys.executable, "-c", program, "watch", "--plan", str(plan)]):
        assert [systemd.hears() for _ in range(3)] == ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]
        block = Path(f"{plan}.hangs")
        block.touch()
        for thread in threads:
            systemd.log_says(f"the watcher hangs: no progress for 1 s in the {thread} hypervisor hv1")
        systemd.hears_no_more()
        block.unlink()
        assert systemd.hears() == "WATCHDOG=1"


@pytest.mark.parametrize("changes", [{"WATCHDOG_PID": "1"}, {"NOTIFY_SOCKET": "/nowhere"}])
def test_nobody_who_did_not_ask_for_them_gets_any(
    systemd: Systemd, local_plan: Path, changes: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from vcrecovery.cli.systemd import sign_of_life

    monkeypatch.setenv("NOTIFY_SOCKET", str(systemd.path))
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    sign_of_life()
    assert systemd.hears() == "WATCHDOG=1"
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    sign_of_life()
    assert systemd.hears_nothing(0.1)


def test_a_libvirt_that_is_slow_ends_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call waits for as long as the driver allows: 10 s for its turn, 10 s for its answer."""
    _, *others = SimulatedHost.__init__.__defaults__ or ()
    monkeypatch.setattr(SimulatedHost.__init__, "__defaults__", (20.0, *others))
    site = Site(tmp_path, {"web": {}, "mail": {}}, plan={"detection": {"hold_returning": True}})
    beats: list[float] = []
    process, environment = site.process("watch")

    def work() -> None:
        watching(environment, environment.runtime.event(), beat=lambda: beats.append(site.scheduler.time))

    site.scheduler.spawn(process, work, "watch")
    site.run(30)
    site.change(list(site.world.services), {"libvirtd_hangs": True})
    site.run(600)
    longest = max(later - sooner for sooner, later in itertools.pairwise(beats))
    assert longest < 2 * BEAT_EVERY
    assert beats[-1] > site.scheduler.time - 2 * BEAT_EVERY


def test_a_watcher_that_stood_still_as_a_whole_does_not_hang(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.watch(30)
    site.run(3600)
    site.watch(30)
    assert not [line for line in site.log if "hangs" in line]


def test_the_unit_waits_long_enough() -> None:
    (line,) = [line for line in UNIT.read_text().splitlines() if line.startswith("WatchdogSec=")]
    assert float(line.removeprefix("WatchdogSec=")) >= 10 * BEAT_EVERY
    assert HUNG_AFTER >= 2 * (10 + 10)
