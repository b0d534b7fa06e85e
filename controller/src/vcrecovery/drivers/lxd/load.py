"""How loaded a server's machine is, and what each of its containers takes."""

from __future__ import annotations

from typing import Any

from vcrecovery.balance.load import ContainerReading, Reading
from vcrecovery.drivers.lxd.instances import seconds_of
from vcrecovery.drivers.lxd.storage import Storage
from vcrecovery.errors import ExternalError


class Loads(Storage):
    """Of one server."""

    def reading(self, pool: str) -> Reading:
        """Raises ExternalError when the server does not answer, or does not say it."""
        hardware = self._guard(lambda api: api.resources.get())
        instances = self._guard(lambda api: api.instances.get(params={"recursion": "2"}))
        free, total = self.pool_space(pool)
        try:
            found = hardware.json()["metadata"]
            return Reading(
                self._clock.steady(),
                int(found["cpu"]["total"]),
                int(found["memory"]["total"]),
                int(found["memory"]["used"]),
                total,
                free,
                {one["name"]: _of_container(one) for one in instances.json()["metadata"] if _runs(one)},
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ExternalError(f"LXD on secondary {self.name} does not say how loaded its machine is") from error


def _runs(one: Any) -> bool:
    return bool((one["state"] or {}).get("pid"))


def _of_container(one: Any) -> ContainerReading:
    state = one["state"]
    root = (state["disk"] or {}).get("root") or {}
    return ContainerReading(
        int(state["cpu"]["usage"]) / 1e9,
        int(state["memory"]["usage"]),
        int(root.get("usage", 0)),
        seconds_of(one.get("last_used_at", "")),
    )
