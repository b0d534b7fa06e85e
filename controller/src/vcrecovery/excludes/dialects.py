r"""Writes a list for the program that reads it.

rsync (exclude-from file, patterns one per line)
    A pattern without `*`, `?` and `[` is compared as it is: a backslash is then a backslash. In a pattern
    with one of these a backslash escapes. A line ends at a newline or a carriage return; such a byte in a
    name is written as a class that excludes all other bytes, so that even these names are matched exactly.
    All patterns start with a slash, so that none reads as a comment (`#`, `;`) or as a rule (`+ `, `- `,
    `!`), and a directory ends with one.

lsyncd (`excludeFrom`)
    lsyncd 2.2 turns a pattern into a Lua pattern: `?`, `*` and `**` are wildcards, everything else stands for
    itself, and nothing escapes. It hands the same lines to rsync for its first run, which knows classes and
    escapes. A byte that one of the two takes for more than itself is written `?`, which both take for any one
    byte; so is a `$` at the end, from which lsyncd wrongly concludes that the pattern is complete, and a
    backslash in a pattern with a wildcard. A pattern with a `?` may match other names: `ambiguous_for_lsyncd`
    finds those that do. No pattern ends in a slash: lsyncd would not exclude what is below.
"""

from __future__ import annotations

import json
import os
import re
from typing import AbstractSet, Dict, Iterable, List

from .canonical import Canonical
from .decide import covering
from .errors import ExcludeError
from .globbing import live_matches
from .readers import shown

_RSYNC_WILD = re.compile(rb"[*?[\n\r]")
_RSYNC_ESCAPED: Dict[bytes, bytes] = {
    b"\n": b"[^\x01-\x09\x0b-\xff]",
    b"\r": b"[^\x01-\x0c\x0e-\xff]",
}
_LSYNCD_WILD = re.compile(rb"[*?[\n\r]|\$\Z")


def rsync_pattern(path: bytes, is_directory: bool) -> bytes:
    """The anchored pattern that rsync matches with this path and what is below it, and nothing else."""
    ending = b"/" if is_directory else b""
    if not _RSYNC_WILD.search(path):
        return path + ending
    escaped = re.sub(rb"[*?[\\\n\r]", lambda m: _RSYNC_ESCAPED.get(m.group(), b"\\" + m.group()), path)
    return escaped + ending


def lsyncd_pattern(path: bytes) -> bytes:
    """The anchored pattern that both lsyncd and rsync match with this path and what is below it."""
    if not _LSYNCD_WILD.search(path):
        return path
    return _LSYNCD_WILD.sub(b"?", path).replace(b"\\", b"?")


def ambiguous_for_lsyncd(paths: Iterable[bytes], canonical: Canonical) -> List[bytes]:
    """The paths whose lsyncd pattern also matches something live that the list does not exclude."""
    listed = frozenset(paths)
    found = []
    for path in listed:
        pattern = lsyncd_pattern(path)
        if b"?" in pattern and not all(covering(m, listed) for m in live_matches(canonical, pattern)):
            found.append(path)
    return sorted(found)


def as_rsync(paths: Iterable[bytes], directories: AbstractSet[bytes]) -> bytes:
    """An rsync exclude-from file."""
    return b"".join(rsync_pattern(path, path in directories) + b"\n" for path in paths)


def as_rsync_filter(paths: Iterable[bytes], directories: AbstractSet[bytes]) -> bytes:
    """An rsync filter file (`--filter='merge FILE'`) that hides the paths: with --delete, old copies go."""
    return b"".join(b"H " + rsync_pattern(path, path in directories) + b"\n" for path in paths)


def as_lsyncd(paths: Iterable[bytes], ambiguous: AbstractSet[bytes]) -> bytes:
    """An lsyncd excludeFrom file, without the paths that lsyncd cannot tell from others: these are synced."""
    patterns = sorted({lsyncd_pattern(path) for path in paths if path not in ambiguous})
    return b"".join(pattern + b"\n" for pattern in patterns)


def as_plain(paths: Iterable[bytes]) -> bytes:
    """One path per line; ExcludeError for a name with a newline, which would read as two."""
    lines = []
    for path in paths:
        if b"\n" in path:
            raise ExcludeError(f"plain format cannot hold {shown(path)}: use the format json")
        lines.append(path + b"\n")
    return b"".join(lines)


def as_json(paths: Iterable[bytes], directories: AbstractSet[bytes]) -> bytes:
    """A JSON array of {path, directory}; bytes that are not UTF-8 are lone surrogates (os.fsencode)."""
    entries = [{"path": os.fsdecode(path), "directory": path in directories} for path in paths]
    return (json.dumps(entries, indent=1) + "\n").encode("ascii")


#: What a dialect is asked for by name.
FORMATS = ("rsync", "lsyncd", "plain", "json")
