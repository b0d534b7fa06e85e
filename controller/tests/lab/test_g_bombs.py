"""What a hostile primary sends that is large: more names, more bytes and more attributes than anybody has.

Its neighbour's session, container and next sync go on, as in `test_g_attacks`.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from .attacked_site import ATTACKED, NEIGHBOUR, AttackedSite, attacked_site, ends, status_of
from .hostile_rsync import PROTOCOL, TOP, Entry
from .mapped_site import KINDS
from .waiting import wait_for

pytestmark = pytest.mark.lab

MIB = 1 << 20


@pytest.fixture(scope="module", params=KINDS)
def made(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[AttackedSite]:
    with attacked_site(tmp_path_factory.mktemp("bombs"), request.param) as site:
        yield site


@pytest.fixture
def site(made: AttackedSite) -> Iterator[AttackedSite]:
    with made.nothing_else_changes():
        yield made


def taken(tree: Path) -> int:
    """Bytes on the disk."""
    return 512 * sum(path.lstat().st_blocks for path in tree.rglob("*"))


def test_a_list_of_a_million_names_takes_memory_that_is_counted(site: AttackedSite) -> None:
    """The sender says nothing more, so the receiver keeps all of them."""
    plain = Entry(b"0" * 7, mode=0o100644).encoded()
    cut = plain.index(b"0" * 7)
    before, after = plain[:cut], plain[cut + 7 :]
    with site.opened() as process:
        to = ends(process)
        to.write(struct.pack("<i", PROTOCOL))
        to.flush()
        for thousand in range(1000):
            to.write(b"".join(b"%b%07d%b" % (before, 1000 * thousand + one, after) for one in range(1000)))
        to.flush()
        (pid,) = site.rsyncs()
        held = int(status_of(pid)["VmHWM"].split()[0]) // 1024
        # About 50 bytes for each.
        assert 20 < held < 300, f"{held} MiB"
        done = site.sync(NEIGHBOUR)
        assert done.returncode == 0, done.stderr
    wait_for(lambda: site.rsyncs() == [], "its end")
    assert not (site.tree / "0000000").exists()


def test_many_small_files_come_and_go_beside_a_neighbour(site: AttackedSite) -> None:
    source = site.folder / "source-many"
    for number in range(40):
        (source / f"many/{number:02}").mkdir(parents=True)
        for name in range(500):
            (source / f"many/{number:02}/{name:03}").write_bytes(b"x")
    with subprocess.Popen(site.rsync(ATTACKED, source=source)) as sending:
        wait_for(site.rsyncs, "its session")
        done = site.sync(NEIGHBOUR)
        assert done.returncode == 0, done.stderr
        assert sending.wait(100) == 0
    assert sum(1 for path in (site.tree / "many").rglob("*") if path.is_file()) == 20_000
    assert site.sync(ATTACKED, "--delete").returncode == 0
    assert not (site.tree / "many").exists()
    shutil.rmtree(source)


def test_a_sparse_file_takes_what_it_holds_and_one_that_claims_an_exabyte_nothing(site: AttackedSite) -> None:
    source = site.folder / "source-sparse"
    source.mkdir(exist_ok=True)
    with (source / "sparse").open("wb") as file:
        file.truncate(2048 * MIB)
    # The same with compression, so that few bytes on the wire become many.
    for options in ([], ["--compress", "--ignore-times"]):
        assert site.sync(ATTACKED, *options, source=source).returncode == 0
        assert (site.tree / "sparse").stat().st_size == 2048 * MIB
        assert taken(site.tree) < 64 * MIB
    site.sent([TOP, Entry(b"claims", b"little", size=1 << 60)])
    # One of a terabyte goes on for long. Nobody waits for it, and it ends with its sender.
    with (source / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with subprocess.Popen(site.rsync(ATTACKED, source=source)) as sending:
        wait_for(lambda: any(site.tree.glob(".sparse.*")), "its beginning")
        done = site.sync(NEIGHBOUR)
        assert done.returncode == 0, done.stderr
        assert sending.poll() is None
        sending.kill()
    wait_for(lambda: site.rsyncs() == [], "its end")
    assert taken(site.tree) < 64 * MIB
    assert site.sync(ATTACKED, "--delete").returncode == 0
    assert not (site.tree / "sparse").exists()


def test_attributes_and_acls_as_large_as_they_can_be(site: AttackedSite) -> None:
    source = site.folder / "source-attributes"
    (source / "bomb").mkdir(parents=True, exist_ok=True)
    set_here = 0
    for number in range(50):
        path = source / f"bomb/{number}"
        path.write_text("x")
        for name in range(200):
            try:
                os.setxattr(path, f"user.{name:0200}", b"y" * 3000)
                set_here += 1
            except OSError:
                break
    acl = source / "acl"
    acl.write_text("x")
    users = ",".join(f"u:{user}:r" for user in range(10_000, 10_400))
    subprocess.run(["setfacl", "-m", users, acl], timeout=30, check=True)
    assert set_here >= 50
    # What the file system takes is there; what it does not is told as an error of single files.
    assert site.sync(ATTACKED, source=source).returncode in (0, 23)
    assert len(list((site.tree / "bomb").iterdir())) == 50
    assert site.sync(ATTACKED, "--delete").returncode == 0
    assert not (site.tree / "bomb").exists()
