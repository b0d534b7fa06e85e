"""The smallest system that a container boots: one busybox, and what it is to run."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path


def plant(top: Path, programs: Mapping[str, str], folders: Iterable[str] = ()) -> None:
    """`programs`: the text of each by its path, `sbin/init` among them. What is there already stays."""
    for inside in ("bin", "sbin", "var/lib/vcrecovery", *folders):
        (top / inside).mkdir(parents=True, exist_ok=True)
    if not (top / "bin/busybox").exists():
        shutil.copy2("/bin/busybox", top / "bin/busybox")
        (top / "bin/sh").symlink_to("busybox")
    for path, text in programs.items():
        (top / path).write_text(text)
        (top / path).chmod(0o755)


def stamp(top: Path, at: float) -> None:
    """With a heartbeat of then, as a sync of its primary brings it."""
    (top / "var/lib/vcrecovery/heartbeat").write_text(json.dumps({"at": at}) + "\n")


def give_away(top: Path) -> None:
    """To the root of the container, where LXD shifts owners on disk: what root here has put there."""
    owner = top.stat()
    for folder, folders, files in os.walk(top):
        for entry in (*folders, *files):
            if (path := Path(folder, entry)).lstat().st_uid == 0:
                os.lchown(path, owner.st_uid, owner.st_gid)
