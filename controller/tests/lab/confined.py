"""What a unit of templates/ lets through of capabilities and system calls, for a program that no systemd starts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

from rendered_units import TEMPLATES, rendered

#: As systemd does it: what is not allowed fails with EPERM, and new privileges can be gained.
_FILTER = """\
import ctypes, json, os, sys
library = ctypes.CDLL("libseccomp.so.2")
library.seccomp_init.restype = ctypes.c_void_p
filter = ctypes.c_void_p(library.seccomp_init(0x00050001))
for name in json.loads(sys.argv[1]):
    number = library.seccomp_syscall_resolve_name(name.encode())
    if number >= 0:
        assert library.seccomp_rule_add(filter, 0x7FFF0000, number, 0) == 0, name
assert library.seccomp_attr_set(filter, 3, 0) == 0
assert library.seccomp_load(filter) == 0
os.execvp(sys.argv[2], sys.argv[2:])
"""


def words(unit: str, setting: str) -> list[str]:
    """All words of a setting that adds up."""
    (template,) = (path for path in TEMPLATES if path.name == f"{unit}.service.j2")
    lines = (line.partition("=") for line in rendered(template, "least").splitlines())
    return [word for name, _, value in lines if name == setting for word in value.split()]


def as_in(unit: str, *argv: str) -> list[str]:
    """The command, confined."""
    kept = (f"+{name.lower().removeprefix('cap_')}" for name in words(unit, "CapabilityBoundingSet"))
    bounds = ["setpriv", "--inh-caps=-all", f"--bounding-set={','.join(['-all', *kept])}"]
    calls = sorted(_calls(words(unit, "SystemCallFilter")))
    return [*bounds, sys.executable, "-c", _FILTER, json.dumps(calls), *argv]


def _calls(names: Sequence[str]) -> set[str]:
    """Without systemd's groups."""
    found: set[str] = set()
    for name in names:
        if not name.startswith("@"):
            found.add(name)
            continue
        listed = ["systemd-analyze", "syscall-filter", "--no-pager", name]
        lines = subprocess.run(listed, check=True, capture_output=True, text=True, timeout=30).stdout.splitlines()[1:]
        found |= _calls([line.strip() for line in lines if line.strip() and not line.strip().startswith("#")])
    return found
