"""LXD and Incus have the same API, but for these names. The server says which it is; nobody is asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Flavour:
    """`product`: its name. `client`: what an operator calls. `headers`: what its own headers of HTTP begin with."""

    product: str
    client: str
    headers: str


LXD = Flavour("LXD", "lxc", "X-LXD-")
INCUS = Flavour("Incus", "incus", "X-Incus-")


def said_by(server: Mapping[str, Any]) -> Flavour:
    """By what the server says of itself; that is nothing to one whom it does not trust."""
    return INCUS if (server.get("environment") or {}).get("server") == "incus" else LXD


def expected_at(place: object) -> Flavour:
    """Of a server that has said nothing yet: by its socket, which Incus has in /var/lib/incus."""
    return INCUS if isinstance(place, Path) and "incus" in str(place) else LXD
