"""Which paths only excluded packages own."""

from __future__ import annotations

from typing import Iterable, List, NamedTuple, Sequence, Set

from .canonical import Canonical
from .packages import Diversion, Package, PackageDatabase


class Records(NamedTuple):
    """What the excluded packages record, in canonical paths."""

    paths: Set[bytes]
    through: Set[bytes]


class Others(NamedTuple):
    """What the other packages record, in canonical paths."""

    paths: Set[bytes]
    directories: Set[bytes]


class Owners:
    """Reads the lists of a database as the file system has their paths: resolved and diverted."""

    def __init__(self, database: PackageDatabase, canonical: Canonical) -> None:
        self._database = database
        self._canonical = canonical
        self._diversions: Sequence[Diversion] = [
            Diversion(canonical.path(d.original), canonical.path(d.diverted), d.owner) for d in database.diversions
        ]

    def records(self, packages: Iterable[Package]) -> Records:
        """All paths of the packages.

        Below /lib -> usr/lib, a package that records /lib and /lib/x owns /usr/lib/x, and the symlink /lib is
        in `through`: that a list goes through a symlink does not make the symlink its package's own.
        """
        paths: Set[bytes] = set()
        through: Set[bytes] = set()
        for package in packages:
            found, links = self._canonical.records(self._database.recorded(package))
            paths |= self._diverted(found, package)
            through |= links
        return Records(paths, through)

    def others(self, packages: Iterable[Package], wanted: Set[bytes], directories: bool) -> Others:
        """Which of the wanted paths the packages own; if asked, also each directory above any of their paths.

        Lists are read one by one and not kept, and only wanted paths are remembered: this is most of the
        database, and most of the time.
        """
        asked = wanted | {d.original for d in self._diversions}
        names = {path.rpartition(b"/")[2] for path in asked}
        paths: Set[bytes] = set()
        above: Set[bytes] = set()
        for package in packages:
            # Most of the time goes here. What a package that stays owns is no excluded one's, so a record that lacks
            # it does no harm, unless it is what keeps a directory from being assumed to be theirs.
            lines = self._database.recorded(package, checked=directories)
            found = self._diverted(self._canonical.records_among(lines, asked, names), package)
            paths |= found
            if directories:
                above |= self._canonical.directories_above(lines)
                above |= {path.rpartition(b"/")[0] for path in found}
        return Others(paths & wanted, _with_ancestors(above))

    def owners(self, path: bytes, packages: Iterable[Package]) -> List[Package]:
        """The packages that own one canonical path."""
        return [package for package in packages if self.others([package], {path}, directories=False).paths]

    def _diverted(self, paths: Set[bytes], package: Package) -> Set[bytes]:
        """The paths with the diversions of other packages applied."""
        moved = [d for d in self._diversions if d.original in paths and d.owner != package.name]
        for diversion in moved:
            paths.discard(diversion.original)
        paths.update(diversion.diverted for diversion in moved)
        return paths


def _with_ancestors(directories: Set[bytes]) -> Set[bytes]:
    found: Set[bytes] = set()
    for directory in directories:
        while directory and directory not in found:
            found.add(directory)
            directory = directory.rpartition(b"/")[0]
    return found
