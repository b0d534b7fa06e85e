"""A cloud that makes machines, as a provisioner's caller sees it, and all that such a thing does wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vcrecovery.drivers.provisioner import Made
from vcrecovery.errors import ExternalError


class SimulatedCloud:
    """`machines`: those that exist, by lease. `faults`: what the next calls of a verb do in place of it, in turn."""

    def __init__(self) -> None:
        self.machines: dict[str, list[Made]] = {}
        self.calls: list[str] = []
        self.faults: dict[str, list[Callable[[Mapping[str, Any]], list[Made]]]] = {}
        self.given: dict[str, Mapping[str, Any]] = {}
        self._count = 0

    @property
    def paid_for(self) -> int:
        return sum(len(found) for found in self.machines.values())

    def make(self, lease: str, *, number: int = 1) -> None:
        for _ in range(number):
            self._count += 1
            made = Made(f"i-{self._count}", f"192.0.2.{self._count}")
            self.machines.setdefault(lease, []).append(made)

    def create(self, order: Mapping[str, Any]) -> list[Made]:
        self.given[order["lease"]] = order
        return self._call("create", order, self._create)

    def describe(self, order: Mapping[str, Any]) -> list[Made]:
        return self._call("describe", order, lambda asked: list(self.machines.get(asked["lease"], [])))

    def destroy(self, order: Mapping[str, Any]) -> list[Made]:
        return self._call("destroy", order, self._destroy)

    def by_hand(self, order: Mapping[str, Any]) -> str:
        return f"cloud destroy {order['name']}"

    def _call(self, verb: str, order: Mapping[str, Any], well: Callable[[Mapping[str, Any]], list[Made]]) -> list[Made]:
        self.calls.append(verb)
        faults = self.faults.get(verb, [])
        return (faults.pop(0) if faults else well)(order)

    def _create(self, order: Mapping[str, Any]) -> list[Made]:
        if not self.machines.get(order["lease"]):
            self.make(order["lease"])
        return list(self.machines[order["lease"]])

    def _destroy(self, order: Mapping[str, Any]) -> list[Made]:
        self.machines.pop(order["lease"], None)
        return []

    # -- faults ------------------------------------------------------------------------------------------------

    def fails(self, _order: Mapping[str, Any]) -> list[Made]:
        raise ExternalError("`cloud` failed with status 1: no quota")

    def lies(self, _order: Mapping[str, Any]) -> list[Made]:
        """It says that there is one, and there is none."""
        return [Made("i-lie", "192.0.2.99")]

    def makes_two(self, order: Mapping[str, Any]) -> list[Made]:
        self.make(order["lease"], number=2)
        return list(self.machines[order["lease"]])

    def hangs(self, order: Mapping[str, Any]) -> list[Made]:
        """It was killed after a while, and the cloud goes on with it."""
        self.make(order["lease"])
        raise ExternalError("`cloud create` did not finish within 600 s, and was killed")
