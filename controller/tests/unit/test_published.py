"""The copy of a heartbeat that the receiver leaves for LXD to hand out: made from a tree that nobody trusts."""

from __future__ import annotations

from pathlib import Path

import pytest

from vcrecovery.transfer.heartbeat_copy import HEARTBEAT, TEMPLATE, publish, withdraw


@pytest.fixture
def rootfs(tmp_path: Path) -> Path:
    tree = tmp_path / "rootfs"
    (tree / HEARTBEAT[1:]).parent.mkdir(parents=True)
    return tree


def copy_of(rootfs: Path) -> bytes | None:
    copy = rootfs.parent / "templates" / TEMPLATE
    return copy.read_bytes() if copy.exists() else None


def test_the_copy_follows_the_heartbeat(rootfs: Path) -> None:
    heartbeat = rootfs / HEARTBEAT[1:]
    publish(rootfs)
    assert copy_of(rootfs) is None
    for content in (b"one", b"two"):
        heartbeat.write_bytes(content)
        publish(rootfs)
        assert copy_of(rootfs) == content
    heartbeat.unlink()
    publish(rootfs)
    assert copy_of(rootfs) is None
    assert list((rootfs.parent / "templates").iterdir()) == []


def test_files_from_elsewhere_have_none(rootfs: Path) -> None:
    withdraw(rootfs)
    (rootfs / HEARTBEAT[1:]).write_bytes(b"one")
    publish(rootfs)
    withdraw(rootfs)
    assert copy_of(rootfs) is None


@pytest.mark.parametrize("link", ["var/lib/vcrecovery", HEARTBEAT[1:]])
def test_no_link_of_the_tree_leads_to_a_file_of_this_machine(rootfs: Path, tmp_path: Path, link: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    secret = outside / "heartbeat"
    secret.write_text("secret")
    place = rootfs / link
    if place.exists():
        place.rmdir()
    place.symlink_to(outside if place.name == "vcrecovery" else secret)
    publish(rootfs)
    assert copy_of(rootfs) is None


def test_what_is_no_heartbeat_is_not_copied(rootfs: Path) -> None:
    (rootfs / HEARTBEAT[1:]).write_bytes(b"x" * 5000)
    publish(rootfs)
    assert copy_of(rootfs) is None


def test_one_larger_than_memory_is_not_read(rootfs: Path) -> None:
    with (rootfs / HEARTBEAT[1:]).open("wb") as heartbeat:
        heartbeat.truncate(2**40)
    publish(rootfs)
    assert copy_of(rootfs) is None


def test_what_stands_in_the_way_is_let_be(rootfs: Path) -> None:
    (rootfs / HEARTBEAT[1:]).write_bytes(b"one")
    (rootfs.parent / "templates").write_text("a file")
    publish(rootfs)
    withdraw(rootfs)
    assert (rootfs.parent / "templates").read_text() == "a file"
