"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from pathlib import Path

from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.run import LabError, run

_NOT_KNOWN = "not known"


def described() -> dict[str, str]:
    """What is the same for every benchmark; the accelerator is said by those that use one."""
    return {
        "CPU": f"{_field('/proc/cpuinfo', 'model name')}, {os.cpu_count()} cores",
        "memory": f"{_gibibytes(_field('/proc/meminfo', 'MemTotal'))} GiB",
        "kernel": platform.release(),
        "system": _field("/etc/os-release", "PRETTY_NAME", "=").strip('"'),
        "LXD": _version("lxd", "--version"),
        "libvirt": _version("virsh", "--version"),
        "QEMU": _version("qemu-system-x86_64", "--version"),
        "rsync": _version("rsync", "--version"),
    }


def commit() -> str:
    """Of this checkout; it says so if files of it are changed."""
    try:
        head = run(["git", "-C", CHECKOUT, "rev-parse", "--short=12", "HEAD"], timeout=30).stdout.strip()
        changed = run(["git", "-C", CHECKOUT, "status", "--porcelain", "-uno"], timeout=60).stdout.strip()
    except LabError:
        return _NOT_KNOWN
    return f"{head}, with changes" if changed else head


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def _field(file: str, name: str, separator: str = ":") -> str:
    try:
        text = Path(file).read_text()
    except OSError:
        return _NOT_KNOWN
    found = re.search(rf"^{re.escape(name)}\s*{separator}\s*(.*)$", text, re.MULTILINE)
    return found[1].strip() if found else _NOT_KNOWN


def _gibibytes(kibibytes: str) -> str:
    number = kibibytes.partition(" ")[0]
    return f"{int(number) / 2**20:.0f}" if number.isdigit() else _NOT_KNOWN


def _version(*command: str) -> str:
    try:
        printed = run(command, timeout=60).stdout
    except LabError:
        return _NOT_KNOWN
    found = re.search(r"\d+(\.\d+)+", printed)
    return found[0] if found else _NOT_KNOWN
