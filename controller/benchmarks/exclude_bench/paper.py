"""The paper's algorithm (section IV.A) as it is written, and the list that it replaced.

It is given what the paper does not mention: an answer from memory to who owns a path. It looks at package lists
alone, never at the live file system.
"""

from __future__ import annotations

from collections.abc import Iterable, Set


def optimised(unnecessary: Iterable[bytes], necessary: Set[bytes], directories: Set[bytes]) -> list[bytes]:
    """The excluded paths for the paths that unnecessary and necessary packages record.

    "The excluded directory" is one variable, as in the text: in dictionary order `/a-b` stands between `/a` and
    `/a/c`, so a directory `/a-b` makes the algorithm forget `/a` and list what is below it too.
    """
    listed: list[bytes] = []
    excluded_directory = b""
    for path in sorted(set(unnecessary)):
        if excluded_directory and path.startswith(excluded_directory + b"/"):
            continue
        if path in necessary:
            continue
        listed.append(path)
        if path in directories:
            excluded_directory = path
    return listed


def every_file(recorded: Iterable[bytes], directories: Set[bytes]) -> list[bytes]:
    """The naive list: every recorded path that is not a directory."""
    return sorted(set(recorded) - directories)
