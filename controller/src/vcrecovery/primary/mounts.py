"""What is mounted where, as the kernel tells it."""

from __future__ import annotations

import os
import re
from typing import Dict, NamedTuple

from .programs import ProgramError

#: Of this thread's mount namespace.
OWN = "/proc/thread-self/mountinfo"


class Mount(NamedTuple):
    """One line of mountinfo: `root` is the path inside the file system that `point` shows, `device` is MAJOR:MINOR.

    `options` are those of the file system, not of this mount of it.
    """

    id: int
    parent: int
    device: str
    root: str
    point: str
    kind: str
    source: str
    options: str = ""


def read_mounts(place: str = OWN) -> Dict[int, Mount]:
    """All that a mount namespace holds, by id, in the order in which they were made; some may be hidden by others."""
    with open(place, "rb") as file:
        lines = os.fsdecode(file.read()).split("\n")
    return {mount.id: mount for mount in map(_mount, filter(None, lines))}


def mount_of(path: str, mounts: Dict[int, Mount]) -> Mount:
    """The mount that one gets to by that path; ProgramError if there is no such path."""
    try:
        # O_PATH mounts nothing where an automounter waits.
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise ProgramError(f"{path}: {error.strerror}") from None
    try:
        with open(f"/proc/thread-self/fdinfo/{handle}", encoding="ascii") as file:
            number = int(file.read().partition("mnt_id:")[2].split()[0])
    finally:
        os.close(handle)
    if number not in mounts:
        raise ProgramError(f"{path}: its mount has come or gone just now; try again")
    return mounts[number]


def is_under(path: str, top: str) -> bool:
    """Whether the path is `top` or below it."""
    return path == top or path.startswith(top.rstrip("/") + "/")


def _mount(line: str) -> Mount:
    before, _, after = line.partition(" - ")
    number, parent, device, root, point = (plain(word) for word in before.split(" ")[:5])
    kind, source, options = (plain(word) for word in (*after.split(" "), "")[:3])
    return Mount(int(number), int(parent), device, root, point, kind, source, options)


def plain(word: str) -> str:
    """Blanks and the like are octal there."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), word)
