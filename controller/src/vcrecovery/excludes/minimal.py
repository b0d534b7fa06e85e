"""The core: the fewest paths whose subtrees are exactly what is excluded.

Excluded are the live files that only excluded packages own, and the live directories that only they own and
whose whole live content is excluded. That set holds everything below each of its directories. A path of it
whose parent is in it too is covered by the parent; every other one has to be on the list, because what lies
above it holds something that is not excluded. So the list of those is right, and none is shorter.
"""

from __future__ import annotations

import os
import stat
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Set

from .canonical import Canonical
from .errors import ExcludeError
from .readers import shown


class Minimal(NamedTuple):
    """The shortest list, sorted, and which of its paths are directories."""

    paths: List[bytes]
    directories: FrozenSet[bytes]


def minimal_paths(
    canonical: Canonical, candidates: Set[bytes], foreign_directories: Optional[Set[bytes]] = None
) -> Minimal:
    """The minimal list for the candidates: all paths that only excluded packages own.

    Walks the live file system only below candidates that are directories. With `foreign_directories`, the
    directories with something of another package below them, it does not walk at all where none of these
    lies: what no package owns there is taken for the excluded packages' own.
    """
    paths: List[bytes] = []
    directories: Set[bytes] = set()
    for top in candidates:
        if top.rpartition(b"/")[0] in candidates:
            continue
        mode = _mode(canonical, top)
        if mode is None:
            continue
        if not stat.S_ISDIR(mode):
            paths.append(top)
        elif foreign_directories is not None and top not in foreign_directories:
            paths.append(top)
            directories.add(top)
        else:
            _walk(canonical, top, candidates, foreign_directories, paths, directories)
    if foreign_directories is not None:
        # What a package owns may lie below a directory that nobody owns, in one that is assumed to be owned.
        paths = [path for path in paths if not _lies_in(path, directories)]
        directories.intersection_update(paths)
    return Minimal(sorted(paths), frozenset(directories))


def _walk(
    canonical: Canonical,
    top: bytes,
    candidates: Set[bytes],
    foreign_directories: Optional[Set[bytes]],
    paths: List[bytes],
    directories: Set[bytes],
) -> None:
    """Adds what is to be listed at or below one directory; no recursion, for trees of any depth."""
    excluded_files: Dict[bytes, List[bytes]] = {}
    excluded_directories: Dict[bytes, List[bytes]] = {}
    incomplete: Set[bytes] = set()
    pending = [top]
    for directory in pending:
        files: List[bytes] = []
        below: List[bytes] = []
        try:
            with os.scandir(canonical.live(directory)) as entries:
                for entry in entries:
                    path = directory + b"/" + entry.name
                    if path not in candidates:
                        incomplete.add(directory)
                    elif not entry.is_dir(follow_symlinks=False):
                        files.append(path)
                    else:
                        below.append(path)
        except FileNotFoundError:
            incomplete.add(directory)
        except OSError as error:
            raise ExcludeError(
                f"directory {shown(canonical.live(directory))} cannot be read ({error.strerror}): "
                f"run as root, or repair it"
            ) from None
        excluded_files[directory] = files
        excluded_directories[directory] = below
        if foreign_directories is None:
            pending.extend(below)
        else:
            incomplete.add(directory)
            pending.extend(path for path in below if path in foreign_directories)
    for directory in reversed(pending):
        if any(path in incomplete for path in excluded_directories[directory]):
            incomplete.add(directory)
    for directory in pending:
        if directory in incomplete:
            paths.extend(excluded_files[directory])
            whole = [path for path in excluded_directories[directory] if path not in incomplete]
            paths.extend(whole)
            directories.update(whole)
    if top not in incomplete:
        paths.append(top)
        directories.add(top)


def _lies_in(path: bytes, directories: Set[bytes]) -> bool:
    above = path.rpartition(b"/")[0]
    while above:
        if above in directories:
            return True
        above = above.rpartition(b"/")[0]
    return False


def _mode(canonical: Canonical, path: bytes) -> Optional[int]:
    try:
        return os.lstat(canonical.live(path)).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ExcludeError(
            f"{shown(canonical.live(path))} cannot be examined ({error.strerror}): run as root, or repair it"
        ) from None
