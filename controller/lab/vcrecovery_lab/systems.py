"""The systems that Molecule's machines can have: what debootstrap calls each, and a network of each one's own."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class System:
    """`network` is the third number of its addresses: two systems' scenarios can be played at the same time."""

    name: str
    suite: str
    network: int
    #: Scenarios that its Python is too old for: the program needs 3.11.
    not_played: frozenset[str] = frozenset()

    @property
    def is_debian(self) -> bool:
        return self.name.startswith("debian")

    @property
    def prefix(self) -> str:
        """What the addresses of its machines begin with."""
        return f"10.211.{self.network}"

    @property
    def gateway(self) -> str:
        return f"{self.prefix}.1"

    @property
    def bridge(self) -> str:
        """The pool is called so, too. Not as the lab: whoever looks for what that left looks for its names."""
        return f"vcrmole{self.network}"


#: The first is the one that is played when nobody names another.
SYSTEMS = {
    system.name: system
    for system in (
        System("debian-12", "bookworm", 30),
        System("debian-13", "trixie", 31),
        System("ubuntu-22.04", "jammy", 32, frozenset({"controller", "default", "secondary", "upgrade"})),
        System("ubuntu-24.04", "noble", 33),
    )
}
