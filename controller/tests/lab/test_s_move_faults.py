"""A move when the network between the secondaries, a disk or the destination fails. Two real LXDs, a BIND."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from vcrecovery.core.episode import Step
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import Instance, copies
from vcrecovery.drivers.lxd.copies import INCOMPLETE_KEY
from vcrecovery.errors import ExitCode, ExternalError
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.spare_loop import see_to
from vcrecovery.plan.load import load_plan
from vcrecovery.standby.container import ACTIVE, ROLE_KEY
from vcrecovery.standby.copies import COPIED_KEY
from vcrecovery_lab.run import run

from .moving_site import begun_move
from .small_site import INIT, SERVE
from .two_secondaries import SPARE_BRIDGE, TwoSecondaries, two_secondaries
from .waiting import wait_for

pytestmark = pytest.mark.lab

COPIED, LAST = "copied", "last"
#: A connection between the two is dead once so many bytes have gone: less than a copy of what is large here.
DEAD_AFTER, LARGE = 6_000_000, 16
#: There is room for one of those in it, and for what a copy leaves free.
SMALL_POOL = "400m"
#: Where it is the spare's, it serves only when told so.
WAITS = f"""\
/bin/busybox ip route | /bin/busybox grep -q 10.211.12 && until [ -e /go ]; do /bin/busybox sleep 0.1; done
{SERVE}"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoSecondaries]:
    with two_secondaries(tmp_path_factory.mktemp("cut"), [COPIED, LAST]) as site:
        yield site


@pytest.fixture
def site(made: TwoSecondaries) -> Iterator[TwoSecondaries]:
    """The hypervisor has failed; the standbys serve."""
    made.write_plan()
    for name in made.names:
        done = made.vcrecovery("failover", name)
        assert done.returncode == 0, (done.stdout, done.stderr)
    yield made
    made.back()


def is_large(site: TwoSecondaries, name: str) -> None:
    (site.rootfs(name) / "www/large").write_bytes(os.urandom(LARGE << 20))


def waits_on_the_spare(site: TwoSecondaries, name: str) -> None:
    (site.rootfs(name) / "sbin/init").write_text(INIT.format(serve=WAITS))


@contextmanager
def cut(site: TwoSecondaries, *when: str) -> Iterator[None]:
    """The way on which the spare's LXD fetches from the other one; the controller's own to both goes on."""
    port = site.lxd.lxc("config", "get", "core.https_address").strip().rpartition(":")[2]
    rules = [["INPUT", "-i", "lo", "-p", "tcp", f"--{side}port", port, *when, "-j", "DROP"] for side in ("s", "d")]
    for rule in rules:
        run(["iptables", "--wait", "--insert", *rule], timeout=30)
    try:
        yield
    finally:
        for rule in rules:
            run(["iptables", "--wait", "--delete", *rule], timeout=30)


def test_it_is_cut_during_a_copy_during_the_last_one_and_after(site: TwoSecondaries) -> None:
    """Two moves at once, since LXD takes 30 s to notice it."""
    is_large(site, COPIED)
    waits_on_the_spare(site, LAST)
    ends = f"/bin/busybox dd if=/dev/urandom of=/www/rest bs=1M count={LARGE}; exit 0"
    init = site.rootfs(LAST) / "sbin/init"
    init.write_text(init.read_text().replace("exit 0", ends))
    site.lxd.lxc("restart", "--force", LAST)
    wait_for(lambda: site.pages(LAST) == (LAST, None), "its page")
    dead = ("-m", "connbytes", "--connbytes", f"{DEAD_AFTER}:", "--connbytes-dir", "both", "--connbytes-mode", "bytes")
    with cut(site, *dead):
        moves = {name: begun_move(site, name, Step.COPY) for name in (COPIED, LAST)}
        for name, move in moves.items():
            failed = move.result(300)
            assert failed.returncode == ExitCode.EXTERNAL, (failed.stdout, failed.stderr)
            (line,) = failed.stderr.splitlines()
            assert f"the copy of {name} from sec1 to sec2 was cut off: sec2 has lost sec1" in line
            assert ("serves where it was" in line) == (name == LAST)
            assert site.pages(name) == (name, None)
            assert site.page(name) == name
    tried = [episode["service"] for episode in site.episodes() if Step.LAST_COPY in str(episode)]
    assert tried == [LAST]
    done = site.vcrecovery("move", COPIED, "--to", "sec2")
    assert done.returncode == 0, (done.stdout, done.stderr)
    # All is there when it starts.
    move = begun_move(site, LAST, Step.PROBE)
    with cut(site):
        (rootfs_on_spare(site, LAST) / "go").touch()
        done = move.result(300)
    assert done.returncode == 0, (done.stdout, done.stderr)
    for name, large in ((COPIED, "large"), (LAST, "rest")):
        assert site.pages(name) == (None, name)
        assert site.page(name) == name
        there = rootfs_on_spare(site, name) / "www" / large
        assert there.read_bytes() == (site.rootfs(name) / "www" / large).read_bytes()


