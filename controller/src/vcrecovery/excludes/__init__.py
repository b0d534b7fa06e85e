"""What a standby does not need: from package names to the shortest list of paths not to be synced.

This package also runs on primaries, shipped by Ansible: it uses nothing but Python 3.8 and itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import FrozenSet, Optional, Sequence, Tuple

from .decide import AnyPath, Decision, decide, labels
from .dialects import FORMATS, ambiguous_for_lsyncd, as_json, as_lsyncd, as_plain, as_rsync
from .errors import ExcludeError
from .explanation import explanation
from .list_file import would_change, write_if_changed
from .rules import Rules, rules_from_json, shipped_rules

__all__ = [
    "FORMATS",
    "ExcludeError",
    "ExcludeList",
    "Rules",
    "exclude_list",
    "explain",
    "render",
    "rules_from_json",
    "shipped_rules",
    "would_change",
    "write_if_changed",
]


@dataclass(frozen=True)
class ExcludeList:
    """The shortest list, and what it was made from.

    `paths` are absolute in the root, sorted, without a slash at the end; those in `directories` stand for
    all that is below them. `ambiguous` are the paths that lsyncd cannot tell from others. `recorded` is the
    number of paths that the excluded packages record, the length of a list that was not minimised.
    """

    paths: Tuple[bytes, ...]
    directories: FrozenSet[bytes]
    ambiguous: FrozenSet[bytes]
    packages: Tuple[str, ...]
    recorded: int


def exclude_list(
    root: AnyPath,
    packages: Sequence[str],
    keep: Sequence[str] = (),
    profile: Optional[str] = None,
    assume_owned: bool = False,
    rules: Optional[Rules] = None,
) -> ExcludeList:
    """The list for a root: `/`, or a directory with the file system of a standby.

    `packages` and `keep` are names, `name:arch` or patterns, each of which has to match; `profile` names a
    set of patterns, which need not. `assume_owned` gives what no package owns to the packages that own the
    directory. `rules` replaces the data shipped with this package. ExcludeError, and no list, if anything
    cannot be read.
    """
    decision = decide(root, packages, keep, profile, assume_owned, rules)
    return _list_of(decision)


def render(excludes: ExcludeList, dialect: str) -> bytes:
    """The list as a file in one of FORMATS."""
    if dialect == "rsync":
        return as_rsync(excludes.paths, excludes.directories)
    if dialect == "lsyncd":
        return as_lsyncd(excludes.paths, excludes.ambiguous)
    if dialect == "plain":
        return as_plain(excludes.paths)
    if dialect == "json":
        return as_json(excludes.paths, excludes.directories)
    raise ExcludeError(f"there is no format {dialect!r}: choose one of {', '.join(FORMATS)}")


def explain(
    root: AnyPath,
    path: bytes,
    packages: Sequence[str],
    keep: Sequence[str] = (),
    profile: Optional[str] = None,
    assume_owned: bool = False,
    rules: Optional[Rules] = None,
) -> str:
    """One sentence on why the list for these arguments has a path in or out."""
    return explanation(decide(root, packages, keep, profile, assume_owned, rules), path)


def _list_of(decision: Decision) -> ExcludeList:
    paths = decision.minimal.paths
    return ExcludeList(
        paths=tuple(paths),
        directories=decision.minimal.directories,
        ambiguous=frozenset(ambiguous_for_lsyncd(paths, decision.canonical)),
        packages=tuple(labels(decision.excluded)),
        recorded=len(decision.recorded),
    )
