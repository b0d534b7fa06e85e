"""What faults between a primary and its standby do: the standby is the same in the end, and until then it is whole,
older, and known to be so."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from vcrecovery_lab.pair import process
from vcrecovery_lab.pair.compare import differences
from vcrecovery_lab.pair.pair import Pair, pair
from vcrecovery_lab.run import run
from vcrecovery_lab.stand_still import stand_still

from .conftest import Lab
from .waiting import wait_for

pytestmark = pytest.mark.lab

MB = 1_000_000
EVENTS = Path("/proc/sys/fs/inotify/max_queued_events")


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 300 MB."""
    image, mounted = folder / "disk.img", folder / "mounted"
    mounted.mkdir()
    with image.open("wb") as file:
        file.truncate(300 * 2**20)
    run(["mkfs.ext4", "-q", "-m", "0", "-N", "150000", image], timeout=60)
    run(["mount", "-o", "loop", image, mounted], timeout=30)
    try:
        (mounted / "lost+found").rmdir()
        (mounted / "pool").mkdir()
        yield mounted
    finally:
        run(["umount", mounted], timeout=60)
        image.unlink()


@pytest.fixture(scope="module")
def disk(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with small_disk(tmp_path_factory.mktemp("disk")) as mounted:
        yield mounted


@pytest.fixture(scope="module")
def made(disk: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    tree = tmp_path_factory.mktemp("tree")
    fill(tree / "srv")
    tree.chmod(0o755)
    with pair(tree, pool_source=disk / "pool") as made:
        made.primary.start()
        yield made


def fill(top: Path) -> None:
    """A little of everything."""
    for number in range(200):
        folder = top / f"data/{number % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"file {number}").write_text(f"{number}\n" * number)
    special = top / "special"
    special.mkdir()
    for name in ("attribute", "acl", "capability", "owner", "setuid", "old"):
        (special / name).write_text(name)
    os.setxattr(special / "attribute", "user.note", b"\x00kept\xff")
    run(["setfacl", "-m", "u:33:r,g:44:rw", special / "acl"], timeout=10)
    run(["setcap", "cap_net_raw+ep", special / "capability"], timeout=10)
    os.chown(special / "owner", 1234, 33)
    (special / "setuid").chmod(0o4755)
    os.utime(special / "old", ns=(10**18, 123456789))
    (special / "link").symlink_to("/etc/passwd")
    os.link(special / "old", special / "hard link")
    os.mkfifo(special / "pipe")


@pytest.fixture
def started(made: Pair) -> Iterator[Pair]:
    """The pair, at rest and the same on both sides; and so again after the test."""
    arrives(made)
    yield made
    made.primary.kill()
    made.primary.configure()
    for name in ("srv/big", "srv/many", "srv/loop", "srv/late", "www"):
        shutil.rmtree(made.primary.tree / name, ignore_errors=True)
    made.primary.start()


def unlike(pair: Pair) -> list[str]:
    with suppress(FileNotFoundError):  # rsync's scratch files come and go
        return differences(pair.primary.tree, pair.standby.rootfs, "srv", pair.standby.id_map())
    return ["changing"]


def arrives(pair: Pair, timeout: float = 120) -> None:
    """What the primary has now comes to be what the standby has, and the standby says that it has it."""
    now = time.time()
    deadline = time.monotonic() + timeout
    pair.wait_whole(timeout, since=now)
    try:
        wait_for(lambda: not unlike(pair), "the same on both sides", max(10.0, deadline - time.monotonic()))
    except AssertionError:
        raise AssertionError("\n".join([*unlike(pair)[:10], pair.primary.log.read_text()[-2000:]])) from None
    pair.wait_whole(60, since=now)


def write(pair: Pair, name: str, size: int) -> Path:
    """A new content in the place of the file's."""
    path = pair.primary.tree / "srv" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(os.urandom(size))
    return path


def slowly(pair: Pair, rate: int = 3000) -> None:
    """From here on everything is sent at `rate` KiB/s."""
    pair.primary.kill()
    pair.primary.configure(bandwidth=rate)
    pair.primary.start()
    arrives(pair)


def reconciled(pair: Pair, done: int) -> None:
    """Waits until a reconcile has ended, after so many that had begun before."""
    wait_for(lambda: pair.primary.reconciles > done and pair.primary.idle, "a reconcile")


def in_the_middle(pair: Pair) -> list[Path]:
    return list((pair.standby.rootfs / "srv/big").glob(".file.*"))


def last_written(pair: Pair) -> float:
    """When the last data of a file came of which there is a part; 0 if there is none."""
    with suppress(FileNotFoundError):  # it has come whole, or its session has ended
        return max((path.stat().st_mtime for path in in_the_middle(pair)), default=0.0)
    return 0.0


def test_the_secondary_is_away_for_a_while(started: Pair) -> None:
    started.receiver.stop()
    before = time.time()
    for number in range(100):
        write(started, f"late/{number % 40}", 1000)
        time.sleep(0.03)
    wait_for(lambda: (started.primary.queue or 0) >= 40, "a queue")
    fresh = started.standby.freshness()
    assert (fresh.synced_through or 0) <= before, "it says what it had when the secondary went"
    started.receiver.start()
    arrives(started)
    wait_for(lambda: (started.primary.queue or 0) < 10, "an empty queue")


def test_a_connection_is_cut_in_the_middle_of_a_file(started: Pair) -> None:
    path = write(started, "big/file", 10)
    arrives(started)
    slowly(started)
    old = path.read_bytes()
    write(started, "big/file", 10 * MB)
    wait_for(lambda: in_the_middle(started), "the first part of a file")
    started.receiver.cut()
    wait_for(lambda: not in_the_middle(started), "the end of that session")
    assert (started.standby.rootfs / "srv/big/file").read_bytes() == old
    arrives(started)


def test_a_reconcile_is_cut_and_tried_again(started: Pair) -> None:
    started.primary.kill()
    began = time.time()
    write(started, "big/file", 10 * MB)
    started.primary.configure(bandwidth=3000)
    started.primary.start()
    wait_for(lambda: in_the_middle(started), "the first part of a file")
    # The next try does not end by itself: a heartbeat that comes late on a busy machine still tells of the failure.
    started.primary.configure(bandwidth=50)
    started.receiver.cut()
    wait_for(lambda: started.primary.report.get("error"), "the failure")
    # The next heartbeat says that something is missing, the report why.
    wait_for(lambda: "exit status" in started.standby.freshness().detail, "the reason in the standby")
    fresh = started.standby.freshness()
    assert not fresh.whole
    assert (fresh.synced_through or 0) <= began
    assert "exit status" in str(started.standby.status()["standby"])
    # What has read its settings and connects after the cut would go on slowly.
    told = time.time()
    wait_for(lambda: last_written(started) > told, "the next try")
    started.primary.configure()
    started.receiver.cut()
    arrives(started)


def test_the_secondarys_disk_is_full(started: Pair, disk: Path) -> None:
    path = write(started, "big/file", 10)
    arrives(started)
    old = path.read_bytes()
    room = os.statvfs(disk)
    ballast = disk / "ballast"
    run(["fallocate", "-l", str(room.f_bavail * room.f_frsize - 2 * MB), ballast], timeout=30)
    began = time.time()
    try:
        write(started, "big/file", 10 * MB)
        started.primary.ask_for_reconcile()
        wait_for(lambda: "No space left" in (started.primary.report.get("error") or ""), "the reason on the primary")
        assert (started.standby.rootfs / "srv/big/file").read_bytes() == old
        fresh = started.standby.freshness()
        assert not fresh.whole or (fresh.synced_through or 0) <= began
    finally:
        ballast.unlink()
    arrives(started)


def test_the_primary_is_killed_in_the_middle_of_a_file(started: Pair) -> None:
    path = write(started, "big/file", 10)
    arrives(started)
    slowly(started)
    old = path.read_bytes()
    written = write(started, "big/file", 10 * MB).stat().st_mtime
    wait_for(lambda: in_the_middle(started), "the first part of a file")
    started.primary.kill()
    wait_for(lambda: not in_the_middle(started), "the end of that session")
    assert (started.standby.rootfs / "srv/big/file").read_bytes() == old
    assert (started.standby.freshness().synced_through or 0) <= written + 1.5
    started.primary.configure()
    started.primary.start()
    arrives(started)


def test_the_standby_claims_nothing_that_is_still_under_way(started: Pair) -> None:
    slowly(started)
    path = started.primary.tree / "www/file"  # rsync sends it after the heartbeat, in the order of names
    path.parent.mkdir()
    path.write_bytes(os.urandom(10 * MB))
    written = time.time()
    copy = started.standby.rootfs / "www/file"
    claimed = []

    def there() -> bool:
        fresh = started.standby.freshness()
        claimed.append(fresh.synced_through or 0)
        return copy.exists()

    wait_for(there, "the file")
    assert max(claimed[:-1]) <= written


@pytest.mark.timeout(900)
@pytest.mark.parametrize("many", [5_000, pytest.param(50_000, marks=pytest.mark.at_length)])
def test_many_files_at_once(started: Pair, many: int) -> None:
    for folder in range(5):
        top = started.primary.tree / f"srv/{many}/{folder}"
        top.mkdir(parents=True)
        for number in range(many // 5):
            (top / str(number)).touch()
    arrives(started, 600)


def test_a_file_is_rewritten_while_it_is_read(started: Pair) -> None:
    path = write(started, "loop/file", 2 * MB)
    ended = threading.Event()

    def rewrite() -> None:
        turn = 0
        while not ended.is_set():
            turn += 1
            path.write_bytes(bytes([turn % 256]) * (2 * MB))

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for _ in range(2):
            done = started.primary.reconciles
            started.primary.ask_for_reconcile()
            reconciled(started, done)
    finally:
        ended.set()
        writer.join()
    # rsync calls it an error if the file became shorter while it was read; then there is a further reconcile.
    arrives(started)


def test_a_file_that_changes_twice_within_a_second(started: Pair) -> None:
    path = write(started, "late/file", 100)
    os.utime(path, ns=(10**18, 10**18 + 100_000_000))
    arrives(started)
    write(started, "late/file", 100)
    os.utime(path, ns=(10**18, 10**18 + 600_000_000))
    arrives(started)


def test_the_kernels_queue_overflows(started: Pair) -> None:
    limit = EVENTS.read_text()
    started.primary.kill()
    EVENTS.write_text("50")
    try:
        # The limit is taken when a program asks for its queue.
        started.primary.start()
        arrives(started)
        write(started, "late/first", 10)
        arrives(started)
        assert started.primary.lsyncd is not None
        done, stopped = started.primary.reconciles, started.primary.lsyncd.pid
        stand_still(stopped)
        for number in range(500):
            write(started, f"late/{number}", 10)
        os.kill(stopped, signal.SIGCONT)
        wait_for(lambda: started.primary.reconciles > done, "a reconcile")
        assert "OVERFLOW" in started.primary.log.read_text()
        arrives(started)
    finally:
        EVENTS.write_text(limit)


def test_nothing_is_left_running_when_the_primary_is_killed(started: Pair) -> None:
    started.primary.kill()
    assert process.having(started.primary.folder) == []
