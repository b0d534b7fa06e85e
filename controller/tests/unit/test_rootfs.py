"""Writing into a tree that somebody else fills."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from vcrecovery.errors import ExternalError
from vcrecovery.plan.load import load_plan
from vcrecovery.standby.container import Changes, own_identity, secondary_of
from vcrecovery.transfer.rootfs import Rootfs, on_disk

MAP = [
    {"Isuid": True, "Isgid": False, "Hostid": 100000, "Nsid": 0, "Maprange": 65536},
    {"Isuid": False, "Isgid": True, "Hostid": 200000, "Nsid": 0, "Maprange": 65536},
]


@pytest.fixture
def tree(tmp_path: Path) -> Rootfs:
    (tmp_path / "root").mkdir()
    own = [
        {"Isuid": True, "Isgid": False, "Hostid": os.getuid(), "Nsid": 0, "Maprange": 1},
        {"Isuid": False, "Isgid": True, "Hostid": os.getgid(), "Nsid": 0, "Maprange": 1},
    ]
    return Rootfs(tmp_path / "root", own)


def test_writing_twice_changes_nothing(tree: Rootfs) -> None:
    assert tree.file("/etc/deep/file", b"x")
    assert not tree.file("/etc/deep/file", b"x")
    assert tree.file("/etc/deep/file", b"y")
    assert tree.read("/etc/deep/file") == b"y"
    assert tree.link("/etc/mask", "/dev/null")
    assert not tree.link("/etc/mask", "/dev/null")
    assert tree.folder("/run", 0o755)
    assert not tree.folder("/run", 0o755)
    # LXD leaves an empty container's /dev so.
    (tree.path / "run").chmod(0o644)
    assert tree.folder("/run", 0o755)
    assert not tree.folder("/run", 0o755)
    assert (tree.path / "run").stat().st_mode & 0o7777 == 0o755
    assert sorted(path.name for path in (tree.path / "etc").iterdir()) == ["deep", "mask"]


def test_reading_makes_nothing(tree: Rootfs) -> None:
    assert tree.read("/var/lib/vcrecovery/heartbeat") is None
    assert list(tree.path.iterdir()) == []


def test_no_link_is_followed(tree: Rootfs, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (tree.path / "etc").symlink_to(outside)
    with pytest.raises(ExternalError, match="not followed"):
        tree.file("/etc/hostname", b"web")
    assert tree.read("/etc/secret") is None
    (tree.path / "direct").symlink_to(outside / "secret")
    assert tree.read("/direct") is None
    assert tree.file("/direct", b"new")
    assert (outside / "secret").read_text() == "secret"
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]


def test_a_pipe_does_not_block_a_reader(tree: Rootfs) -> None:
    os.mkfifo(tree.path / "pipe")
    assert tree.read("/pipe") is None


def test_what_is_no_file_is_not_even_opened(tree: Rootfs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some devices do something as soon as they are opened: a watchdog restarts the machine later."""
    os.mkfifo(tree.path / "heartbeat")
    (tree.path / "file").write_bytes(b"content")
    opened: list[object] = []
    really = os.open

    def noting(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if not flags & os.O_PATH:
            opened.append(path)
        return really(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", noting)
    assert tree.read("/heartbeat") is None
    assert "heartbeat" not in opened
    assert tree.read("/file") == b"content"
    assert tree.read("/file", 3) == b"con"


def test_what_stands_in_the_way_of_a_new_file_is_not_written_to(tree: Rootfs) -> None:
    """The primary knows the name under which a file is made: it could be that of a disk."""
    (tree.path / "etc").mkdir()
    (tree.path / "etc/shadow").write_text("secret")
    (tree.path / "etc/.hostname.vcrecovery").hardlink_to(tree.path / "etc/shadow")
    assert tree.file("/etc/hostname", b"web")
    assert (tree.path / "etc/shadow").read_text() == "secret"
    assert tree.read("/etc/hostname") == b"web"
    assert sorted(path.name for path in (tree.path / "etc").iterdir()) == ["hostname", "shadow"]


def test_a_folder_in_the_way_is_named(tree: Rootfs) -> None:
    (tree.path / "etc/hostname").mkdir(parents=True)
    (tree.path / "etc/.machine-id.vcrecovery").mkdir()
    for inside in ("/etc/hostname", "/etc/machine-id"):
        with pytest.raises(ExternalError, match=rf"{inside} cannot be written: is a directory; see what its primary"):
            tree.file(inside, b"web")
    with pytest.raises(ExternalError, match="/etc/hostname cannot be written"):
        tree.link("/etc/hostname", "/dev/null")


def test_a_pipe_in_the_way_of_a_new_file_holds_nobody_up(tree: Rootfs) -> None:
    os.mkfifo(tree.path / ".file.vcrecovery")
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(tree.file("/file", b"new")), daemon=True)
    thread.start()
    thread.join(30)
    assert done == [True]
    assert tree.read("/file") == b"new"


def test_one_larger_than_memory_is_written_anew(tree: Rootfs) -> None:
    with (tree.path / "file").open("wb") as file:
        file.truncate(2**40)
    assert tree.file("/file", b"new")
    assert tree.read("/file") == b"new"


def test_a_primary_whose_identity_is_larger_than_memory(tree: Rootfs, plan_file: Path) -> None:
    own = "address: 10.20.0.10, host_keys: own"
    plan_file.write_text(plan_file.read_text().replace("address: 10.20.0.10", own))
    plan = load_plan(plan_file)
    service = plan.services["web"]
    for name in ("etc/machine-id", "etc/ssh/ssh_host_ed25519_key"):
        (tree.path / name).parent.mkdir(parents=True, exist_ok=True)
        with (tree.path / name).open("wb") as file:
            file.truncate(2**40)
    own_identity(tree, "web", service, secondary_of(plan, service), Changes())
    assert tree.read("/etc/hostname") == b"web\n"


def test_owners_are_mapped() -> None:
    assert on_disk(33, "Isuid", MAP) == 100033
    assert on_disk(33, "Isgid", MAP) == 200033
    assert on_disk(33, "Isuid", []) == 33
    with pytest.raises(ExternalError, match="no place for 70000"):
        on_disk(70000, "Isuid", MAP)
