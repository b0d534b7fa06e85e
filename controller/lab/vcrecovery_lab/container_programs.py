"""The programs of LXD, and those of Incus: both are given the same words, but for few."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .other_release import unpacked

CACHE = Path("/var/cache/vcrecovery-lab-incus")
#: What else it needs is what LXD needs: of those it takes this machine's.
_PACKAGES = ("incus-base", "incus-client", "libcowsql0", "libraft0")


@dataclass(frozen=True)
class Programs:
    """`product`: LXD or Incus. `daemon` and `client` are programs. `folder`: the variable that names the daemon's.

    `trust`: the client's words for a certificate to be trusted. `sql`: how its database is written to.
    `environment` lets the programs find themselves.
    """

    product: str
    daemon: str
    client: str
    folder: str
    trust: Sequence[str]
    sql: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


LXD = Programs("LXD", "lxd", "lxc", "LXD_DIR", trust=("config", "trust", "add"), sql=("lxd", "sql"))


def incus() -> Programs:
    """Of Debian 12's backports, which is Debian 13's too. Raises LabError when it cannot be had."""
    root = unpacked(CACHE, "bookworm-backports", _PACKAGES, with_all=False) / "root/usr"
    path = os.pathsep.join([str(root / "libexec/incus"), str(root / "bin"), os.environ["PATH"]])
    client = str(root / "bin/incus")
    return Programs(
        "Incus",
        str(root / "libexec/incus/incusd"),
        client,
        "INCUS_DIR",
        trust=("config", "trust", "add-certificate"),
        sql=(client, "admin", "sql"),
        environment={"PATH": path, "LD_LIBRARY_PATH": str(root / "lib/x86_64-linux-gnu")},
    )
