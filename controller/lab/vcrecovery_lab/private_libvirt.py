"""A real libvirtd of one's own: a session daemon of an unprivileged user, which shares nothing with the system's."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from .domain import blank_domain
from .pair.waiting import wait_until
from .ports import free_port
from .run import LabError, run

#: QEMU starts slowly on a busy machine; the first definition also finds out what QEMU can do.
PATIENCE = 120.0


class PrivateLibvirt:
    """`stop` and `start` may be called again and again; VMs live on meanwhile, as under the system's libvirtd."""

    def __init__(self) -> None:
        # Not below pytest's folders, which other users cannot enter. Socket paths must be short, too.
        self.folder = Path(tempfile.mkdtemp(prefix="vcrlab-"))
        self.socket = self.folder / "run/libvirt/libvirt-sock"
        self._reapers: list[subprocess.Popen[bytes]] = []
        self.lay_out()

    @property
    def uri(self) -> str:
        return f"qemu:///session?socket={self.socket}"

    def lay_out(self) -> None:
        """Its folders and settings."""
        shutil.chown(self.folder, "nobody", "nogroup")
        for name in ("run", "config/libvirt", "cache"):
            path = self.folder / name
            path.mkdir(parents=True)
        # No log daemon: it would outlive this one.
        (self.folder / "config/libvirt/qemu.conf").write_text('stdio_handler = "file"\n')
        # Another host than the others of this machine, or libvirt would refuse to migrate.
        (self.folder / "config/libvirt/libvirtd.conf").write_text(f'host_uuid = "{uuid4()}"\n')
        run(["chown", "-R", "nobody:nogroup", self.folder], timeout=10)

    def command(self) -> list[str]:
        return ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "libvirtd"]

    def environment(self) -> Mapping[str, str]:
        places = {"HOME": ".", "XDG_RUNTIME_DIR": "run", "XDG_CONFIG_HOME": "config", "XDG_CACHE_HOME": "cache"}
        return {name: str(self.folder / place) for name, place in places.items()}

    @property
    def pid_files(self) -> Path:
        """Where those of its VMs are."""
        return self.folder / "run/libvirt/qemu/run"

    @property
    def pid(self) -> int:
        return int((self.folder / "run/libvirt/libvirtd.pid").read_text())

    def start(self) -> None:
        env = {**os.environ, **self.environment()}
        # -P, or the modules beside it would come before the standard library's of the same name.
        command = [sys.executable, "-P", str(Path(__file__).with_name("reaper.py")), *self.command()]
        log = self.folder / "libvirtd.log"
        with log.open("ab") as file:
            reaper = subprocess.Popen(command, env=env, stdout=file, stderr=file, cwd="/")
        self._reapers.append(reaper)

        def answers() -> bool:
            if reaper.poll() is not None:
                raise LabError(f"the private libvirtd has ended with status {reaper.returncode}: {_end_of(log)}")
            return self.answers()

        wait_until(answers, "the private libvirtd", PATIENCE)

    def answers(self) -> bool:
        return run(["virsh", "-c", self.uri, "-q", "version"], timeout=PATIENCE, check=False).returncode == 0

    def stop(self) -> None:
        """In good order."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, as when it crashes."""
        self._end(signal.SIGKILL)

    def lose_power(self) -> None:
        """As when its host loses its power: libvirtd and every VM end at once, and /run is empty at the next boot."""
        state = self.folder / "run/libvirt/qemu"
        pids = [int(path.read_text()) for path in self.pid_files.glob("*.pid")]
        self.kill()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids:
            wait_until(lambda pid=pid: not _runs(pid), f"the end of process {pid}", PATIENCE)  # type: ignore[misc]
        shutil.rmtree(state)

    def _end(self, number: signal.Signals) -> None:
        pid = self.pid
        os.kill(pid, number)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the end of the private libvirtd", PATIENCE)

    def virsh(self, *words: str) -> str:
        return run(["virsh", "-c", self.uri, "-q", *words], timeout=PATIENCE, env={"LC_ALL": "C"}).stdout

    def make(self, name: str, uuid: str, *, transient: bool = False, start: bool = True) -> None:
        self.define(blank_domain(name, uuid), "create" if transient else "define")
        if start and not transient:
            self.virsh("start", name)

    def define_and_start(self, xml: str, name: str) -> None:
        self.define(xml)
        self.virsh("start", name)

    def define(self, xml: str, word: str = "define") -> None:
        file = self.folder / "domain.xml"
        file.write_text(xml)
        self.virsh(word, str(file))

    def qemu(self, name: str) -> int:
        """The process id of a VM that runs."""
        return int((self.pid_files / f"{name}.pid").read_text())

    def migrate(self, name: str, to: PrivateLibvirt) -> None:
        """Live; it is gone here, and runs there."""
        where = f"tcp://127.0.0.1:{free_port()}"
        self.virsh(
            "migrate", "--live", "--persistent", "--undefinesource", "--unsafe", name, to.uri, "--migrateuri", where
        )

    def forget(self, name: str) -> None:
        """Leaves nothing of a VM."""
        for word in ("destroy", "undefine"):
            run(["virsh", "-c", self.uri, "-q", word, name], timeout=PATIENCE, check=False)

    def close(self) -> None:
        """Leaves nothing of it, whatever state it is in."""
        with contextlib.suppress(OSError, ValueError):  # it does not run
            # The number of one that was killed may be another process's by now.
            if "libvirtd" in Path(f"/proc/{self.pid}/comm").read_text():
                os.kill(self.pid, signal.SIGCONT)
                self._end(signal.SIGTERM)
        for path in self.pid_files.glob("*.pid"):
            with contextlib.suppress(OSError):  # it has ended
                number = int(path.read_text())
                if str(self.folder) in Path(f"/proc/{number}/cmdline").read_text(errors="replace"):
                    os.kill(number, signal.SIGKILL)
        for reaper in self._reapers:
            reaper.wait(timeout=PATIENCE)
        shutil.rmtree(self.folder)


def _end_of(log: Path) -> str:
    return " | ".join(log.read_text(errors="replace").splitlines()[-5:])


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
