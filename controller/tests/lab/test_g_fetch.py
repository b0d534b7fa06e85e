"""A VM fetches its standby's files through the receiver, however owners are mapped; its program has no more rights than
its unit gives it. Only sshd is missing in between, and systemd is a list of what it was told.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.operations.vm_orders import Order, Report, VmOrders
from vcrecovery.standby.container import ACTIVE, EPOCH_KEY, ROLE_KEY, STANDBY
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.run import run

from .mapped_site import KINDS, SHIFTED, MappedSite
from .small_site import started
from .test_g_owners import acl, as_seen, fill
from .waiting import wait_for

pytestmark = pytest.mark.lab

NAME, EPOCH = "a", 3
UNIT = CHECKOUT / "templates/vcrecovery-superseded.service.j2"
#: Takes: -F, a file, -o, an option, the host, and the command. The receiver does not inherit the VM's rights.
SSH = """\
#!{python}
import socket, sys
there = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
there.connect({socket!r})
socket.send_fds(there, [" ".join(sys.argv[6:]).encode()], [0, 1, 2])
sys.exit(int(there.recv(10)))
"""
READING = "rsync --server --sender -lHogtpAXrSe.iLsfxCIvu --specials --numeric-ids . /"
WRITING = "rsync --server -lHogtpAXrSe.iLsfxCIvu --specials --numeric-ids . /"
#: Becomes what the receiver would have become rsync, with its rights and in its jail.
IN_THE_JAIL = """\
import os, sys
from pathlib import Path
from vcrecovery.transfer import receiver
def become(_program, _arguments, environment):
    os.execve_("/usr/bin/python3", ["python3", "-c", sys.argv[4]], environment)
os.execve_, os.execve = os.execve, become
receiver.receive(Path(sys.argv[1]), sys.argv[2], sys.argv[3], seeds=False)
"""
ATTEMPTS = """\
import ctypes, errno, json, os, stat
def tried(attempt):
    try:
        attempt()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
libc = ctypes.CDLL("libc.so.6", use_errno=True)
def remount():
    if libc.mount(b"none", b"/standby", None, ctypes.c_ulong(32 | 4096), None):
        raise OSError(ctypes.get_errno(), "")
