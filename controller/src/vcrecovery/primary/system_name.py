"""What a system is called when two are compared: files of one make no other work."""

from __future__ import annotations

import os
import shlex
from typing import Dict

_AT_MOST = 100


def system_of(os_release: str, machine: str) -> str:
    """Like `debian 12 x86_64`: of the text of an os-release file, and of the machine's own word for its processor."""
    values: Dict[str, str] = {}
    for line in os_release.splitlines():
        key, given, value = line.strip().partition("=")
        if given and key in ("ID", "VERSION_ID"):
            try:
                words = shlex.split(value)
            except ValueError:
                continue
            values[key] = words[0] if words else ""
    words = [values.get("ID") or "linux", values.get("VERSION_ID", ""), machine]
    return "".join(c for c in " ".join(word for word in words if word) if c.isprintable())[:_AT_MOST]


def own_system() -> str:
    """Of the machine that this runs on."""
    text = ""
    for path in ("/etc/os-release", "/usr/lib/os-release"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read(65536)
            break
        except OSError:
            continue
    return system_of(text, os.uname().machine)
