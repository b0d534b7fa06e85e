"""How loaded a server's machine is, and what each of its containers takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from vcrecovery.balance.load import ContainerReading, Reading
from vcrecovery.drivers.lxd.instances import seconds_of
from vcrecovery.drivers.lxd.storage import Storage
from vcrecovery.errors import ExternalError

#: A line of the figures for a Prometheus, of LXD or Incus, about what a container has read or written.
_MOVED = re.compile(
    r"^(?:lxd|incus)_disk_(?:read|written)_bytes_total\{(?=[^}]*project=\"default\")[^}]*\bname=\"([^\"]+)\"[^}]*\}"
    r" ([0-9.e+]+)$",
    re.MULTILINE,
)


class Loads(Storage):
    """Of one server."""

    def reading(self, pool: str) -> Reading:
        """Raises ExternalError when the server does not answer, or does not say it."""
        hardware = self._guard(lambda api: api.resources.get())
        instances = self._guard(lambda api: api.instances.get(params={"recursion": "2"}))
        free, total = self.pool_space(pool)
        moved = self._moved()
        try:
            found = hardware.json()["metadata"]
            return Reading(
                self._clock.steady(),
                int(found["cpu"]["total"]),
                int(found["memory"]["total"]),
                int(found["memory"]["used"]),
                total,
                free,
                {one["name"]: _of_container(one, moved) for one in instances.json()["metadata"] if _runs(one)},
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ExternalError(f"{self.called} does not say how loaded its machine is") from error

    def _moved(self) -> Mapping[str, int]:
        """Bytes that containers have read from disks and written, of those of which the server tells it."""
        try:
            text = self._guard(lambda api: api.metrics.get()).content.decode(errors="replace")
        except ExternalError:
            # One that is older, or does not let this certificate see it.
            return {}
        found: dict[str, int] = {}
        for name, value in _MOVED.findall(text):
            with suppress(ValueError, OverflowError):
                found[name] = found.get(name, 0) + int(float(value))
        return found


def _runs(one: Any) -> bool:
    return bool((one["state"] or {}).get("pid"))


def _of_container(one: Any, moved: Mapping[str, int]) -> ContainerReading:
    state = one["state"]
    root = (state["disk"] or {}).get("root") or {}
    cards = [card["counters"] for name, card in (state.get("network") or {}).items() if name != "lo"]
    return ContainerReading(
        int(state["cpu"]["usage"]) / 1e9,
        int(state["memory"]["usage"]),
        int(root.get("usage", 0)),
        seconds_of(one.get("last_used_at", "")),
        moved.get(one["name"]),
        sum(int(card["bytes_received"]) for card in cards) if cards else None,
        sum(int(card["bytes_sent"]) for card in cards) if cards else None,
    )