print(json.dumps({
    "write": tried(lambda: open("/standby/www/new", "w").close()),
    "append": tried(lambda: open("/standby/www/index.html", "a").close()),
    "unlink": tried(lambda: os.unlink("/standby/www/index.html")),
    "chmod": tried(lambda: os.chmod("/standby/www", 0o700)),
    "remount": tried(remount),
    "node": tried(lambda: os.mknod("/standby/www/node", stat.S_IFCHR | 0o600, os.makedev(1, 3))),
    "device": tried(lambda: open("/standby/null")),
    "run": tried(lambda: os.execv("/standby/bin/busybox", ["true"])),
    "shadow": tried(lambda: open("/standby/etc/shadow").close()),
    "rights": [number for number in range(64) if libc.prctl(23, number, 0, 0, 0) == 1],
    "outside": sorted(os.listdir("/")),
}))
"""


class Site(MappedSite):
    """One standby, and a VM's tree, from which it was filled."""

    def __init__(self, folder: Path, kind: str) -> None:
        super().__init__(folder, [NAME], kind)
        self.tree, self.bin = folder / "tree", folder / "bin"
        self.settings = folder / "sync.json"
        self.orders = VmOrders(lambda _service: self.lxd.server, SystemClock())

    @property
    def standby(self) -> Path:
        return self.rootfs(NAME)

    def receiver(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "vcrecovery", "receive", NAME, "--state-dir", str(self.state), *words]

    def make_vm(self) -> None:
        (self.tree / "var/lib/vcrecovery").mkdir(parents=True)
        fill(self.tree)
        os.mknod(self.tree / "srv/data/socket", stat.S_IFSOCK | 0o600)
        (self.tree / "etc").mkdir()
        (self.tree / "etc/shadow").write_text("root:x\n")
        (self.tree / "etc/shadow").chmod(0o000)
        self.bin.mkdir()
        for name, text in (
            ("ssh", SSH.format(python=sys.executable, socket=str(self.lxd.folder / "ssh"))),
            ("systemctl", f'#!/bin/sh\necho "$*" >>{self.folder}/systemctl\n'),
        ):
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)
        (self.folder / "list").write_text("- /srv/own\nH /boot/\n")
        settings = {
            "exclude": {},
            "lists": {"rsync-filter": str(self.folder / "list")},
            "source": str(self.tree),
            "ssh_config": str(self.folder / "ssh_config"),
            "run_dir": str(self.folder / "run"),
            "state_dir": str(self.tree / "var/lib/vcrecovery"),
        }
        self.settings.write_text(json.dumps(settings))
        shell = shlex.join(self.receiver("--local"))
        kept = ["rsync", "-aHAXS", "--no-devices", "--specials", "--numeric-ids", "--modify-window=-1", "-e", shell]
        run([*kept, f"{self.tree}/", "standby:/"], timeout=100)

    def serve_from(self, role: str) -> None:
        self.lxd.server.configure(self.instance(NAME), {ROLE_KEY: role, EPOCH_KEY: str(EPOCH)})

    def inside(self, script: str) -> None:
        self.lxd.lxc("exec", NAME, "--", "/bin/busybox", "sh", "-ec", script)

    def report(self) -> Report | None:
        given = self.orders.given(NAME)
        return None if given is None else self.orders.report(NAME, given)

    def _connected(self, channel: socket.socket) -> None:
        """What sshd does with one connection."""
        with channel:
            command, files, _, _ = socket.recv_fds(channel, 8192, 3)
            environment = {**os.environ, "SSH_ORIGINAL_COMMAND": command.decode()}
            done = subprocess.run(
                self.receiver(), stdin=files[0], stdout=files[1], stderr=files[2], env=environment, check=False,
                timeout=300,
            )  # fmt: skip
            for file in files:
                os.close(file)
            with suppress(BrokenPipeError):  # the VM's program has been ended
                channel.send(str(done.returncode).encode())

    @contextmanager
    def sshd(self) -> Iterator[None]:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door, ThreadPoolExecutor() as pool:
            door.bind(str(self.lxd.folder / "ssh"))
            door.listen()

            def serve() -> None:
                with suppress(OSError):  # it is shut
                    while True:
                        pool.submit(self._connected, door.accept()[0])

            pool.submit(serve)
            try:
                yield
            finally:
                door.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def superseded_vm(self) -> Iterator[subprocess.Popen[bytes]]:
        """What its unit runs, with the unit's rights."""
        (rights,) = re.findall(r"^CapabilityBoundingSet=(.*)$", UNIT.read_text(), re.MULTILINE)
        bound = ",".join(["-all", *(f"+{right.removeprefix('CAP_').lower()}" for right in rights.split())])
        command = ["setpriv", f"--bounding-set={bound}", "--no-new-privs", sys.executable, "-m", "vcrecovery.primary"]
        environment = {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"}
        with (
            self.sshd(),
            (self.folder / "vm.log").open("wb") as log,
            subprocess.Popen(
                [*command, "superseded", "--settings", str(self.settings)], env=environment, stdout=log, stderr=log
            ) as process,
        ):
            try:
                yield process
            finally:
                process.kill()

    def in_the_jail(self, command: str) -> dict[str, Any]:
        words = [sys.executable, "-c", IN_THE_JAIL, str(self.state), NAME, command, ATTEMPTS]
        found = json.loads(run(words, timeout=60).stdout)
        assert isinstance(found, dict)
        return found


@pytest.fixture(scope="module", params=KINDS)
def site(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Site]:
    with started(Site(tmp_path_factory.mktemp("fetch"), request.param)) as site:
        site.make_vm()
        site.lxd.server.start(NAME, timeout=60)
        site.serve_from(ACTIVE)
        yield site
        site.orders.withdraw(NAME)


def test_every_file_comes_back_and_the_machine_stays_itself(site: Site) -> None:
    tree = site.tree
    own = ("etc/hostname", "srv/own/data", "boot/vmlinuz", "var/lib/vcrecovery/heartbeat")
    for path in own:
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text("of the VM")
    (tree / "var/spool/dev").mkdir(parents=True)
    os.mknod(tree / "var/spool/dev/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    before = as_seen(tree)
    # What the VM has forgotten or changed since, and what the standby has.
    for path in ("usr/bin/su", "usr/bin/ping", "srv/data/fifo", "srv/data/socket", "srv/data/link", "srv/data/again"):
        (tree / path).unlink()
    (tree / "srv/data/file").write_text("older")
    (tree / "srv/gone/deep").mkdir(parents=True)
    (tree / "srv/gone/deep/file").touch()
    site.inside(
        "cd /srv/data; echo two >file; echo new >new; chown 33:44 new; chmod 2750 new; mknod pipe p;"
        "dd if=/dev/zero of=sparse bs=1 count=1 seek=50000000 2>/dev/null"
    )

    with site.superseded_vm() as vm:
        told = Told(site, vm)
        site.orders.begin(NAME, EPOCH)
        # It asks every 10 s until there is an order.
        told.wait(lambda report: report.epoch == 0 and report.boot != "")
        copy = site.orders.give(NAME, EPOCH, Order.COPY)
        told.wait(lambda report: report.has_done(copy))
        assert (site.folder / "half-copied").exists()
        site.inside("echo three >/srv/data/file")
        site.lxd.server.stop(NAME, timeout=60)
        last = site.orders.give(NAME, EPOCH, Order.LAST)
        told.wait(lambda report: report.has_done(last))
        assert not (site.folder / "half-copied").exists()
        site.serve_from(STANDBY)
        site.orders.withdraw(NAME)
        assert vm.wait(timeout=60) == 0, (site.folder / "vm.log").read_text()
    assert (site.folder / "systemctl").read_text() == "daemon-reload\n--no-block default\n"

    data = tree / "srv/data"
    assert (data / "file").read_text() == "three\n"
    after = as_seen(tree)
    for path, seen in before.items():
        # How many links a folder has depends on what the standby has in it.
        count = 3 if (tree / path[1:]).is_dir() else 4
        assert after[path][:count] == seen[:count], path
    assert (data / "socket").is_socket()
    assert (data / "pipe").is_fifo()
    assert after["/srv/data/new"] == (33, 44, "2750", 1)
    assert not (tree / "srv/gone").exists()
    assert [(tree / path).read_text() for path in own] == ["of the VM"] * 4
    assert (tree / "var/spool/dev/null").is_char_device()
    assert {"user:1234:r--", "group:99:rw-"} <= set(acl(data / "file"))
    assert "default:user:77:rwx" in acl(data)
    assert os.getxattr(data / "file", "user.note") == b"hello"
    assert (data / "file").samefile(data / "again")
    assert (data / "sparse").stat().st_size == 50_000_001
    assert (data / "sparse").stat().st_blocks < 1000
    # Of revision 2: it holds for the machine's root.
    assert os.getxattr(tree / "usr/bin/ping", "security.capability")[3] == 2
    assert (tree / "bin/busybox").stat().st_uid == 0


class Told:
    """What the VM says; it may not end meanwhile."""

    def __init__(self, site: Site, vm: subprocess.Popen[bytes]) -> None:
        self._site, self._vm = site, vm

    def wait(self, condition: Callable[[Report], bool]) -> None:
        def come() -> bool:
            assert self._vm.poll() is None, (self._site.folder / "vm.log").read_text()
            report = self._site.report()
            assert report is None or not report.error, report
            return report is not None and condition(report)

        wait_for(come, "the VM's report")


def test_in_the_jail_of_a_reader_nothing_can_be_written(site: Site) -> None:
    site.serve_from(ACTIVE)
    site.orders.give(NAME, EPOCH, Order.LAST)
    null = site.standby / "null"
    os.mknod(null, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    null.chmod(0o666)
    try:
        found = site.in_the_jail(READING)
    finally:
        null.unlink()
        site.orders.withdraw(NAME)
    assert {key: found[key] for key in ("write", "append", "unlink", "chmod")} == dict.fromkeys(
        ("write", "append", "unlink", "chmod"), "EROFS"
    )
    assert (found["remount"], found["device"], found["run"]) == ("EPERM", "EACCES", "EACCES")
    # It reads every file, and has no other right (DAC_OVERRIDE, where nothing can be written).
    assert (found["shadow"], found["rights"]) == ("done", [1])
    assert set(found["outside"]) <= {"bin", "lib", "lib64", "sbin", "standby", "usr"}


def test_in_the_jail_of_a_writer_nothing_can_be_run(site: Site) -> None:
    site.serve_from(STANDBY)
    found = site.in_the_jail(WRITING)
    assert (found["write"], found["remount"], found["run"]) == ("done", "EPERM", "EACCES")
    # A container's own root can make none; where it is this machine's, the sync brings them.
    assert found["node"] == ("done" if site.kind != SHIFTED else "EPERM")
    assert 21 not in found["rights"]
