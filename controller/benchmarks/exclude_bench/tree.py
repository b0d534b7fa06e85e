"""Writes, copies and changes trees of many small files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence, Set
from pathlib import Path

_FILE_BYTES = 200


class TreeWriter:
    """Makes paths below a root, and never follows a symlink out of it: every parent is a directory it made."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._prefix = os.fsencode(root)
        self._directories = {b""}
        self._others: set[bytes] = set()

    def adopt(self) -> None:
        """Takes what is there for its own."""
        for path, is_directory in live_paths(self.root):
            (self._directories if is_directory else self._others).add(path)

    def directory(self, path: bytes) -> None:
        """Makes a directory and those above it."""
        missing = []
        while path not in self._directories:
            missing.append(path)
            path = path.rpartition(b"/")[0]
        for one in reversed(missing):
            os.mkdir(self._prefix + one)
            self._directories.add(one)

    def file(self, path: bytes, content: bytes = b"") -> None:
        """Makes a file, unless there is something."""
        if self._is_new(path):
            descriptor = os.open(self._prefix + path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                os.write(descriptor, content)
            finally:
                os.close(descriptor)

    def link(self, path: bytes, target: bytes) -> None:
        """Makes a symlink, unless there is something."""
        if self._is_new(path):
            os.symlink(target, self._prefix + path)

    def _is_new(self, path: bytes) -> bool:
        if path in self._directories or path in self._others:
            return False
        self.directory(path.rpartition(b"/")[0])
        self._others.add(path)
        return True


def data_files(writer: TreeWriter, count: int, per_directory: int = 50) -> list[bytes]:
    """A service's data: `count` small files below /srv/data."""
    paths = []
    for number in range(count):
        directory = number // per_directory
        path = b"/srv/data/%02x/%d/record-%d.json" % (directory % 64, directory, number)
        writer.file(path, _content(number, 0))
        paths.append(path)
    return paths


def every_nth_changed(roots: Sequence[Path], paths: Sequence[bytes], count: int, turn: int) -> None:
    """Gives `count` of the paths, other ones at each turn, a new content in the roots, which share their inodes.

    New files take the old ones' places: copies that were linked to these, not synced, keep the old content.
    """
    step = len(paths) / count
    first, *others = (os.fsencode(root) for root in roots)
    for number in range(count):
        path = paths[(int(number * step) + turn) % len(paths)]
        _replaced(first + path, _content(number, turn + 1))
        for other in others:
            os.link(first + path, other + path + b".new")
            os.replace(other + path + b".new", other + path)


def linked_copy(source: Path, target: Path, left_out: Set[bytes]) -> None:
    """Copies a tree with hard links instead of files, without the paths left out and what is below these."""
    place, destination = os.fsencode(source), os.fsencode(target)
    os.mkdir(destination)
    directories = [b""]
    for directory in directories:
        with os.scandir(place + directory) as entries:
            for entry in entries:
                path = directory + b"/" + entry.name
                if path in left_out:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    os.mkdir(destination + path)
                    directories.append(path)
                else:
                    os.link(entry.path, destination + path, follow_symlinks=False)
    # Now that nothing is made in them any more; rsync would set these times, which is not what is measured.
    for directory in directories:
        status = os.stat(place + directory)
        os.utime(destination + directory, ns=(status.st_atime_ns, status.st_mtime_ns))
        os.chmod(destination + directory, stat.S_IMODE(status.st_mode))


def live_paths(root: Path) -> Iterator[tuple[bytes, bool]]:
    """Every path below the root, each directory before what is in it, and whether it is a directory."""
    place = os.fsencode(root)
    pending = [b""]
    for directory in pending:
        with os.scandir(place + directory) as entries:
            for entry in entries:
                path = directory + b"/" + entry.name
                is_directory = entry.is_dir(follow_symlinks=False)
                if is_directory:
                    pending.append(path)
                yield path, is_directory


def _replaced(path: bytes, content: bytes) -> None:
    with open(path + b".new", "wb") as stream:
        stream.write(content)
    os.replace(path + b".new", path)


def _content(number: int, turn: int) -> bytes:
    return (b'{"record": %d, "turn": %d}\n' % (number, turn)).ljust(_FILE_BYTES, b" ")
