"""Attacks on the running receiver by a primary that is wholly in an attacker's hands, and by an rsync that is.

What counts is seen from outside: after each of them nothing beyond that one tree has changed, and its neighbour's
session, container and next sync go on.
"""

from __future__ import annotations

import ctypes
import fcntl
import itertools
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from vcrecovery.errors import ExitCode
from vcrecovery.transfer import sessions
from vcrecovery.transfer.places import PLACES
from vcrecovery_lab.pair.receiver import Receiver
from vcrecovery_lab.run import run

from .attacked_site import (
    ATTACKED,
    NEIGHBOUR,
    AttackedSite,
    attacked_site,
    container_init,
    ends,
    handle_of,
    listening,
    status_of,
)
from .hostile_rsync import COMMAND, RELATIVE, TOP, Entry, directory, link
from .mapped_site import KINDS, SHIFTED
from .meanwhile import all_along
from .taken_over_rsync import FILES, LEAVE, REACH
from .waiting import wait_for

pytestmark = pytest.mark.lab

#: Of the container's root: CHOWN, DAC_OVERRIDE, FOWNER, FSETID, SETGID, SETUID, MKNOD, SETFCAP.
RIGHTS_TO_WRITE = {0, 1, 3, 4, 6, 7, 27, 31}


@pytest.fixture(scope="module", params=KINDS)
def made(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[AttackedSite]:
    with attacked_site(tmp_path_factory.mktemp("attacks"), request.param) as site:
        yield site


@pytest.fixture
def site(made: AttackedSite) -> Iterator[AttackedSite]:
    with made.nothing_else_changes():
        yield made


# -- what a primary can send ------------------------------------------------------------------------------------------


def test_a_file_list_by_hand_leads_nowhere_else(site: AttackedSite) -> None:
    canary = os.fsencode(site.canary)
    up = b"../" * 12 + canary[1:]
    evil = b"by the attacker"
    for name in (up + b"/new", canary + b"/secret", b"d/../../" + up + b"/new"):
        assert site.sent([TOP, Entry(name, evil)]) != 0, name
    for name in (up + b"/secret", canary + b"/new"):
        assert site.sent([TOP, directory(name.rpartition(b"/")[0]), Entry(name, evil)], RELATIVE) != 0, name
    # A name twice: a link first, and a folder with files in its place.
    site.sent([TOP, link(b"place", canary), directory(b"place"), Entry(b"place/secret", evil)])
    site.sent([TOP, link(b"place", up), Entry(b"place/secret", evil)])
    site.sent([TOP, link(b"place", canary + b"/secret"), Entry(b"place", evil)])
    # The link is of an earlier session, and what comes is said to be in a folder of that name.
    assert site.sent([TOP, link(b"there", canary)]) == 0
    assert (site.tree / "there").is_symlink()
    site.sent([TOP, Entry(b"there/secret", evil), Entry(b"there/new", evil)], RELATIVE)
    # It means what it says: this sender is understood.
    assert site.sent([TOP, Entry(b"by hand", evil)]) == 0, site.said
    assert (site.tree / "by hand").read_bytes() == evil


def test_a_hard_link_to_a_file_outside_is_none(site: AttackedSite) -> None:
    secret = os.fsencode(site.canary / "secret")
    for target in (secret, b"../" * 12 + secret[1:]):
        site.sent([TOP, link(b"soft", target), Entry(b"soft-too", b"new", hard_link=7), Entry(b"too", hard_link=7)])
        # The link takes the place of a file that others are said to be.
        site.sent([TOP, Entry(b"first", b"x", hard_link=9), Entry(b"other", b"x", hard_link=9)])
        site.sent([TOP, link(b"first", target)])
        site.sent([TOP, Entry(b"first", b"evil", hard_link=9), Entry(b"other", b"evil", hard_link=9)])
    assert (site.tree / "other").read_bytes() == b"evil"


@contextmanager
def changing_places(one: Path, other: Path) -> Iterator[None]:
    """As fast as it can, as another session of the same attacker could at its best."""
    libc = ctypes.CDLL("libc.so.6", use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    with all_along(lambda: libc.renameat2(-100, names[0], -100, names[1], 2)):
        yield


def test_a_folder_that_changes_places_with_a_link_leads_nowhere_else(site: AttackedSite) -> None:
    names = ("folder", "secret", *(f"new-{number}" for number in range(20)))
    targets = (str(site.canary), "../" * 12 + str(site.canary)[1:])
    for race, target in zip(("race-1", "race-2"), targets, strict=True):
        source = site.folder / f"source-{race}"
        place, other = site.tree / race / "place", site.tree / race / "other"
        (source / race / "place").mkdir(parents=True)
        assert site.sync(ATTACKED, source=source).returncode == 0
        other.symlink_to(target)
        with changing_places(place, other):
            for number in range(2):
                for name in names:
                    (source / race / "place" / name).write_text(f"{target} {number}")
                site.sync(ATTACKED, "--ignore-times", source=source)
            above = [TOP, directory(race.encode()), directory(f"{race}/place".encode())]
            site.sent([*above, *(Entry(f"{race}/place/{name}".encode(), b"evil") for name in sorted(names))])
        # The race was run: whoever lost it has left something in the folder.
        assert any(list(folder.iterdir()) for folder in (place, other) if not folder.is_symlink())


def test_a_device_or_a_program_in_the_tree_means_nothing(site: AttackedSite) -> None:
    null, disk = (1, 3), (os.major(site.tree.stat().st_dev), os.minor(site.tree.stat().st_dev))
    site.sent([TOP, Entry(b"null", mode=stat.S_IFCHR | 0o666, device=null)])
    site.sent([TOP, Entry(b"disk", mode=stat.S_IFBLK | 0o666, device=disk)])
    site.sent([TOP, Entry(b"pipe", mode=stat.S_IFIFO | 0o666)])
    site.sent([TOP, Entry(b"su", b"\x7fELF", mode=stat.S_IFREG | 0o6755)])
    assert (site.tree / "pipe").is_fifo()
    assert (site.tree / "su").stat().st_mode & 0o6000 == 0o6000
    # A container's own root can make none; where it is this machine's, the sync brings them.
    assert (site.tree / "null").exists() == (site.kind != SHIFTED)
    # No user of the secondary comes near them.
    reached = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "stat", str(site.tree / "su")]
    assert subprocess.run(reached, capture_output=True, timeout=30, check=False).returncode != 0
    # A later session writes into none of them.
    for name in (b"null", b"disk", b"pipe"):
        site.sent([TOP, Entry(name, b"evil")])
    assert site.sync(ATTACKED).returncode == 0


ODD_NAMES = [
    b"x" * 255, b"\xff\xfe invalid \x80", b"line\nline\r", b"\x1b[2J\x07", b"-rf", b"--delete", b" ", b"...", b"*",
    b"%n", b"a;id", b"$(id)", "\u202etxt.exe".encode(), b".file.AbCdEf", b".~tmp~", b"\\#012",
]  # fmt: skip


def test_odd_names_arrive_as_they_are(site: AttackedSite) -> None:
    source = site.folder / "source-odd"
    names = [os.fsdecode(name) for name in ODD_NAMES]
    for name in names:
        (source / "odd" / name).mkdir(parents=True)
        (source / "odd" / name / name).write_bytes(os.fsencode(name))
    (source / "odd" / "/".join(["deep"] * 150)).mkdir(parents=True)
    first, again = (site.sync(ATTACKED, "--itemize-changes", source=source) for _ in range(2))
    assert first.returncode == again.returncode == 0, first.stderr
    assert again.stdout == ""
    arrived = site.tree / "odd"
    assert {path.name for path in arrived.iterdir()} == {*names, "deep"}
    for name in names:
        assert (arrived / name / name).read_bytes() == os.fsencode(name)
    # And they go.
    assert site.sync(ATTACKED, "--delete").returncode == 0
    assert not (site.tree / "odd").exists()


def test_what_the_receiver_reads_itself_is_a_small_file_or_nothing(site: AttackedSite) -> None:
    """The heartbeat is copied for LXD outside the jail, by the machine's root."""
    copied = site.tree.parent / "templates/vcrecovery-heartbeat"
    folder = [TOP, directory(b"var"), directory(b"var/lib"), directory(b"var/lib/vcrecovery")]
    name = b"var/lib/vcrecovery/heartbeat"
    secret = os.fsencode(site.canary / "secret")
    assert site.sent([*folder, Entry(name, b"{}")]) == 0, site.said
    assert site.sync(ATTACKED).returncode == 0
    assert copied.read_bytes() == b"{}"
    for entry in (
        link(name, secret),
        link(name, b"../" * 20 + secret[1:]),
        Entry(name, mode=stat.S_IFIFO | 0o666),
        Entry(name, b"x" * 100_000),
        directory(name),
    ):
        site.sent([*folder, entry])
        assert os.path.lexists(site.tree / os.fsdecode(name)), entry
        # The session after it reads that, before it removes it.
        assert site.sync(ATTACKED, "--delete").returncode == 0
        assert not copied.exists()
    # A folder above it leads elsewhere; there is such a file.
    site.sent([TOP, directory(b"var"), directory(b"var/lib"), link(b"var/lib/vcrecovery", os.fsencode(site.canary))])
    assert site.sync(ATTACKED).returncode == 0
    assert not copied.exists()


def test_noise_ends_the_session(site: AttackedSite) -> None:
    noise = random.Random(18)  # noqa: S311
    version = (29).to_bytes(4, "little")
    for said in (
        b"",
        b"GET / HTTP/1.1\r\n\r\n" * 100,
        b"\xff" * 5000,
        bytes(5000),
        noise.randbytes(5000),
        version + noise.randbytes(5000),
        # A name of two gigabytes; a file of less than nothing; the largest protocol.
        version + b"\x40\xff\xff\xff\x7f" + b"x" * 5000,
        version + b"\x40\x01\x00\x00\x00x" + b"\xff" * 5000,
        b"\xff\xff\xff\x7f" + bytes(5000),
    ):
        assert site.answered_noise(said) != 0, said[:20]
        assert site.in_session() == []


def test_sessions_that_say_nothing_are_few_are_ended_by_a_failover_and_hold_nobody_up(made: AttackedSite) -> None:
    site = made
    source = site.folder / "source-large"
    source.mkdir(exist_ok=True)
    (source / "large").write_bytes(random.Random(18).randbytes(2_000_000))  # noqa: S311
    with site.opened() as half_open, site.opened() as slow:
        ends(half_open).write((29).to_bytes(4, "little"))
        ends(half_open).flush()
        ends(slow).write(b"\x1d")
        ends(slow).flush()
        wait_for(lambda: len(site.rsyncs()) == 2, "two sessions")
        with (
            ExitStack() as silent,
            subprocess.Popen(site.rsync(NEIGHBOUR, "--bwlimit=1000", source=source)) as neighbour,
        ):
            opened = [silent.enter_context(site.opened()) for _ in range(PLACES + 2)]
            wait_for(lambda: [each.poll() for each in opened].count(ExitCode.EXTERNAL) == 4, "four without a place")
            wait_for(lambda: len(site.rsyncs()) == PLACES, "the sessions that have a place")
            ends(slow).write(b"\x00")
            ends(slow).flush()
            with sessions.take_over(site.state, ATTACKED, 30) as ended:
                assert ended == PLACES
                assert site.in_session() == [os.getpid()]
            assert (half_open.wait(30), slow.wait(30)) == (-signal.SIGKILL, -signal.SIGKILL)
            assert neighbour.wait(60) == 0
    (site.rootfs(NEIGHBOUR) / "large").unlink()


CROWD = 200


@pytest.fixture
def sshd(made: AttackedSite) -> Iterator[Receiver]:
    """The role's own, which knows each primary by its key and its address."""
    # Nobody else may write where its keys are.
    folder = Path(tempfile.mkdtemp(prefix="vcrt-", dir="/run"))
    try:
        server = Receiver(folder, made.state, folder / ATTACKED, ATTACKED)
        server.admit(folder / NEIGHBOUR, NEIGHBOUR, "127.0.0.2")
        server.start()
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder)


