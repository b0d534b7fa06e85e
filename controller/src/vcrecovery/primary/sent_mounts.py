"""Which file systems were mounted in the tree when it was last compared: at a shutdown some may be gone already."""

from __future__ import annotations

import os
from typing import Set

#: The machine's own mounts: to a unit that systemd confines by mounts, /home is one whether anything is mounted there.
_NOTE, _MOUNTS = "sent-mounts", "/proc/1/mountinfo"
#: What only this boot has; nothing of it is sent.
_NEVER_SENT = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/lib/vcrecovery")  # noqa: S108


def mount_points(source: str, mountinfo: str = _MOUNTS) -> Set[str]:
    """Below the tree, without those of the system's own file systems."""
    with open(mountinfo, encoding="utf-8", errors="surrogateescape") as file:
        found = {_plain(line.split(" ")[4]) for line in file if line.strip()}
    top = source.rstrip("/") + "/"
    own = [path for path in found if path.startswith(top) and path != top]
    return {path for path in own if not any(path == n or path.startswith(n + "/") for n in _NEVER_SENT)}


def note_mounts(run_dir: str, source: str) -> None:
    """Replaces the note at once."""
    path = os.path.join(run_dir, _NOTE)
    with open(path + ".new", "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write("".join(point + "\0" for point in sorted(mount_points(source))))
    os.replace(path + ".new", path)


def sent_mounts(run_dir: str) -> Set[str]:
    """Those of the last comparison; none where there was none in this boot."""
    try:
        with open(os.path.join(run_dir, _NOTE), encoding="utf-8", errors="surrogateescape") as file:
            return {point for point in file.read().split("\0") if point}
    except OSError:
        return set()


def _plain(text: str) -> str:
    """The kernel writes blanks and backslashes as octal numbers."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
