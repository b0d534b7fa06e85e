"""The whole list of one service: what its packages own, what the plan adds, and what is never synced."""

from __future__ import annotations

import os
from typing import Dict, List, Optional, Sequence

from . import ExcludeList, exclude_list, render
from .canonical import Canonical
from .dialects import as_rsync_filter, lsyncd_pattern, rsync_pattern
from .errors import ExcludeError
from .list_file import AnyPath
from .machine_specific import kept_out
from .rules import Rules
from .selection import Selection

#: What a service's list can be written in: plain paths have no wildcards, and what is never synced needs one.
#: `rsync-filter` is for a sync with --delete: what packages own is hidden from it, so that copies of before go; what is
#: never synced is protected as well, since the standby has its own.
DIALECTS = ("rsync", "rsync-filter", "lsyncd")


def service_rules(
    root: AnyPath, selection: Selection, dialects: Sequence[str], rules: Optional[Rules] = None
) -> Dict[str, bytes]:
    """The file for each dialect. Raises ExcludeError, and gives no list, if anything cannot be read."""
    for dialect in dialects:
        if dialect not in DIALECTS:
            raise ExcludeError(f"there is no format {dialect!r} for a service: choose one of {', '.join(DIALECTS)}")
    listed = None
    if selection.packages or selection.profile is not None:
        listed = exclude_list(root, selection.packages, selection.keep, selection.profile, rules=rules)
    canonical = Canonical(os.fsencode(root))
    paths = _where_they_are(selection.paths, canonical)
    asked = {dialect: _patterns(dialect, paths, canonical) for dialect in dialects}
    return {dialect: _in_dialect(dialect, selection, asked[dialect], listed) for dialect in dialects}


def _patterns(dialect: str, paths: Sequence[bytes], canonical: Canonical) -> List[bytes]:
    if dialect != "lsyncd":
        return [rsync_pattern(path, False) for path in paths]
    # For lsyncd a name with a wildcard is a pattern. Where nothing has that name, such as /srv/*, it would only hide
    # files that are wanted, until the next comparison sends them.
    found = [(path, lsyncd_pattern(path)) for path in paths]
    return [pattern for path, pattern in found if pattern == path or os.path.lexists(canonical.live(path))]


def _where_they_are(paths: Sequence[str], canonical: Canonical) -> List[bytes]:
    """The paths as rsync and lsyncd come across them; of a symlink to a directory, that directory too."""
    found: Dict[bytes, None] = {}
    for path in paths:
        asked = os.fsencode("/" + path.strip("/"))
        directory = canonical.directory(asked)
        found[canonical.path(asked)] = None
        if directory and os.path.isdir(canonical.live(directory)):
            found[directory] = None
    return list(found)


def _in_dialect(dialect: str, selection: Selection, asked: List[bytes], listed: Optional[ExcludeList]) -> bytes:
    never = [os.fsencode(path) for path in kept_out(selection.host_keys)]
    never += asked
    if dialect == "rsync-filter":
        owned = as_rsync_filter(listed.paths, listed.directories) if listed else b""
        return b"".join(b"- " + pattern + b"\n" for pattern in never) + owned
    return b"".join(pattern + b"\n" for pattern in never) + (render(listed, dialect) if listed else b"")
