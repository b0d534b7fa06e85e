"""A VM that holds standbys: its size, its disks and its cards."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from typing import NamedTuple

#: What the guest calls the card that the standbys' network is made over.
STANDBYS_CARD = "standbys"


class Card(NamedTuple):
    """A network card, and the hypervisor's bridge that it is on."""

    bridge: str
    mac: str


@dataclass(frozen=True)
class Machine:
    """Sizes are bytes. `owner`: whose it is, so that the same name elsewhere is another machine.

    `standbys_disk`: of a disk of its own for the standbys; 0: none. `standbys_network`: the bridge of a second card;
    empty: none.
    """

    domain: str
    owner: str
    cores: int
    memory: int
    disk: int
    standbys_disk: int
    network: str
    standbys_network: str
    folder: str

    @property
    def uuid(self) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"urn:vcrecovery:secondary:{self.owner}:{self.domain}"))

    @property
    def cards(self) -> list[Card]:
        bridges = [self.network, *([self.standbys_network] if self.standbys_network else [])]
        return [Card(bridge, self._mac(number)) for number, bridge in enumerate(bridges)]

    @property
    def disk_path(self) -> str:
        return f"{self.folder}/{self.domain}.qcow2"

    @property
    def standbys_path(self) -> str:
        return f"{self.folder}/{self.domain}-standbys.img"

    @property
    def seed_path(self) -> str:
        return f"{self.folder}/{self.domain}-seed.iso"

    def _mac(self, number: int) -> str:
        """Of QEMU's range."""
        digest = hashlib.sha256(f"{self.uuid}:{number}".encode()).digest()
        return ":".join(f"{byte:02x}" for byte in (0x52, 0x54, 0x00, *digest[:3]))
