"""The lists that are compared, each made from a root and package patterns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from vcrecovery.excludes import exclude_list, render
from vcrecovery.excludes.canonical import Canonical
from vcrecovery.excludes.dialects import lsyncd_pattern, rsync_pattern
from vcrecovery.excludes.dpkg import DpkgDatabase
from vcrecovery.excludes.select import selected

from .packages import directories_among
from .paper import every_file, optimised

OURS = "ours"
PAPER = "paper"
PAPER_RESOLVED = "paper, resolved"
NAIVE = "naive"
BY_HAND = "by hand"
KINDS = {
    OURS: "vcrecovery's list",
    PAPER: "the paper's algorithm as written: recorded paths, package lists only",
    PAPER_RESOLVED: "the same with each path resolved through the root's symlinks first",
    NAIVE: "every recorded file, resolved as well: as recorded, most of it would match nothing",
    BY_HAND: "the few lines that an administrator writes: whole directories, whatever else is in them",
}
#: In the order in which rsync and lsyncd are timed with them; the naive list takes longest.
TIMED = (OURS, PAPER, PAPER_RESOLVED, BY_HAND, NAIVE)
#: Where the kernel's packages are, as `ls` shows it. The list is not made from a package database.
_WRITTEN = (b"/boot", b"/lib/modules", b"/usr/src", b"/usr/lib/linux-kbuild-6.1", b"/etc/initramfs-tools")


@dataclass(frozen=True)
class Made:
    """The absolute paths of a list, and it as the file that rsync and lsyncd read."""

    paths: list[bytes]
    rsync: bytes
    lsyncd: bytes


def make(kind: str, root: Path, patterns: Sequence[str]) -> Made:
    """One list for all installed packages that the patterns name."""
    if kind == OURS:
        found = exclude_list(root, patterns)
        return Made(list(found.paths), render(found, "rsync"), render(found, "lsyncd"))
    paths = written_by_hand(root) if kind == BY_HAND else _recorded_lists(kind, root, patterns)
    return Made(paths, _lines(rsync_pattern(p, False) for p in paths), _lines(lsyncd_pattern(p) for p in paths))


def written_by_hand(root: Path) -> list[bytes]:
    """/lib is a symlink on a system with a merged /usr: whoever tries their list there writes /usr/lib/modules."""
    canonical = Canonical(os.fsencode(root))
    return sorted(canonical.path(path) for path in _WRITTEN)


def _recorded_lists(kind: str, root: Path, patterns: Sequence[str]) -> list[bytes]:
    # All read the database by the product's own reader: it is the algorithms that are compared.
    place = os.fsencode(root)
    database = DpkgDatabase(place)
    canonical = Canonical(place)
    unwanted = selected(database.packages, patterns)
    recorded: set[bytes] = set()
    directories: set[bytes] = set()
    for package in unwanted:
        lines = [line for line in database.recorded(package) if line not in (b"", b"/.")]
        directories |= directories_among(lines)
        if kind != PAPER:
            lines = [canonical.path(line) for line in lines]
            # Both spellings: /lib, the symlink, is a directory to the packages that record /lib/modules.
            directories |= directories_among(lines)
        recorded.update(lines)
    if kind == NAIVE:
        return every_file(recorded, directories)
    necessary: set[bytes] = set()
    for package in database.packages:
        if package not in unwanted:
            lines = [line for line in database.recorded(package) if line]
            necessary.update(lines if kind == PAPER else map(canonical.path, lines))
    return optimised(recorded, necessary, directories)


def _lines(patterns: Iterable[bytes]) -> bytes:
    return b"".join(pattern + b"\n" for pattern in patterns)
