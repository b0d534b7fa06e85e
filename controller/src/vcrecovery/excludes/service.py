"""The whole list of one service: what its packages own, what the plan adds, and what is never synced."""

from __future__ import annotations

import os
from typing import Optional, Sequence

from . import exclude_list, render
from .dialects import lsyncd_pattern, rsync_pattern
from .errors import ExcludeError
from .files import AnyPath
from .identity import kept_out
from .rules import Rules


def service_rules(
    root: AnyPath,
    packages: Sequence[str],
    exclude: Sequence[str],
    host_keys: str,
    dialect: str,
    rules: Optional[Rules] = None,
) -> bytes:
    """The file for rsync or lsyncd. Raises ExcludeError, and gives no list, if anything cannot be read."""
    if dialect not in ("rsync", "lsyncd"):
        raise ExcludeError(f"there is no format {dialect!r} for a service: choose rsync or lsyncd")
    listed = render(exclude_list(root, packages, rules=rules), dialect) if packages else b""
    pattern = lsyncd_pattern if dialect == "lsyncd" else (lambda path: rsync_pattern(path, False))
    paths = b"".join(pattern(os.fsencode(path.rstrip("/"))) + b"\n" for path in exclude)
    never = b"".join(os.fsencode(path) + b"\n" for path in kept_out(host_keys))
    return never + paths + listed
