"""A real libvirtd of one's own: a session daemon of an unprivileged user, which shares nothing with the system's."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from .domain import blank_domain
from .pair.waiting import wait_until
from .run import run

#: QEMU starts slowly on a busy machine; the first definition also finds out what QEMU can do.
PATIENCE = 120.0


class PrivateLibvirt:
    """`stop` and `start` may be called again and again; VMs live on meanwhile, as under the system's libvirtd."""

    def __init__(self) -> None:
        # Not below pytest's folders, which other users cannot enter. Socket paths must be short, too.
        self.folder = Path(tempfile.mkdtemp(prefix="vcrlab-"))
        shutil.chown(self.folder, "nobody", "nogroup")
        self.socket = self.folder / "run/libvirt/libvirt-sock"
        self.uri = f"qemu:///session?socket={self.socket}"
        self._process: subprocess.Popen[bytes] | None = None
        self._names: set[str] = set()
        for name in ("run", "config/libvirt", "cache"):
            path = self.folder / name
            path.mkdir(parents=True)
        # No log daemon: it would outlive this one.
        (self.folder / "config/libvirt/qemu.conf").write_text('stdio_handler = "file"\n')
        run(["chown", "-R", "nobody:nogroup", self.folder], timeout=10)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        places = {"HOME": ".", "XDG_RUNTIME_DIR": "run", "XDG_CONFIG_HOME": "config", "XDG_CACHE_HOME": "cache"}
        environment = {**os.environ, **{name: str(self.folder / place) for name, place in places.items()}}
        command = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "libvirtd"]
        with (self.folder / "libvirtd.log").open("ab") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        wait_until(self.answers, "the private libvirtd", PATIENCE)

    def answers(self) -> bool:
        return run(["virsh", "-c", self.uri, "-q", "version"], timeout=PATIENCE, check=False).returncode == 0

    def kill(self) -> None:
        """SIGKILL, as when it crashes."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(timeout=30)

    def virsh(self, *words: str) -> str:
        return run(["virsh", "-c", self.uri, "-q", *words], timeout=PATIENCE, env={"LC_ALL": "C"}).stdout

    def make(self, name: str, uuid: str, *, transient: bool = False, start: bool = True) -> None:
        xml = self.folder / "domain.xml"
        xml.write_text(blank_domain(name, uuid))
        self._names.add(name)
        self.virsh("create" if transient else "define", str(xml))
        if start and not transient:
            self.virsh("start", name)

    def qemu(self, name: str) -> int:
        """The process id of a VM that runs."""
        return int((self.folder / "run/libvirt/qemu/run" / f"{name}.pid").read_text())

    def forget(self, name: str) -> None:
        """Leaves nothing of a VM."""
        for word in ("destroy", "undefine"):
            run(["virsh", "-c", self.uri, "-q", word, name], timeout=PATIENCE, check=False)
        self._names.discard(name)

    def close(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                os.kill(self._process.pid, signal.SIGCONT)
            if self._process.poll() is None and self.answers():
                for name in list(self._names):
                    self.forget(name)
            for path in (self.folder / "run/libvirt/qemu/run").glob("*.pid"):
                with contextlib.suppress(OSError):  # it has ended
                    number = int(path.read_text())
                    if str(self.folder) in Path(f"/proc/{number}/cmdline").read_text(errors="replace"):
                        os.kill(number, signal.SIGKILL)
            self._process.terminate()
            self._process.wait(timeout=60)
        shutil.rmtree(self.folder)
