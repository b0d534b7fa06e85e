"""The machine's own package database and the files that it records, copied below a root."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import shutil
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from vcrecovery.excludes.canonical import Canonical
from vcrecovery.excludes.dpkg import DpkgDatabase

from .packages import DPKG, directories_among
from .tree import TreeWriter

_NAME = re.compile(rb"^Package: *(\S+)$", re.MULTILINE)
_ARCHITECTURE = re.compile(rb"^Architecture: *(\S+)$", re.MULTILINE)


def copy_database(root: Path, left_out: Sequence[str], limit: int | None) -> None:
    """Copies the machine's dpkg database, at most `limit` packages of it, without those that patterns name."""
    source, target = Path("/", DPKG), root / DPKG
    (target / "info").mkdir(parents=True)
    stanzas = (source / "status").read_bytes().strip(b"\n").split(b"\n\n")
    wanted = [text for text in stanzas if not _matches(_first(_NAME, text), left_out)][:limit]
    (target / "status").write_bytes(b"".join(text + b"\n\n" for text in wanted))
    for text in wanted:
        name, architecture = _first(_NAME, text), _first(_ARCHITECTURE, text)
        for file in (f"{name}.list", f"{name}:{architecture}.list"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copy(source / "info" / file, target / "info" / file)
    with contextlib.suppress(FileNotFoundError):
        shutil.copy(source / "diversions", target / "diversions")
    with contextlib.suppress(FileNotFoundError):
        shutil.copytree(source / "alternatives", target / "alternatives")


def lay_out(writer: TreeWriter) -> set[bytes]:
    """Makes what the root's database records, as small files; the paths that are not directories.

    Directories and symlinks are taken from the machine, as are the names that its own symlinks make of the
    recorded paths: so the tree has a merged /usr if the machine has one.
    """
    database = DpkgDatabase(os.fsencode(writer.root))
    machine = Canonical(b"/")
    recorded = {line for package in database.packages for line in database.recorded(package)} - {b"", b"/."}
    recorded |= {diversion.diverted for diversion in database.diversions}
    merged_usr(writer)
    directories = directories_among(recorded)
    files = set()
    for path in sorted(recorded):
        place = machine.path(path)
        kind, target = _on_machine(place)
        if kind == "link":
            writer.link(place, target)
        elif kind == "directory" or path in directories:
            writer.directory(place)
            continue
        else:
            writer.file(place)
        files.add(place)
    return files


def merged_usr(writer: TreeWriter) -> None:
    """The symlinks in the machine's root, such as /lib -> usr/lib, with the directories behind them."""
    for name in sorted(os.listdir(b"/")):
        kind, target = _on_machine(b"/" + name)
        if kind == "link" and target.startswith(b"usr/"):
            writer.directory(b"/" + target)
            writer.link(b"/" + name, target)


def canonical_on_machine(paths: Iterable[bytes]) -> list[bytes]:
    """The paths as the machine's own symlinks at the top make them."""
    machine = Canonical(b"/")
    return [machine.path(path) for path in paths]


def _on_machine(path: bytes) -> tuple[str, bytes]:
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "missing", b""
    if stat.S_ISLNK(mode):
        return "link", os.readlink(path)
    return ("directory" if stat.S_ISDIR(mode) else "file"), b""


def _first(field: re.Pattern[bytes], text: bytes) -> str:
    found = field.search(text)
    return os.fsdecode(found.group(1)) if found else ""


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
