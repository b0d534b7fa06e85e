"""How big the machine is that a server runs on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vcrecovery.drivers.lxd.connection import Connection
from vcrecovery.errors import ExternalError


@dataclass(frozen=True)
class Size:
    """`cores` counts threads of the CPUs; `memory` is all of it, in bytes."""

    cores: int
    memory: int


class Resources(Connection):
    """The hardware of one server."""

    def size(self) -> Size:
        """Raises ExternalError when the server does not answer, or does not say it."""
        found: Any = self._guard(lambda api: api.resources.get()).json()["metadata"]
        try:
            return Size(int(found["cpu"]["total"]), int(found["memory"]["total"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ExternalError(f"LXD on secondary {self.name} does not say how big its machine is") from error
