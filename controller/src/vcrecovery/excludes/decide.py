"""Brings the parts together: from a root and a selection to what is excluded, and why."""

from __future__ import annotations

import os
from typing import Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Sequence, Set, Union

from .canonical import Canonical
from .database import Database, open_database
from .errors import ExcludeError
from .generated import Claim, alternative_links, claims, forced_paths
from .minimal import Minimal, minimal_paths
from .owners import Owners
from .packages import Package
from .readers import shown
from .rules import Rules, shipped_rules
from .select import selected

AnyPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]


class Decision(NamedTuple):
    """Everything that was decided, for the list and for its explanation."""

    root: bytes
    database: Database
    canonical: Canonical
    owners: Owners
    excluded: FrozenSet[Package]
    recorded: Set[bytes]
    generated: Dict[bytes, Claim]
    links: Set[bytes]
    forced: Set[bytes]
    candidates: Set[bytes]
    minimal: Minimal


def decide(
    root: AnyPath,
    packages: Sequence[str],
    keep: Sequence[str] = (),
    profile: Optional[str] = None,
    assume_owned: bool = False,
    rules: Optional[Rules] = None,
) -> Decision:
    """Reads the root's package database and its live files; changes nothing."""
    if not packages and profile is None:
        raise ExcludeError("nothing says what to exclude: name --packages, or a --profile")
    place = os.path.abspath(os.fsencode(root))
    if not os.path.isdir(place):
        raise ExcludeError(f"root {shown(place)} is not a directory: name the root of a system")
    rules = rules or shipped_rules()
    chosen = rules.profile(profile) if profile is not None else None
    database = open_database(place)
    tolerated = chosen.packages.get(database.backend, ()) if chosen else ()
    excluded = selected(database.packages, packages, keep, tolerated)

    canonical = Canonical(place)
    owners = Owners(database, canonical)
    records = owners.records(excluded)
    generated = claims(rules.generated, database.backend, database.packages, excluded, canonical)
    alternatives = [a for a in database.alternatives if any(canonical.path(c) in records.paths for c in a.choices)]
    links = alternative_links(alternatives, records.paths, canonical)
    wanted = (records.paths | set(generated) | links) - records.through
    kept = [package for package in database.packages if package not in excluded]
    others = owners.others(kept, wanted, directories=assume_owned)

    sole = wanted - others.paths
    # A choice that another package owns too is not excluded, and then neither are the links to it.
    links &= alternative_links(alternatives, sole, canonical) & sole
    forced = forced_paths(chosen.paths, canonical) if chosen else set()
    candidates = (sole & (records.paths | set(generated))) | links | forced
    return Decision(
        root=place,
        database=database,
        canonical=canonical,
        owners=owners,
        excluded=excluded,
        recorded=records.paths,
        generated=generated,
        links=links,
        forced=forced,
        candidates=candidates,
        minimal=minimal_paths(canonical, candidates, others.directories if assume_owned else None),
    )


def covering(path: bytes, listed: Iterable[bytes]) -> Optional[bytes]:
    """The listed path that is the path or above it."""
    paths = listed if isinstance(listed, (set, frozenset)) else set(listed)
    while path:
        if path in paths:
            return path
        path = path.rpartition(b"/")[0]
    return None


def labels(packages: Iterable[Package]) -> List[str]:
    """The packages' names with their architectures, sorted."""
    return sorted(package.label for package in packages)
