"""Two standbys on one secondary: the key of one is in an attacker's hands, the other is its neighbour.

Only sshd is missing in between. Around them lies what nobody may reach: a canary folder, and the neighbour.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import re
import shlex
import socket
import stat
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from vcrecovery.transfer import sessions
from vcrecovery_lab.run import run

from .hostile_rsync import COMMAND, Entry, send
from .mapped_site import MappedSite
from .small_site import started
from .waiting import wait_for

ATTACKED, NEIGHBOUR = "attacked", "neighbour"
#: Becomes what the receiver would have become rsync, with its rights and in its jail.
IN_THE_JAIL = """\
import os, sys
from pathlib import Path
from vcrecovery.transfer import receiver
def become(_program, _arguments, environment):
    os.execve_("/usr/bin/python3", ["python3", "-c", *sys.argv[4:]], environment)
os.execve_, os.execve = os.execve, become
receiver.receive(Path(sys.argv[1]), sys.argv[2], sys.argv[3], seeds=False)
"""
Outside = dict[str, tuple[object, ...]]


def manifest(*places: Path, without: Collection[Path]) -> Outside:
    """All that can be seen to change in them, but the time at which something was read."""
    found: Outside = {}
    for path in places:
        if path in without:
            continue
        entry = path.lstat()
        content = ""
        if stat.S_ISREG(entry.st_mode):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        elif stat.S_ISLNK(entry.st_mode):
            content = str(path.readlink())
        elif stat.S_ISDIR(entry.st_mode):
            found |= manifest(*path.iterdir(), without=without)
        found[str(path)] = (
            entry.st_mode, entry.st_uid, entry.st_gid, entry.st_size, entry.st_nlink, entry.st_mtime_ns,
            entry.st_ctime_ns, content,
        )  # fmt: skip
    return found


class _Handle(ctypes.Structure):
    _fields_ = (("size", ctypes.c_uint), ("kind", ctypes.c_int), ("content", ctypes.c_ubyte * 128))


def handle_of(path: Path) -> dict[str, Any]:
    """By which its file system finds it, whatever its name is: an inode's number and age, which can be guessed."""
    libc = ctypes.CDLL("libc.so.6", use_errno=True)
    handle, mount = _Handle(128), ctypes.c_int()
    assert libc.name_to_handle_at(-100, os.fsencode(path), ctypes.byref(handle), ctypes.byref(mount), 0) == 0
    return {"handle": bytes(handle.content[: handle.size]).hex(), "handle_kind": handle.kind}