def ssh(server: Receiver, name: str, address: str) -> list[str]:
    said = {"HostName": "127.0.0.1", "User": "root", "Port": server.port, "BindAddress": address, "BatchMode": "yes",
            "IdentityFile": server.folder / name, "StrictHostKeyChecking": "no", "UserKnownHostsFile": "/dev/null",
            "LogLevel": "ERROR"}  # fmt: skip
    return ["ssh", "-F", "none", *(word for key, value in said.items() for word in ("-o", f"{key}={value}"))]


@contextmanager
def saying_nothing(server: Receiver) -> Iterator[None]:
    """So many connections of the attacked primary's address; whichever is closed is opened again."""
    over, opened = threading.Event(), dict[int, socket.socket]()

    def is_open(connection: socket.socket) -> bool:
        try:
            return connection.recv(1000, socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def keep_open() -> None:
        while not over.wait(0.05):
            for number in itertools.takewhile(lambda _: not over.is_set(), range(CROWD)):
                if number not in opened or not is_open(opened[number]):
                    with suppress(KeyError):
                        opened.pop(number).close()
                    with suppress(OSError):
                        opened[number] = socket.create_connection(("127.0.0.1", server.port), 30, ("127.0.0.1", 0))

    keeper = threading.Thread(target=keep_open)
    keeper.start()
    try:
        wait_for(lambda: len(opened) == CROWD, "so many connections")
        yield
    finally:
        over.set()
        keeper.join()
        for connection in opened.values():
            connection.close()


@pytest.mark.parametrize("made", [SHIFTED], indirect=True)
def test_a_crowd_of_one_primary_keeps_no_neighbour_out_of_sshd(made: AttackedSite, sshd: Receiver) -> None:
    def neighbour_syncs() -> None:
        (made.sources[NEIGHBOUR] / "file").write_text(os.urandom(8).hex())
        done = run(made.rsync(NEIGHBOUR, shell=ssh(sshd, NEIGHBOUR, "127.0.0.2")), timeout=100, check=False)
        assert done.returncode == 0, done.stderr

    with ExitStack() as calls:
        words = [*ssh(sshd, ATTACKED, "127.0.0.1"), "standby", COMMAND]
        for _ in range(CROWD):
            call = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            calls.enter_context(call)
            calls.callback(call.kill)
        neighbour_syncs()
        wait_for(lambda: len(made.rsyncs()) == PLACES, "its sessions")
        with saying_nothing(sshd):
            for _ in range(2):
                neighbour_syncs()
        assert len(made.rsyncs()) == PLACES


# -- what confines the rsync that runs --------------------------------------------------------------------------------


def rights(mask: str) -> set[int]:
    return {number for number in range(64) if int(mask, 16) >> number & 1}


def namespaces(pid: int | str) -> dict[str, str]:
    return {
        kind: str(Path(f"/proc/{pid}/ns/{kind}").readlink()) for kind in ("mnt", "net", "pid", "ipc", "uts", "user")
    }


def test_the_running_rsync_has_these_rights_and_no_more(site: AttackedSite) -> None:
    with site.opened():
        wait_for(site.rsyncs, "rsync")
        (pid,) = site.rsyncs()
        said = status_of(pid)
        (neighbour,) = site.rsyncs(NEIGHBOUR)
        own, others, machine = namespaces(pid), namespaces(neighbour), namespaces("self")
        mounted = {}
        for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines():
            mounted[line.split()[4]] = set(line.split()[5].split(","))
        files = {int(file.name): str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir()}
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        goes_first = Path(f"/proc/{pid}/oom_score_adj").read_text()

    assert rights(said["CapBnd"]) == rights(said["CapPrm"]) == rights(said["CapEff"]) == RIGHTS_TO_WRITE
    assert rights(said["CapAmb"]) == set()
    assert said["NoNewPrivs"] == "1"
    owner = site.tree.stat().st_uid
    assert said["Uid"].split() == [str(owner)] * 4
    assert said["Gid"].split() == [str(site.tree.stat().st_gid)] * 4
    assert said["Groups"] == "" or site.kind != SHIFTED
    # It is the first and only one of its namespace.
    assert said["NSpid"].split()[1:] == ["1"]
    shared = {kind for kind in own if own[kind] in (others[kind], machine[kind])}
    assert shared == (set() if site.kind == SHIFTED else {"user"})

    assert mounted.pop("/standby") >= {"rw", "nosuid", "nodev", "noexec"}
    assert set(mounted) >= {"/", "/usr"}
    for place, flags in mounted.items():
        assert flags >= {"ro", "nosuid", "nodev"}, place
    # Where memory is short.
    assert goes_first == "1000\n"
    # Its connection, and its hold on its session's lock.
    assert {name for number, name in files.items() if number > 2} == {str(sessions.lock_file(site.state, ATTACKED))}
    assert sorted(environment) == [b"", b"LC_ALL=C.UTF-8", b"PATH=/usr/bin:/bin"]


#: Mounts something below /usr, as some machines have it, where only what it starts sees that.
WITH_A_MOUNT = 'mount -t tmpfs below /usr/local && touch /usr/local/there && exec "$@"'


def test_what_is_mounted_below_usr_is_not_in_the_jail(site: AttackedSite) -> None:
    words = ["unshare", "--mount", "sh", "-c", WITH_A_MOUNT, "sh", *site.receiver(ATTACKED)]
    environment = {**os.environ, "SSH_ORIGINAL_COMMAND": COMMAND}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        try:
            wait_for(site.rsyncs, "rsync")
            (pid,) = site.rsyncs()
            assert not Path(f"/proc/{pid}/root/usr/local/there").exists()
            assert Path(f"/proc/{pid}/root/usr/bin/rsync").exists()
        finally:
            process.kill()


def test_a_session_ends_with_its_connection(site: AttackedSite) -> None:
    """sshd, or whoever has become impatient, ends the process that it has started."""
    with site.opened() as process:
        wait_for(site.rsyncs, "rsync")
        process.kill()
        wait_for(lambda: site.in_session() == [], "rsync's end")


# -- what somebody can do who has taken rsync over --------------------------------------------------------------------


def test_a_taken_over_rsync_reaches_no_file_outside(site: AttackedSite) -> None:
    secret = site.canary / "secret"
    in_its_own, found = site.taken_over(FILES, canary=str(secret), disk=site.tree.stat().st_dev, **handle_of(secret))
    assert set(found.pop("outside")) <= {"bin", "lib", "lib64", "sbin", "standby", "usr"}
    done = {name for name, how in {**in_its_own, **found}.items() if how == "done"}
    assert done == ({"make null", "make disk"} if site.kind != SHIFTED else set())
    assert (found["shadow"], found["canary"], found["canary by .."]) == ("ENOENT", "ENOENT", "ENOENT")
    assert (found["change of /usr"], found["change of /"], found["hard link"]) == ("EROFS", "EROFS", "EXDEV")
    assert (found["program in the tree"], found["canary by its inode"]) == ("EACCES", "EPERM")
    if site.kind != SHIFTED:
        assert (found["open null"], found["open disk"]) == ("EACCES", "EACCES")


def test_a_taken_over_rsync_reaches_no_process_and_no_network(site: AttackedSite) -> None:
    owner = site.tree.stat().st_uid
    as_owner = ["setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups", "sleep", "1000"]
    abstract = f"vcrt-{os.getpid()}"
    libc = ctypes.CDLL("libc.so.6", use_errno=True)
    key = 0x56435200 + os.getpid() % 256
    memory = libc.shmget(key, 4096, 0o1000 | 0o666)
    assert memory >= 0
    try:
        with (
            subprocess.Popen(as_owner) as bystander,
            listening(socket.AF_INET, ("127.0.0.1", 0)) as door,
            listening(socket.AF_UNIX, f"\0{abstract}"),
        ):
            try:
                wait_for(lambda: status_of(bystander.pid)["Uid"].split()[0] == str(owner), "the owner's process")
                (neighbour,) = site.rsyncs(NEIGHBOUR)
                init = container_init(site.rootfs(NEIGHBOUR))
                assert init is not None
                (found,) = site.taken_over(
                    REACH,
                    processes={"bystander": bystander.pid, "neighbour's rsync": neighbour, "its container": init},
                    port=door.getsockname()[1],
                    lxd=str(site.lxd.socket),
                    abstract=abstract,
                    memory=key,
                )
                assert bystander.poll() is None
            finally:
                bystander.kill()
    finally:
        libc.shmctl(memory, 0, None)
    processes = {name: how for name, how in found.items() if name.startswith(("end", "trace", "limit"))}
    assert processes == dict.fromkeys(processes, "ESRCH")
    assert len(processes) == 9
    assert {name: found[name] for name in found.keys() - processes.keys()} == {
        "port": "ENETUNREACH",
        "LXD": "ENOENT",
        "abstract socket": "ECONNREFUSED",
        "shared memory": "ENOENT",
    }


def test_a_taken_over_rsync_cannot_leave_its_session(site: AttackedSite) -> None:
    with site.leaving(LEAVE) as receiver:
        try:
            assert receiver.stdout is not None
            assert receiver.stdout.readline() == b"left\n"
            alive = site.tree / "alive"
            wait_for(lambda: alive.stat().st_size, "what it goes on to write")
            with sessions.take_over(site.state, ATTACKED, 30) as ended:
                assert ended == 1
                # Nobody writes any more: nobody has it open.
                with alive.open() as file:
                    fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            assert receiver.wait(30) == -signal.SIGKILL
        finally:
            receiver.kill()