def on_spare(site: TwoSecondaries) -> Instance:
    found = site.on_spare(COPIED)
    assert found is not None
    return found


def rootfs_on_spare(site: TwoSecondaries, name: str) -> Path:
    return site.spare_lxd.server.rootfs(SPARE_BRIDGE, name)


def test_a_copy_that_stands_still_is_given_up(site: TwoSecondaries, monkeypatch: pytest.MonkeyPatch) -> None:
    """The network is well: the program that sends hangs, as on a disk that does not answer.

    LXD lets nobody end its copy. As long as that might go on, nothing is started where it would write.
    """
    is_large(site, COPIED)
    for name, seconds in (("STILL_FOR", 3.0), ("EARLIER_STILL_FOR", 1.0), ("_ENDS_WITHIN", 1.0)):
        monkeypatch.setattr(copies, name, seconds)
    env = Environment(load_plan(site.plan), SystemClock())
    # That of a copy that was cut off hangs for as long as TCP sends again.
    earlier, hung = senders(site), set[int]()

    def sends() -> bool:
        """One that hangs before it has connected to its LXD for 10 s is never heard again: that copy would not end."""
        hung.update(pid for pid in senders(site) - earlier if has_written(pid) > 1 << 20)
        return bool(hung)

    with ThreadPoolExecutor(1) as pool:
        copying = pool.submit(see_to, env, COPIED)
        wait_for(sends, "rsync", poll=0.005)
        for pid in hung:
            os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(ExternalError, match="from sec1 to sec2 stands still: no byte has moved for 3 s"):
                copying.result(120)
            assert site.pages(COPIED) == (COPIED, None)
            for _ in range(2):
                with pytest.raises(ExternalError, match="an earlier copy of copied to sec2 has not ended: LXD there"):
                    see_to(env, COPIED)
            site.lxd.lxc("stop", "--force", COPIED)
            forced = site.vcrecovery("failover", COPIED, "--to", "sec2", "--force")
            assert (forced.returncode, "LXD on sec2 still fills its copy (operation " in forced.stderr) == (
                ExitCode.REFUSED,
                True,
            ), forced.stderr
            assert site.pages(COPIED) == (None, None)
            site.lxd.lxc("start", COPIED)
        finally:
            for pid in hung:
                os.kill(pid, signal.SIGCONT)
    done = site.vcrecovery("move", COPIED, "--to", "sec2")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert site.pages(COPIED) == (None, COPIED)