class AttackedSite(MappedSite):
    def __init__(self, folder: Path, kind: str) -> None:
        super().__init__(folder, [ATTACKED, NEIGHBOUR], kind)
        self.canary = folder / "canary"
        #: What the last hand-made session's receiver said.
        self.said = ""
        self.sources = {name: folder / f"source-{name}" for name in self.names}

    @property
    def tree(self) -> Path:
        return self.rootfs(ATTACKED)

    def make_standbys(self) -> None:
        super().make_standbys()
        self.lxd.server.start(NEIGHBOUR, timeout=60)

    def make_surroundings(self) -> None:
        self.canary.mkdir()
        (self.canary / "secret").write_text("of the secondary\n")
        (self.canary / "heartbeat").write_text("{}")
        (self.canary / "folder").mkdir()
        for path in (self.canary, self.canary / "folder", self.canary / "secret"):
            path.chmod(0o777)
        for name, source in self.sources.items():
            (source / "bin").mkdir(parents=True)
            (source / "bin/busybox").write_bytes(Path("/bin/busybox").read_bytes())
            (source / "bin/busybox").chmod(0o755)
            (source / "file").write_text(f"{name}\n")

    # -- sessions -----------------------------------------------------------------------------------------------

    def receiver(self, name: str, *words: str) -> list[str]:
        return [sys.executable, "-m", "vcrecovery", "receive", name, "--state-dir", str(self.state), *words]

    def rsync(
        self, name: str, *options: str, source: Path | None = None, shell: Sequence[str] | None = None
    ) -> list[str]:
        """`shell`: ssh's words, else the receiver is called without one."""
        kept = ["rsync", "-aHAXS", "--numeric-ids", "--modify-window=-1", "--force", *options]
        through = shlex.join(shell or self.receiver(name, "--local"))
        return [*kept, "-e", through, f"{source or self.sources[name]}/", "standby:/"]

    def sync(self, name: str, *options: str, source: Path | None = None) -> subprocess.CompletedProcess[str]:
        return run(self.rsync(name, *options, source=source), timeout=100, check=False)

    @contextmanager
    def opened(self, name: str = ATTACKED, command: str = COMMAND) -> Iterator[subprocess.Popen[bytes]]:
        """A session of which the other side is in our hands."""
        environment = {**os.environ, "SSH_ORIGINAL_COMMAND": command}
        with subprocess.Popen(
            self.receiver(name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        ) as process:
            try:
                yield process
            finally:
                process.kill()
                with contextlib.suppress(BrokenPipeError):
                    ends(process).close()

    def sent(self, entries: Sequence[Entry], command: str = COMMAND) -> int:
        """How a session ended whose file list is `entries`."""
        with self.opened(command=command) as process:
            assert process.stdout is not None
            send(entries, ends(process), process.stdout)
            with contextlib.suppress(BrokenPipeError):
                ends(process).close()
            assert process.stderr is not None
            self.said = process.stderr.read().decode(errors="replace")
            return process.wait(60)

    def answered_noise(self, noise: bytes) -> int:
        """How a session ended to which that was said."""
        with self.opened() as process:
            with contextlib.suppress(BrokenPipeError):
                ends(process).write(noise)
                ends(process).close()
            assert process.stdout is not None
            process.stdout.read()
            return process.wait(60)

    def taken_over(self, code: str, **targets: Any) -> list[dict[str, Any]]:
        """What `code` prints, a JSON in each line, in the place of an rsync that writes."""
        words = [sys.executable, "-c", IN_THE_JAIL, str(self.state), ATTACKED, COMMAND, code, json.dumps(targets)]
        return [json.loads(line) for line in run(words, timeout=60).stdout.splitlines()]

    def leaving(self, code: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-c", IN_THE_JAIL, str(self.state), ATTACKED, COMMAND, code]
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def in_session(self, name: str = ATTACKED) -> list[int]:
        """The processes that hold its lock."""
        return sorted(sessions.holders(sessions.lock_file(self.state, name)))

    def rsyncs(self, name: str = ATTACKED) -> list[int]:
        """Those of them that have become rsync."""
        found = []
        for pid in self.in_session(name):
            with contextlib.suppress(OSError):  # it ends
                if Path(f"/proc/{pid}/comm").read_text() == "rsync\n":
                    found.append(pid)
        return found

    # -- what may not change ------------------------------------------------------------------------------------

    def outside(self) -> Outside:
        """The canary, the receiver's state and the pool, without what is the attacked service's own."""
        pool = self.tree.parents[2]
        heartbeats = self.tree.parent / "templates"  # the receiver's copy for LXD
        own = (self.tree, heartbeats, *(self.state / "standbys").glob(f"{ATTACKED}.*"))
        return manifest(self.canary, self.state, pool, without=own)

    @contextmanager
    def nothing_else_changes(self) -> Iterator[None]:
        """Beyond the attacked tree; and the neighbour's session, container and next sync go on."""
        neighbour = self.rootfs(NEIGHBOUR)
        with self.opened(NEIGHBOUR) as session:
            wait_for(lambda: self.rsyncs(NEIGHBOUR), "the neighbour's session")
            before = self.outside()
            init = container_init(neighbour)
            yield
            assert self.outside() == before
            assert session.poll() is None
            assert container_init(neighbour) == init
        (self.sources[NEIGHBOUR] / "file").write_text(f"after {len(before)} {os.urandom(8).hex()}\n")
        done = self.sync(NEIGHBOUR)
        assert done.returncode == 0, done.stderr
        assert (neighbour / "file").read_text() == (self.sources[NEIGHBOUR] / "file").read_text()
        # Nothing of the attack has stayed.
        wait_for(lambda: self.in_session() == [], "the end of the attacker's sessions")


@contextmanager
def attacked_site(folder: Path, kind: str) -> Iterator[AttackedSite]:
    """Its two standbys have their files; the neighbour's runs."""
    with started(AttackedSite(folder, kind)) as site:
        site.make_surroundings()
        for name in site.names:
            done = site.sync(name)
            assert done.returncode == 0, done.stderr
        yield site


def status_of(pid: int) -> dict[str, str]:
    text = Path(f"/proc/{pid}/status").read_text()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}


def ends(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin


def container_init(rootfs: Path) -> int | None:
    """The first process of the container that runs on that tree."""
    inode = rootfs.stat().st_ino
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if not process.name.isdigit() or (process / "root").stat().st_ino != inode:
                continue
            if re.search(r"^NSpid:\s+\d+\s+1$", (process / "status").read_text(), re.MULTILINE):
                return int(process.name)
    return None


@contextmanager
def listening(family: int, address: Any) -> Iterator[socket.socket]:
    with socket.socket(family) as door:
        door.bind(address)
        door.listen()
        yield door
