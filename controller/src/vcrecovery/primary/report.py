"""What the last reconcile did, as a small file in the synced tree, so that the secondary can show it."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Optional

NAME = "reconcile.json"


def progress_sentence(sent: int, files: int, percent: int, remaining: Optional[float]) -> str:
    """How far a transfer has come: bytes, files, percent, and the seconds that are left if that is known."""
    left = "" if remaining is None else f", about {remaining:.0f} s left"
    return f"{sent / 1e6:.1f} MB, {files} files, {percent} %{left}"


def write_report(state_dir: str, report: Dict[str, Any]) -> None:
    """Replaces the report at once."""
    os.makedirs(state_dir, mode=0o755, exist_ok=True)
    path = os.path.join(state_dir, NAME)
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(report, file)
        file.write("\n")
    os.replace(path + ".new", path)


def read_report(state_dir: str) -> Dict[str, Any]:
    """The last report; empty if there is none that can be read."""
    try:
        with open(os.path.join(state_dir, NAME), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