def senders(site: TwoSecondaries) -> set[int]:
    """The rsync with which the LXD of sec1 sends files."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (place / "cmdline").read_bytes().split(b"\0")
            if words[0].endswith(b"rsync") and str(site.lxd.folder).encode() in b" ".join(words):
                found.add(int(place.name))
    return found


# -- a disk that is full -----------------------------------------------------------------------------------------------


@pytest.fixture
def ballast(site: TwoSecondaries) -> Iterator[Path]:
    """A file in the pool of sec2, which is small; nothing is in it yet."""
    pool = site.spare_lxd.folder / "storage-pools" / SPARE_BRIDGE
    run(["mount", "-t", "tmpfs", "-o", f"size={SMALL_POOL},mode=0711", "tmpfs", pool], timeout=30)
    for inside in ("containers", "containers-snapshots"):
        (pool / inside).mkdir(mode=0o711)
    try:
        yield pool / "ballast"
    finally:
        site.spare_lxd.stop_all()
        if site.on_spare(COPIED) is not None:
            site.spare_lxd.server.delete(COPIED)
        run(["umount", pool], timeout=30)


def leave_free(ballast: Path, free: int) -> None:
    found = os.statvfs(ballast.parent)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, found.f_bavail * found.f_frsize - free)


@pytest.mark.parametrize("was_whole", [False, True])
def test_the_disk_of_the_destination_is_full(site: TwoSecondaries, ballast: Path, was_whole: bool) -> None:
    leave_free(ballast, 64 << 20)
    refused = site.vcrecovery("move", COPIED, "--to", "sec2")
    assert refused.returncode == ExitCode.REFUSED, (refused.stdout, refused.stderr)
    (line,) = refused.stderr.splitlines()
    assert re.search(rf"pool {SPARE_BRIDGE} of sec2: its copy needs [0-9.]+ MB for copies and 268.4 MB to", line), line
    assert "67.1 MB are free" in line
    ballast.unlink()
    see_to(Environment(load_plan(site.plan), SystemClock()), COPIED)
    if not was_whole:
        # As one whose first copy was cut off.
        spare, cut_off = site.spare_lxd.server, {COPIED_KEY: "", INCOMPLETE_KEY: "true"}
        spare.reconfigure(lambda: spare.must_get(COPIED), lambda _found: cut_off)
    is_large(site, COPIED)
    leave_free(ballast, 4 << 20)
    full = site.vcrecovery("move", COPIED, "--to", "sec2")
    assert full.returncode == ExitCode.EXTERNAL, (full.stdout, full.stderr)
    (line,) = full.stderr.splitlines()
    assert re.search(
        rf"pool {SPARE_BRIDGE} of sec2 is full: the copy of {COPIED} takes [0-9.]+ MB, and .* are free", line
    )
    assert (site.on_spare(COPIED) is not None) == was_whole
    assert site.pages(COPIED) == (COPIED, None)
    assert site.instance(COPIED).config[ROLE_KEY] == ACTIVE
    ballast.unlink()
    done = site.vcrecovery("move", COPIED, "--to", "sec2")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert site.pages(COPIED) == (None, COPIED)


# -- the destination dies after the start ------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [Step.START, pytest.param(Step.PROBE, marks=pytest.mark.at_length)])
def test_the_destination_dies_after_the_start(site: TwoSecondaries, step: Step) -> None:
    """Nobody knows whether it has served there: it serves nowhere until that is off for certain, or back."""
    waits_on_the_spare(site, COPIED)
    # It is asked for that long once its secondary has died.
    site.write_plan(**{COPIED: {"timeouts": {"ports": "20s"}}})
    move = begun_move(site, COPIED, step)
    wait_for(lambda: on_spare(site).running, "its start there")
    site.spare_lxd.lose_power()
    failed = move.result(300)
    assert failed.returncode == ExitCode.EXTERNAL, (failed.stdout, failed.stderr)
    assert f"nobody knows whether {COPIED} serves on sec2 by now" in failed.stderr
    words = ("failover", COPIED, "--to", "sec1", "--secondary-is-down", "sec2", "--force")
    assert f"`vcrecovery {' '.join(words)}`" in failed.stderr
    assert site.pages(COPIED) == (None, None)
    if step is Step.PROBE:
        done = site.vcrecovery(*words)
        assert done.returncode == 0, (done.stdout, done.stderr)
        site.spare_lxd.start()
    else:
        site.spare_lxd.start()
        again = site.vcrecovery("move", COPIED, "--to", "sec2")
        assert again.returncode == ExitCode.EXTERNAL, (again.stdout, again.stderr)
        assert "serves where it was" in again.stderr
    assert site.pages(COPIED) == (COPIED, None)
    assert site.page(COPIED) == COPIED
    assert on_spare(site).status == "Stopped"


# -- others at the same moment -----------------------------------------------------------------------------------------


def test_a_move_and_others_that_begin_at_the_same_moment(site: TwoSecondaries) -> None:
    move = ["move", COPIED, "--to"]
    others = [[*move, "sec2"], ["failover", COPIED, "--to", "sec1"], ["drill", COPIED], ["switchover", COPIED]]
    for number, other in enumerate(others):
        to = ("sec2", "sec1")[number % 2]
        commands = [
            subprocess.Popen(site.command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for words in ([*move, to], other)
        ]
        said = [command.communicate(timeout=200) for command in commands]
        for command, (_, err) in zip(commands, said, strict=True):
            assert command.returncode in (ExitCode.DONE, ExitCode.BUSY, ExitCode.REFUSED), err
            assert len(err.splitlines()) == (command.returncode != ExitCode.DONE), err
        if commands[0].returncode:
            assert commands[0].returncode == ExitCode.BUSY, said[0]
            done = site.vcrecovery(*move, to)
            assert done.returncode == 0, (done.stdout, done.stderr)
        assert site.pages(COPIED) == ((None, COPIED) if to == "sec2" else (COPIED, None))
        assert site.page(COPIED) == COPIED


def has_written(pid: int) -> int:
    """Bytes; 0 of a process that has gone."""
    with suppress(OSError):
        found = re.search(r"^wchar: (\d+)$", Path(f"/proc/{pid}/io").read_text(), re.MULTILINE)
        return int(found[1]) if found else 0
    return 0
