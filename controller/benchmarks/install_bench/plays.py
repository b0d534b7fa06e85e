"""One run of a playbook: how long it took, what changed, and how long each role took in it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vcrecovery_lab.built_collection import BuiltCollection
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.run import LabError

#: Seconds that a role may take where there is nothing to do.
ROLE = 20.0
#: Ansible names a collection's own roles without it.
_ROLES = {folder.name for folder in (CHECKOUT / "roles").iterdir()}
_TOOK = re.compile(r"^(?:vcrecovery\.standby\.)?([a-z_]+) -+ ([0-9.]+)s$", re.MULTILINE)
_HOST = re.compile(r"changed=(\d+) +unreachable=(\d+) +failed=(\d+)")


@dataclass(frozen=True)
class Played:
    """`roles`: seconds of each role, on all hosts together."""

    seconds: float
    changed: int
    roles: dict[str, float]


#: As `ansible.cfg` of the repository has it.
_SETTINGS = {
    "ANSIBLE_CALLBACKS_ENABLED": "ansible.posix.profile_roles",
    "ANSIBLE_PIPELINING": "true",
    "ANSIBLE_FORKS": "8",
    "ANSIBLE_GATHERING": "explicit",
}


def play(
    built: BuiltCollection,
    playbook: str,
    *words: str | Path,
    timeout: float,
    environment: Mapping[str, str] | None = None,
) -> Played:
    """Raises LabError when a host fails, or is not reached."""
    begun = time.monotonic()
    printed = built.ansible(
        "ansible-playbook", playbook, *words, timeout=timeout, **{**_SETTINGS, **(environment or {})}
    )
    return read(printed, time.monotonic() - begun)


def read(printed: str, seconds: float) -> Played:
    """Of what ansible-playbook has printed."""
    counts = [tuple(map(int, found)) for found in _HOST.findall(printed)]
    roles = {name: float(took) for name, took in _TOOK.findall(printed) if name in _ROLES}
    if not counts or not roles or any(unreachable or failed for _, unreachable, failed in counts):
        raise LabError(f"no host, or no role, was played whole:\n{printed}")
    return Played(seconds, sum(changed for changed, _, _ in counts), roles)
