"""Recorded paths to the paths the file system has: through the root's own symlinks, never out of the root.

Inside this module and the core, a path is absolute in the root, and the root itself is the empty path.
"""

from __future__ import annotations

import os
import stat
from typing import Dict, List, Set, Tuple

from .errors import ExcludeError
from .readers import shown

_LONGEST_CHAIN = 40  # the kernel's own limit


class Canonical:
    """Resolves directories below one root and remembers every answer; reads nothing but symlinks."""

    def __init__(self, root: bytes) -> None:
        self._prefix = root.rstrip(b"/")
        self._resolved: Dict[bytes, bytes] = {b"": b""}
        self._missing: Set[bytes] = set()
        self._plain: Set[bytes] = {b""}
        self._aliases: Set[bytes] = set()
        self._depth = 0

    def live(self, path: bytes) -> bytes:
        """The path of the running system that a path in the root is."""
        return self._prefix + path or b"/"

    def directory(self, directory: bytes) -> bytes:
        """The canonical path of a directory: each of its symlinks followed, `..` stopping at the root.

        What does not exist stays as it is written. ExcludeError for a loop of symlinks.
        """
        known = self._resolved.get(directory)
        if known is not None:
            return known
        unknown = []
        while directory not in self._resolved:
            unknown.append(directory)
            directory = directory.rpartition(b"/")[0]
        for part in reversed(unknown):
            self._resolved[part] = self._step(part)
        return self._resolved[unknown[0]]

    def path(self, path: bytes) -> bytes:
        """The canonical path of a file: the directories resolved, the last name left as it is."""
        parent, _, name = path.rpartition(b"/")
        resolved = self.directory(parent)
        return path if resolved == parent else resolved + b"/" + name

    def records(self, lines: List[bytes]) -> Tuple[Set[bytes], Set[bytes]]:
        """All canonical paths that one package's list records, and the symlinks that it goes through."""
        aliased = self._aliased({line[: line.rfind(b"/")] for line in lines if line})
        found = self._resolved_lines(lines, aliased) if aliased else set(lines)
        found -= {b"", b"/", b"/."}
        return found, self._links_through(aliased)

    def records_among(self, lines: List[bytes], wanted: Set[bytes], names: Set[bytes]) -> Set[bytes]:
        """The paths of `wanted` that one package's list records, under whatever name.

        `names` holds the last part of each wanted path: only the few lines that end in one of them are examined.
        """
        lines = [line for line in lines if line.rpartition(b"/")[2] in names]
        aliased = self._aliased({line[: line.rfind(b"/")] for line in lines})
        return wanted & (self._resolved_lines(lines, aliased) if aliased else set(lines))

    def directories_above(self, lines: List[bytes]) -> Set[bytes]:
        """The canonical directories that hold the recorded paths, but not those further up."""
        return {self.directory(parent) for parent in {line[: line.rfind(b"/")] for line in lines if line}}

    def _aliased(self, parents: Set[bytes]) -> Set[bytes]:
        """Those of the directories that are elsewhere than recorded."""
        for parent in parents - self._plain - self._aliases:
            resolved = self.directory(parent)
            (self._plain if resolved == parent else self._aliases).add(parent)
        return parents & self._aliases

    def _links_through(self, aliased: Set[bytes]) -> Set[bytes]:
        links = set()
        seen: Set[bytes] = set()
        for directory in aliased:
            while directory and directory not in seen:
                seen.add(directory)
                if self.path(directory) != self.directory(directory):
                    links.add(self.path(directory))
                directory = directory.rpartition(b"/")[0]
        return links

    def _resolved_lines(self, lines: List[bytes], aliased: Set[bytes]) -> Set[bytes]:
        """The canonical paths of the lines, of which those in `aliased` directories have to be changed."""
        resolved = self._resolved
        return {
            resolved[line[:cut]] + line[cut:] if line[: (cut := line.rfind(b"/"))] in aliased else line
            for line in lines
        }

    def _step(self, directory: bytes) -> bytes:
        """Resolves a directory whose parent is resolved."""
        above, _, name = directory.rpartition(b"/")
        parent = self._resolved[above]
        path = directory if parent == above else parent + b"/" + name
        if parent in self._missing:
            self._missing.add(path)
            return path
        try:
            is_link = stat.S_ISLNK(os.lstat(self._prefix + path).st_mode)
            target = os.readlink(self._prefix + path) if is_link else b""
        except (FileNotFoundError, NotADirectoryError):
            self._missing.add(path)
            return path
        except OSError as error:
            raise ExcludeError(
                f"{shown(self.live(path))} cannot be examined ({error.strerror}): run as root, or repair it"
            ) from None
        return self._follow(path, target) if is_link else path

    def _follow(self, link: bytes, target: bytes) -> bytes:
        if self._depth >= _LONGEST_CHAIN:
            raise ExcludeError(f"symlink {shown(self.live(link))} leads in a loop: fix or remove it")
        self._depth += 1
        try:
            current = b"" if target.startswith(b"/") else link.rpartition(b"/")[0]
            for name in target.split(b"/"):
                if name == b"..":
                    current = current.rpartition(b"/")[0]
                elif name not in (b"", b"."):
                    current = self.directory(current + b"/" + name)
            return current
        finally:
            self._depth -= 1
