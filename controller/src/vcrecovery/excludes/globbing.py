"""Finds live paths by a pattern, inside a root."""

from __future__ import annotations

import fnmatch
import os
import re
from typing import List, Pattern

from .canonical import Canonical

_MAGIC = re.compile(rb"[*?[]")


def live_matches(canonical: Canonical, pattern: bytes) -> List[bytes]:
    """The canonical paths of the live files and directories that a pattern of `*`, `?` and `[...]` matches.

    Wildcards do not match a slash. Directories are resolved through the root's symlinks, the last name is
    not.
    """
    found = [b""]
    for name in pattern.strip(b"/").split(b"/"):
        directories = [canonical.directory(path) for path in found]
        if _MAGIC.search(name):
            matches = re.compile(fnmatch.translate(os.fsdecode(name))).match
            found = [
                directory + b"/" + entry
                for directory in directories
                for entry in _entries(canonical, directory)
                if matches(os.fsdecode(entry))
            ]
        else:
            found = [
                path
                for path in (directory + b"/" + name for directory in directories)
                if os.path.lexists(canonical.live(path))
            ]
    return found


def literal(text: str) -> str:
    """The pattern that matches only the text itself."""
    return re.sub(r"[*?[]", r"[\g<0>]", text)


def capturing(pattern: str) -> Pattern[str]:
    """An expression to `fullmatch` with a name; its groups are what each `*` of the pattern stands for."""
    escaped = re.sub(r"[^\w*?]", r"\\\g<0>", pattern)
    return re.compile(escaped.replace("?", ".").replace("*", "(.*)"))


def _entries(canonical: Canonical, directory: bytes) -> List[bytes]:
    try:
        return sorted(os.listdir(canonical.live(directory)))
    except OSError:
        return []
