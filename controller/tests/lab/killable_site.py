"""A small site whose primaries really serve until their host is fenced, and a controller that is killed anywhere."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from vcrecovery.core.service_state import Side
from vcrecovery.standby.container import ACTIVE, ROLE_KEY
from vcrecovery.store.journal import Journal
from vcrecovery_lab.private_libvirt import PrivateLibvirt

from .controllers import Controllers
from .small_site import PORT, ZONE, SmallSite, started
from .waiting import wait_for

KILLED = -signal.SIGKILL
VM_NAME, VM_UUID = "vcrt-crashing", "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0088"
#: No change has this number.
NEVER = "1000000"
#: Changes of one call at the most: beyond it, it would run for ever.
MOST = 200


def _ours(config: Mapping[str, str]) -> dict[str, str]:
    """Without what LXD notes for itself, when it likes."""
    return {key: value for key, value in config.items() if not key.startswith("volatile.")}


class Watcher:
    """A `vcrecovery watch` and what it says."""

    def __init__(self, controllers: Controllers, plan: Path, log: Path, before: str) -> None:
        self._controllers, self._log = controllers, log
        # The new process makes it; until then nothing is said, least of all by the one before.
        log.unlink(missing_ok=True)
        self._pid = controllers.start(before, ["watch", "--verbose", "--plan", str(plan)], log, log)

    def said(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def says(self, text: str) -> bool:
        return text in self.said()

    @property
    def ended(self) -> bool:
        return self._controllers.poll(self._pid) is not None

    def stop(self) -> int:
        """Its exit status."""
        if not self.ended:
            os.kill(self._pid, signal.SIGTERM)
        try:
            wait_for(lambda: self.ended, "the end of the watcher", 60)
        finally:
            if not self.ended:
                os.kill(self._pid, signal.SIGKILL)
            status = self._controllers.wait(self._pid)
        assert not self.says("Traceback"), self.said()
        return status


class KillableSite(SmallSite):
    """Each primary is a web server on this machine; the fence command ends all of them, as power-off does."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._primaries: list[subprocess.Popen[bytes]] = []
        #: Where controllers make their temporary files.
        self.scratch = folder / "scratch"
        self.scratch.mkdir()
        self.controllers = Controllers({"TMPDIR": str(self.scratch)})
        super().__init__(folder, names)

    def write_plan(self, **services: dict[str, Any]) -> None:
        super().write_plan(**services)
        script = f"kill -KILL $(cat {shlex.quote(str(self._pids))}) 2>/dev/null; echo Chassis power is off"
        self.data["hypervisors"]["hv1"]["fence"] = {"command": ["sh", "-c", script]}
        for service in self.data["services"].values():
            service["timeouts"] = {"stable_for": "1ms"}
        self.data["groups"] = {"all": {"services": list(self.names)}}
        self.plan.write_text(yaml.safe_dump(self.data))

    # -- the primaries -----------------------------------------------------------------------------------------

    @property
    def _pids(self) -> Path:
        return self.folder / "primaries"

    def end_primaries(self) -> None:
        # Who is not waited for keeps its number, so the fence command ends nobody else.
        for process in self._primaries:
            process.kill()

    def start_primaries(self) -> None:
        self.end_primaries()
        for process in self._primaries:
            process.wait(timeout=30)
        web = self.folder / "web"
        web.mkdir(exist_ok=True)
        self._primaries = [
            subprocess.Popen(["busybox", "httpd", "-f", "-p", f"{self.primary(name)}:{PORT}", "-h", web])
            for name in self.names
        ]
        self._pids.write_text(" ".join(str(process.pid) for process in self._primaries))
        wait_for(lambda: all(self.primary_serves(name) for name in self.names), "the primaries")

    def primary_serves(self, name: str) -> bool:
        with suppress(OSError), socket.create_connection((self.primary(name), PORT), timeout=10):
            return True
        return False

    # -- what is seen from outside -----------------------------------------------------------------------------

    def is_live(self, name: str) -> bool:
        """Whether the standby is one that serves."""
        found = self.instance(name)
        return found.status == "Running" and found.config.get(ROLE_KEY) == ACTIVE

    def never_two(self) -> None:
        for name in self.names:
            assert not (self.primary_serves(name) and self.is_live(name)), f"two live copies of {name}"
            if self.address_in_dns(name) == [self.address(name)]:
                assert self.is_live(name), f"DNS points at a standby of {name} that does not serve"

    def serves(self, *names: str) -> None:
        """Each of these standbys serves by its name, after one failover, and nothing else has happened."""
        for name in names:
            assert self.is_live(name)
            assert self.page(name) == name
            assert self.epoch(name) == ['"epoch=1"']
            assert not self.primary_serves(name)
        done = [(e["service"], e["epoch"], e["outcome"]) for e in self.episodes() if e["outcome"] != "refused"]
        assert sorted(done) == [(name, 1, "done") for name in names]

    def is_done(self, name: str) -> bool:
        state = self.journal().state(name)
        return state.side is Side.STANDBY and state.open_episode is None

    def journal(self) -> Journal:
        return Journal(self.state / "journal.db")

    def epoch(self, name: str) -> list[str]:
        return self.ns1.dig(f"_vcrecovery.{name}.{ZONE}", "TXT")

    def all_there_is(self) -> dict[str, Any]:
        """Everything that a call could change."""
        modes = {path.name: path.read_text() for path in (self.state / "modes").glob("*")}
        instances = {name: self.instance(name) for name in self.names}
        return {
            "serial": self.serial(),
            "modes": modes,
            "containers": {name: (i.status, _ours(i.config), i.started_at) for name, i in instances.items()},
            "journal": self._journal(),
        }

    def _journal(self) -> list[str]:
        file = self.state / "journal.db"
        if not file.exists():
            # Nobody makes one by looking, nor do we.
            return []
        with closing(sqlite3.connect(file)) as db:
            return list(db.iterdump())

    def episodes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.run("history", "--json").stdout)["episodes"]
        return found

    # -- the controller ----------------------------------------------------------------------------------------

    def run(self, *words: str, before: str = NEVER) -> subprocess.CompletedProcess[str]:
        """The real program, killed before change number `before`."""
        out, err = self.folder / "out", self.folder / "err"
        pid = self.controllers.start(before, [*words, "--plan", str(self.plan)], out, err)
        status = self.controllers.wait(pid)
        done = subprocess.CompletedProcess(list(words), status, out.read_text(), err.read_text())
        assert "Traceback" not in done.stderr, done.stderr
        assert "internal error" not in done.stderr, done.stderr
        return done

    def well(self, *words: str) -> str:
        """What it prints when it does what it should."""
        done = self.run(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def changes_nothing(self, *words: str) -> None:
        before = self.all_there_is()
        self.well(*words)
        assert self.all_there_is() == before, words

    def killed_everywhere(
        self,
        words_of_turn: Callable[[], Sequence[str]],
        prepare: Callable[[], None],
        check: Callable[[], None],
        kinds: str = "",
        only: Sequence[int] = range(1, MOST),
    ) -> int:
        """Kills a call before each of its changes and after the last, each time from what `prepare` makes.

        `words_of_turn` gives its words, which do the same in every turn. The next call of them finishes the job, which
        `check` looks at, and one more changes nothing.
        `only` these boundaries. The number of the last one.
        """
        for boundary in only:
            words = words_of_turn()
            prepare()
            killed = self.run(*words, before=f"{boundary}@{kinds}")
            self.never_two()
            finished = self.run(*words)
            assert finished.returncode == 0, (boundary, finished.stdout, finished.stderr)
            self.never_two()
            check()
            assert list(self.scratch.iterdir()) == [], boundary
            if killed.returncode != KILLED:
                assert killed.returncode == 0, (boundary, killed.stdout, killed.stderr)
                break
            self.changes_nothing(*words)
        return boundary

    def killed_ever_further(self, *words: str, kinds: str = "all") -> list[str]:
        """Calls it until it is done, killed each time before a change that no call was killed before.

        So each goes on from where the last one was killed. The changes.
        """
        seen = self.folder / "seen"
        seen.unlink(missing_ok=True)
        for _ in range(MOST):
            done = self.run(*words, before=f"{seen}@{kinds}")
            self.never_two()
            if done.returncode == 0:
                assert list(self.scratch.iterdir()) == []
                return seen.read_text().splitlines()
            assert done.returncode == KILLED, (done.stdout, done.stderr)
        raise AssertionError(f"no end after {MOST} calls: {seen.read_text()}")

    @contextmanager
    def watching(self, before: str = NEVER) -> Iterator[Watcher]:
        """A watcher, which is ended in the end."""
        watcher = Watcher(self.controllers, self.plan, self.folder / "watch.log", before)
        try:
            yield watcher
        except AssertionError as error:
            # What it said last is what explains that something did not come.
            error.add_note(f"The watcher said:\n{watcher.said()[-8000:]}")
            raise
        finally:
            watcher.stop()

    # -- between two failovers ---------------------------------------------------------------------------------

    def afresh(self) -> None:
        """Nothing has ever failed over. Standbys that run go on running, as in mode hot."""
        for name in self.names:
            self.stand_by(name)
            self.stamp(name)
        self.point_back(*(f"update delete _vcrecovery.{name}.{ZONE} TXT" for name in self.names))
        for file in self.state.glob("journal.db*"):
            file.unlink()
        shutil.rmtree(self.state / "locks", ignore_errors=True)
        self.start_primaries()

    def point_back(self, *more: str) -> None:
        """The names hold the primaries' addresses again, as an operator has it before `standby reset`."""
        changes = [
            line
            for name in self.names
            for line in (f"update delete {name}.{ZONE} A", f"update add {name}.{ZONE} 5 A {self.primary(name)}")
        ]
        self.ns1.change(*changes, *more)

    def stop_standby(self, name: str) -> None:
        if self.instance(name).status != "Stopped":
            self.lxd.server.stop(name, timeout=60)

    def close(self) -> None:
        self.controllers.close()
        self.end_primaries()
        for process in self._primaries:
            process.wait(timeout=30)
        super().close()


@contextmanager
def killable_site(folder: Path, names: Sequence[str]) -> Iterator[KillableSite]:
    with started(KillableSite(folder, names)) as site:
        yield site


class Remembered:
    """A site's journal as it is now."""

    def __init__(self, site: KillableSite) -> None:
        self._file = site.state / "journal.db"
        self._copy = sqlite3.connect(":memory:")
        with closing(sqlite3.connect(self._file)) as db:
            db.backup(self._copy)

    def recall(self) -> None:
        """Nothing has happened since."""
        with closing(sqlite3.connect(self._file)) as db:
            self._copy.backup(db)


class CrashingVm:
    """A real VM that does nothing, under a libvirtd of its own."""

    def __init__(self) -> None:
        self.host = PrivateLibvirt()

    def boot(self) -> None:
        if "running" not in self._state():
            self.host.virsh("start", VM_NAME)

    def crash(self) -> None:
        os.kill(self.host.qemu(VM_NAME), signal.SIGKILL)
        wait_for(lambda: "crashed" in self._state(), "the crash", 100)

    def resume(self) -> None:
        if self.paused():
            self.host.virsh("resume", VM_NAME)

    def paused(self) -> bool:
        return self._state().startswith("paused")

    def autostart(self) -> bool:
        return "Autostart: enable" in " ".join(self.host.virsh("dominfo", VM_NAME).split())

    def _state(self) -> str:
        return self.host.virsh("domstate", VM_NAME, "--reason")


@contextmanager
def crashing_vm(site: KillableSite, name: str) -> Iterator[CrashingVm]:
    """In the place of the primary of service `name`, the only one of the plan."""
    vm = CrashingVm()
    try:
        vm.host.start()
        vm.host.make(VM_NAME, VM_UUID)
        site.write_plan()
        site.data["services"] = {name: site.data["services"][name]}
        site.data["services"][name]["primary"]["uuid"] = VM_UUID
        site.data["hypervisors"]["hv1"] = {"uri": vm.host.uri}
        del site.data["groups"]
        site.plan.write_text(yaml.safe_dump(site.data))
        yield vm
    finally:
        vm.host.close()
