"""What is mounted where, as the kernel tells it."""

from __future__ import annotations

import os
import re
from typing import Dict, NamedTuple

from .programs import ProgramError


class Mount(NamedTuple):
    """One line of mountinfo: `root` is the path inside the file system that `point` shows, `device` is MAJOR:MINOR."""

    id: int
    parent: int
    device: str
    root: str
    point: str
    kind: str
    source: str


def read_mounts() -> Dict[int, Mount]:
    """All that this thread's mount namespace holds, by id; some may be hidden by others."""
    with open("/proc/thread-self/mountinfo", "rb") as file:
        lines = os.fsdecode(file.read()).splitlines()
    return {mount.id: mount for mount in map(_mount, lines)}


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
    number, parent, device, root, point = (_plain(word) for word in before.split(" ")[:5])
    kind, source = (_plain(word) for word in after.split(" ")[:2])
    return Mount(int(number), int(parent), device, root, point, kind, source)


def _plain(word: str) -> str:
    """Blanks and the like are octal there."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), word)
