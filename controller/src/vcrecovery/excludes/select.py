"""Chooses packages by exact names, `name:arch` and glob patterns."""

from __future__ import annotations

import difflib
import fnmatch
import re
from typing import FrozenSet, Iterable, Sequence, Set

from .errors import ExcludeError
from .packages import Package


def matching(pattern: str, packages: Iterable[Package]) -> Set[Package]:
    """The packages that one pattern names; a pattern with a colon is held against `name:arch`."""
    matches = re.compile(fnmatch.translate(pattern)).match
    if ":" in pattern:
        return {package for package in packages if matches(package.label)}
    return {package for package in packages if matches(package.name)}


def selected(
    packages: Sequence[Package],
    patterns: Iterable[str],
    keep: Iterable[str] = (),
    tolerated: Iterable[str] = (),
) -> FrozenSet[Package]:
    """The packages that `patterns` or `tolerated` name and `keep` does not.

    A pattern, or one of keep, that names nothing is an ExcludeError: a slip of the pen would otherwise change
    what is synced. Those of `tolerated` (a profile's) may name nothing.
    """
    chosen: Set[Package] = set()
    for pattern in patterns:
        chosen |= _matching_some(pattern, packages, "--packages")
    for pattern in tolerated:
        chosen |= matching(pattern, packages)
    for pattern in keep:
        chosen -= _matching_some(pattern, packages, "--keep")
    return frozenset(chosen)


def _matching_some(pattern: str, packages: Sequence[Package], option: str) -> Set[Package]:
    found = matching(pattern, packages)
    if not found:
        names = sorted({p.label if ":" in pattern else p.name for p in packages})
        near = difflib.get_close_matches(pattern.strip("*"), names, n=3, cutoff=0.5)
        hint = "did you mean " + ", ".join(near) + "?" if near else "list the packages with dpkg -l or rpm -qa"
        raise ExcludeError(f"{option} {pattern!r} matches no installed package: {hint}")
    return found
