"""Writes cpio archives in the "newc" format, which is what the kernel takes as an initramfs."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One member of an archive; `mode` includes the file type."""

    name: str
    mode: int
    data: bytes = b""
    device: tuple[int, int] = (0, 0)


def directory(name: str) -> Entry:
    """A directory."""
    return Entry(name, stat.S_IFDIR | 0o755)


def file(name: str, data: bytes, permissions: int = 0o644) -> Entry:
    """A regular file."""
    return Entry(name, stat.S_IFREG | permissions, data)


def character_device(name: str, major: int, minor: int) -> Entry:
    """A character device."""
    return Entry(name, stat.S_IFCHR | 0o600, device=(major, minor))


def archive(entries: Iterable[Entry]) -> bytes:
    """The whole archive: the entries in their order, and the trailer."""
    members = [*entries, Entry("TRAILER!!!", 0)]
    return b"".join(_member(inode, entry) for inode, entry in enumerate(members, start=1))


def _member(inode: int, entry: Entry) -> bytes:
    name = entry.name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    # ino mode uid gid nlink mtime filesize devmajor devminor rdevmajor rdevminor namesize check
    fields = (inode, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, *entry.device, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return _padded(header + name) + _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
