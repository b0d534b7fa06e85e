"""Whether the standby's files are the primary's: paths, kinds, contents, modes, owners, times, attributes, ACLs."""

from __future__ import annotations

import hashlib
import os
import stat
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

#: (kind, mode, owner, group, time, content, attributes)
Entry = tuple[Any, ...]
_ACLS = (b"system.posix_acl_access", b"system.posix_acl_default")
_NAMED = (0x02, 0x08)


def differences(tree: Path, rootfs: Path, folder: str, id_map: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each path below `folder`, itself included, that is not the same on both sides."""
    ours, theirs = entries(tree / folder, []), entries(rootfs / folder, id_map)
    found = []
    for path in sorted(ours.keys() | theirs.keys()):
        one, other = ours.get(path), theirs.get(path)
        if one != other:
            found.append(f"{path!r}: {one} on the primary, {other} in the standby")
    return found


def entries(top: Path, id_map: Sequence[Mapping[str, Any]]) -> dict[bytes, Entry]:
    """Everything below `top`, with owners as they are inside of `id_map`."""
    found: dict[bytes, Entry] = {}
    start = os.fsencode(top)
    pending = [start] if os.path.lexists(top) else []
    for path in pending:
        status = os.lstat(path)
        found[path[len(start) :]] = _entry(path, status, id_map)
        if stat.S_ISDIR(status.st_mode):
            pending += [path + b"/" + name for name in os.listdir(path)]  # noqa: PTH208
    return found


def _entry(path: bytes, status: os.stat_result, id_map: Sequence[Mapping[str, Any]]) -> Entry:
    content: bytes | str = ""
    if stat.S_ISREG(status.st_mode):
        with open(path, "rb") as file:  # noqa: PTH123
            content = hashlib.file_digest(file, "sha256").hexdigest()
    elif stat.S_ISLNK(status.st_mode):
        content = os.readlink(path)  # noqa: PTH115
    names = os.listxattr(path, follow_symlinks=False)
    attributes = {name: os.getxattr(path, name, follow_symlinks=False) for name in names}
    # rsync compares times by whole seconds, and a folder's changes there whenever something is put into it.
    changed = status.st_mtime_ns // 10**9 * 10**9 if stat.S_ISDIR(status.st_mode) else status.st_mtime_ns
    return (
        oct(status.st_mode),
        inside(status.st_uid, "Isuid", id_map),
        inside(status.st_gid, "Isgid", id_map),
        changed,
        content,
        tuple(sorted((name, _plain(name.encode(), value, id_map)) for name, value in attributes.items())),
    )


def inside(number: int, kind: str, id_map: Sequence[Mapping[str, Any]]) -> int:
    """An ID of the machine as the container sees it."""
    for entry in id_map:
        if entry.get(kind) and 0 <= number - entry["Hostid"] < entry["Maprange"]:
            return int(number - entry["Hostid"] + entry["Nsid"])
    return -number if id_map else number


def _plain(name: bytes, value: bytes, id_map: Sequence[Mapping[str, Any]]) -> Any:
    """An attribute's value without the shift of owners in it."""
    if name in _ACLS:
        found = []
        for tag, rights, number in struct.iter_unpack("<HHI", value[4:]):
            shifted = inside(number, "Isuid" if tag == _NAMED[0] else "Isgid", id_map) if tag in _NAMED else None
            found.append((tag, rights, shifted))
        return tuple(found)
    if name == b"security.capability":
        # The third version has the namespace's root at its end; the sets before are the same.
        return value[4:20].hex()
    return value.hex()
