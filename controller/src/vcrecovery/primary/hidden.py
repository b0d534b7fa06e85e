"""What the exclude list keeps out of the standby, as far as it is written without escapes."""

from __future__ import annotations

from typing import AbstractSet, Set, Tuple

#: What is hidden from the standby, and what each machine has of its own.
HIDDEN, OWN = b"H /", b"- /"


def hidden_paths(filter_file: str, rules: Tuple[bytes, ...] = (HIDDEN, OWN)) -> Set[bytes]:
    """Each from the tree's top on, with a slash before and none behind. OSError when there is no such file."""
    with open(filter_file, "rb") as file:
        return {line[2:].rstrip(b"/") for line in file.read().split(b"\n") if line.startswith(rules)}


def is_hidden(path: bytes, hidden: AbstractSet[bytes]) -> bool:
    """Whether it is one of them, or below one; `path` as they are."""
    while path and path not in hidden:
        path = path.rpartition(b"/")[0]
    return bool(path)
