"""The cheapest secondaries by HiGHS, exactly: a mixed-integer program. `highspy` is an extra."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from vcrecovery.cost.advice import MODES, OF_ITS_OWN, Chosen, MachineType, Needs, cold_waves
from vcrecovery.errors import ExternalError, UsageError
from vcrecovery.plan.modes import Mode

#: Seconds for one solution: the plans of one site take a fraction of one.
_WITHIN = 60.0
_GIB = 2**30
#: Far below a cent, so that it decides nothing that costs money.
_TIE = 1e-5


def solve_by_highs(
    services: Sequence[Needs], machines: Sequence[MachineType], limit: float, most: int
) -> Sequence[Chosen] | None:
    """A `Solver`. Raises UsageError without `highspy`, and ExternalError when it finds no answer in time."""
    try:
        import highspy
    except ImportError as error:
        raise UsageError(
            "`plan advise` needs the solver HiGHS, which is not installed",
            f"`{sys.executable} -m pip install highspy`",
        ) from error
    return _Program(highspy, services, machines, limit, most).solved()


@contextmanager
def _nothing_said() -> Iterator[None]:
    """HiGHS greets on the standard output before anybody can tell it not to: that would stand in front of JSON."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


class _Program:
    """`_is[s, t, mode]`: service s stands by in slot t in that mode; `_type[t, m]`: slot t is machine m."""

    def __init__(
        self, highspy: Any, services: Sequence[Needs], machines: Sequence[MachineType], limit: float, most: int
    ) -> None:
        self._highspy, self._services, self._machines, self._limit = highspy, services, machines, limit
        with _nothing_said():
            self._h = highspy.Highs()
        self._h.silent()
        self._h.setOptionValue("time_limit", _WITHIN)
        self._h.setOptionValue("mip_rel_gap", 0.0)
        self._h.setOptionValue("mip_abs_gap", _TIE / 100)
        self._slots = range(min(most, len(services)))
        self._type = {(t, m): self._h.addBinary() for t in self._slots for m in range(len(machines))}
        self._is = {
            (s, t, mode): self._h.addBinary()
            for s, service in enumerate(services)
            for t in self._slots
            for mode in service.modes
            if self._may(service, mode)
        }

    def _may(self, service: Needs, mode: Mode) -> bool:
        if mode is Mode.COLD:
            return cold_waves(service, self._limit) >= 1 if self._limit < float("inf") else True
        return service.times.alone(mode) <= self._limit

    def solved(self) -> Sequence[Chosen] | None:
        for s in range(len(self._services)):
            ways = [x for (of, _, _), x in self._is.items() if of == s]
            if not ways:
                return None
            self._h.addConstr(self._h.qsum(ways) == 1)
        for t in self._slots:
            self._one_machine(t)
            self._has_memory(t)
            self._starts_in_time(t)
        prices = [self._machines[m].a_month * x for (_, m), x in self._type.items()]
        # Of what costs the same, what changes least, and then what costs its machine least.
        rank = {mode: place for place, mode in enumerate(MODES)}
        changes = [
            _TIE * ((mode is not self._services[s].prefers) + 0.1 * rank.get(mode, 0)) * x
            for (s, _, mode), x in self._is.items()
        ]
        self._h.minimize(self._h.qsum([*prices, *changes]))
        return self._answer()

    def _one_machine(self, slot: int) -> None:
        used = self._h.qsum([self._type[slot, m] for m in range(len(self._machines))])
        self._h.addConstr(used <= 1)
        for (_, t, _), x in self._is.items():
            if t == slot:
                self._h.addConstr(x <= used)
        if slot:
            # Which slot is which means nothing: those in use come first.
            before = self._h.qsum([self._type[slot - 1, m] for m in range(len(self._machines))])
            self._h.addConstr(used <= before)

    def _has_memory(self, slot: int) -> None:
        has = self._h.qsum(
            [(machine.memory - OF_ITS_OWN) / _GIB * self._type[slot, m] for m, machine in enumerate(self._machines)]
        )
        always = [
            self._services[s].memory / _GIB * x
            for (s, t, mode), x in self._is.items()
            if t == slot and mode is not Mode.COLD
        ]
        for together in self._groups:
            cold = [
                self._services[s].memory / _GIB * self._is[s, slot, Mode.COLD]
                for s in together
                if (s, slot, Mode.COLD) in self._is
            ]
            if always or cold:
                self._h.addConstr(self._h.qsum([*always, *cold]) <= has)

    def _starts_in_time(self, slot: int) -> None:
        """The last of those that start together is up within the limit, each by its own time."""
        if self._limit == float("inf"):
            return
        for together in self._groups:
            cold = {s: self._is[s, slot, Mode.COLD] for s in together if (s, slot, Mode.COLD) in self._is}
            for s, x in cold.items():
                waves = cold_waves(self._services[s], self._limit)
                if waves >= len(cold):
                    continue
                starts = self._h.qsum(
                    [waves * machine.starts * self._type[slot, m] for m, machine in enumerate(self._machines)]
                )
                # Only if this one is among them.
                self._h.addConstr(self._h.qsum(list(cold.values())) <= starts + len(cold) * (1 - x))

    @property
    def _groups(self) -> Sequence[Sequence[int]]:
        names = dict.fromkeys(service.fails_with for service in self._services)
        return [[s for s, service in enumerate(self._services) if service.fails_with == name] for name in names]

    def _answer(self) -> Sequence[Chosen] | None:
        status = self._h.getModelStatus()
        statuses = self._highspy.HighsModelStatus
        if status in (statuses.kInfeasible, statuses.kUnboundedOrInfeasible):
            return None
        if status != statuses.kOptimal:
            raise ExternalError(
                f"HiGHS has not found the cheapest secondaries within {_WITHIN:.0f} s ({status.name})",
                "name fewer machines in the price lists",
            )
        found = []
        for t in self._slots:
            machine = next((m for m in range(len(self._machines)) if self._h.val(self._type[t, m]) > 0.5), None)
            standbys = {
                self._services[s].name: mode
                for (s, slot, mode), x in self._is.items()
                if slot == t and self._h.val(x) > 0.5
            }
            if machine is not None and standbys:
                found.append(Chosen(self._machines[machine], standbys))
        return found
