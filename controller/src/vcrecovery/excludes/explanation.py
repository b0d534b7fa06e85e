"""Says in one sentence why a path is synced or not."""

from __future__ import annotations

import os
from typing import List

from .decide import Decision, covering, labels
from .packages import Package
from .readers import shown


def explanation(decision: Decision, path: bytes) -> str:
    """One sentence on a path of the root, which may be spelled through the root's symlinks."""
    path = b"/" + path.strip(b"/")
    canonical = decision.canonical.path(path)
    name = shown(path)
    if canonical != path:
        name += f" (which is {shown(canonical)})"
    listed = frozenset(decision.minimal.paths)
    cover = covering(canonical, listed)
    if not os.path.lexists(decision.canonical.live(canonical)):
        if cover is not None and cover != canonical:
            return f"{name} would not be synced, were it there: the directory {shown(cover)} is excluded."
        return f"{name} is not on the list: nothing is there."
    if cover is not None:
        return f"{name} is not synced: {_why_excluded(decision, canonical, cover)}."
    return f"{name} is synced: {_why_synced(decision, canonical)}."


def _why_excluded(decision: Decision, path: bytes, cover: bytes) -> str:
    inside = "" if path == cover else f", and lies in the excluded directory {shown(cover)}"
    if path in decision.forced:
        return f"the profile names it{inside}"
    if path in decision.links:
        return f"it is an alternatives link whose choices are all excluded{inside}"
    if path not in decision.candidates:
        return f"no package owns it, but it lies in {shown(cover)}, assumed to be the excluded packages' own"
    owners = decision.owners.owners(path, decision.excluded)
    if not owners and path in decision.generated:
        return f"a rule gives it to the excluded {_named(decision.generated[path].packages)}{inside}"
    if path in decision.minimal.directories:
        return f"only the excluded {_named(owners)} {_own(owners)} it, and all of its content is excluded"
    return f"only the excluded {_named(owners)} {_own(owners)} it{inside}"


def _why_synced(decision: Decision, path: bytes) -> str:
    kept = [package for package in decision.database.packages if package not in decision.excluded]
    owners = decision.owners.owners(path, kept)
    if owners:
        return f"{_named(owners)} {_own(owners)} it and {_are(owners)} not excluded"
    if path in decision.candidates:
        held = _first_kept(decision, path)
        return f"only excluded packages own it, but it holds {held}, which is not excluded"
    if path in decision.recorded:
        return "it is a symlink that stands for a directory of the excluded packages"
    return "no package owns it"


def _first_kept(decision: Decision, directory: bytes) -> str:
    listed = frozenset(decision.minimal.paths)
    pending = [directory]
    for current in pending:
        for entry in sorted(os.listdir(decision.canonical.live(current))):
            path = current + b"/" + entry
            if path not in decision.candidates:
                return shown(path)
            if path not in listed:
                pending.append(path)
    return "something of another package"


def _named(packages: List[Package]) -> str:
    names = labels(packages)
    if len(names) == 1:
        return "package " + names[0]
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return "packages " + ", ".join(names[:3]) + more


def _own(packages: List[Package]) -> str:
    return "owns" if len(packages) == 1 else "own"


def _are(packages: List[Package]) -> str:
    return "is" if len(packages) == 1 else "are"
