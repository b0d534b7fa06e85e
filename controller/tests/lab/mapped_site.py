"""Standbys whose files belong to the container's own users, shifted on disk, or to the machine's.

The latter are privileged ones, and those whose tree the kernel maps where it is mounted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from vcrecovery.drivers.lxd import Instance, LxdServer
from vcrecovery.standby.container import ROLE_KEY, STANDBY
from vcrecovery.transfer import idmap

from .flavours import INCUS, VARIABLE
from .small_site import BRIDGE, SmallSite

SHIFTED, MOUNTED, PRIVILEGED = "shifted", "mounted", "privileged"
#: As each server makes them on this machine: LXD 5.0.2 shifts, Incus has the kernel map the mounts.
KINDS = (MOUNTED if os.environ.get(VARIABLE) == INCUS else SHIFTED, PRIVILEGED)


def create_privileged(server: LxdServer, name: str, pool: str) -> None:
    """Before the role makes it otherwise."""
    config = {"security.privileged": "true", ROLE_KEY: STANDBY}
    server.create_empty(name, config, {"root": {"type": "disk", "path": "/", "pool": pool}})


def assert_mapped(instance: Instance, kind: str) -> None:
    recorded = json.loads(instance.config[idmap.LAST_STATE])
    assert bool(recorded) == (kind == SHIFTED), "this machine maps otherwise: see test_idmap.py"


class MappedSite(SmallSite):
    """All its standbys are of one `kind`."""

    def __init__(self, folder: Path, names: Sequence[str], kind: str) -> None:
        super().__init__(folder, names)
        self.kind = kind

    def make_standbys(self) -> None:
        if self.kind == PRIVILEGED:
            self.lxd.server.create_pool(BRIDGE)
            # The others are copies of the first.
            create_privileged(self.lxd.server, self.names[0], BRIDGE)
        super().make_standbys()
        for name in self.names:
            assert_mapped(self.instance(name), self.kind)
