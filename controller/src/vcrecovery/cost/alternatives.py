"""The ways in which the plan's services could be protected, each with its lines: this plan, and what else there is.

The comparisons are the paper's: a second set of VMs is its hot standby, backups are its cold one (figures 9b and 10b).
A private secondary costs the same in each mode, since it has to bear all its services when they fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from vcrecovery.core.text import size_of
from vcrecovery.cost.book import ON_DEMAND, Line, Of, Owner, PriceBook
from vcrecovery.cost.prices import GIB, OWN, YEAR_HOURS, Kind, MachineOffer, MissingPriceError
from vcrecovery.errors import UsageError
from vcrecovery.plan.costs import Machine, MachineSize, SecondaryCost, ServiceCost
from vcrecovery.plan.model import Plan
from vcrecovery.plan.on_demand import is_on_demand
from vcrecovery.plan.places import places_of


class Way(StrEnum):
    """How services are protected."""

    THIS_PLAN = "this plan"
    SHARED = "shared"
    COLD_SECONDARY = "cold secondary"
    SECOND_VMS = "second VMs"
    BACKUPS = "backups"


@dataclass(frozen=True)
class Alternative:
    """One way, and what is paid for it. `unknown`: why it cannot be reckoned; then there are no lines.

    `notes`: which machines were looked up for it.
    """

    way: Way
    title: str
    lines: Sequence[Line] = ()
    unknown: str = ""
    notes: Sequence[str] = ()

    @property
    def a_month(self) -> Decimal | None:
        return None if self.unknown else sum((line.a_month for line in self.lines), Decimal(0))

    @property
    def a_year(self) -> Decimal | None:
        month = self.a_month
        return None if month is None else month * 12


def alternatives(plan: Plan, book: PriceBook, providers: int) -> list[Alternative]:
    """This plan first; `providers`: by how many a shared secondary would be shared.

    Raises UsageError when a secondary does not say what it is, and MissingPriceError with everything that has no price.
    """
    return _Reckoning(plan, book, providers).all()


def secondary_lines(plan: Plan, book: PriceBook, name: str, cost: SecondaryCost) -> list[Line]:
    """Of a secondary that is there all the time. Raises MissingPriceError with everything that has no price."""
    return _Reckoning(plan, book, 1).of_one(name, cost)


class _Reckoning:
    def __init__(self, plan: Plan, book: PriceBook, providers: int) -> None:
        assert plan.costs is not None  # noqa: S101  the caller has looked
        self._plan, self._book, self._providers = plan, book, providers
        self._failed_hours = Decimal(str(plan.costs.failed)) / 3600
        self._missing: dict[str, None] = {}
        self._notes: list[str] = []

    def all(self) -> list[Alternative]:
        services = {name: entry.cost for name, entry in self._plan.services.items() if entry.cost is not None}
        count, vms = (
            _count(len(self._secondaries()), "secondary", "secondaries"),
            _count(len(self._plan.services), "VM", "VMs"),
        )
        undescribed = [name for name in self._plan.services if name not in services]
        unknown = f"not known: {_first(undescribed)} has no `cost`" if undescribed else ""
        found = [
            Alternative(
                Way.THIS_PLAN,
                f"this plan: {count}, {self._how()}",
                self._secondaries_as(services),
                notes=self._notes,
            ),
            Alternative(
                Way.SHARED,
                f"the same, shared by {self._providers} providers",
                self._secondaries_as(services, providers=self._providers),
            ),
            Alternative(
                Way.COLD_SECONDARY,
                f"the same, off until a failure ({_hours(self._failed_hours)} a year)",
                self._secondaries_as(services, self._failed_hours, 1),
            ),
            Alternative(
                Way.SECOND_VMS,
                f"a second set of {vms}",
                () if unknown else self._vms(services, YEAR_HOURS, Kind.DISK),
                unknown,
            ),
            Alternative(
                Way.BACKUPS,
                f"backups, {vms} booted on failure",
                () if unknown else self._vms(services, self._failed_hours, Kind.BACKUP),
                unknown,
            ),
        ]
        self._see_that_none_is_missing()
        return found

    def of_one(self, name: str, cost: SecondaryCost) -> list[Line]:
        lines = list(self._machine(Of(Owner.SECONDARY, name), cost, YEAR_HOURS, cost.shared_by))
        self._see_that_none_is_missing()
        return lines

    def _see_that_none_is_missing(self) -> None:
        if self._missing:
            raise MissingPriceError("; ".join(self._missing), "add it to a price list of the plan's `costs.prices`")

    def _secondaries(self) -> Mapping[str, SecondaryCost]:
        # One that holds spares only runs all the time, too.
        in_use = dict.fromkeys(place for service in self._plan.services.values() for place in places_of(service))
        undescribed = [name for name in in_use if self._plan.secondaries[name].cost is None]
        if undescribed:
            keys = ", ".join(f"secondaries.{name}.cost" for name in undescribed)
            raise UsageError(f"the plan does not say which machine its secondary is: no {keys}", "see docs/costs.md")
        found = {name: self._plan.secondaries[name].cost for name in in_use}
        return {name: cost for name, cost in found.items() if cost is not None}

    def _how(self) -> str:
        off = [name for name in self._secondaries() if is_on_demand(self._plan.secondaries[name])]
        return f"{', '.join(off)} off until a failure" if off else "in any mode"

    def _secondaries_as(
        self, services: Mapping[str, ServiceCost], hours: Decimal = YEAR_HOURS, providers: int | None = None
    ) -> list[Line]:
        """On for so many hours a year, and shared by so many; None: as the plan has it."""
        lines: list[Line] = []
        for name, cost in self._secondaries().items():
            of = Of(Owner.SECONDARY, name)
            on = self._failed_hours if is_on_demand(self._plan.secondaries[name]) else hours
            lines += self._machine(of, cost, on, providers or cost.shared_by)
        return [*lines, *self._traffic(services)]

    def _vms(self, services: Mapping[str, ServiceCost], hours: Decimal, disk: Kind) -> list[Line]:
        lines: list[Line] = []
        for name, cost in services.items():
            lines += self._machine(Of(Owner.SERVICE, name), cost, hours, disk=disk)
        return [*lines, *self._traffic(services)]

    def _machine(
        self, of: Of, cost: Machine, hours: Decimal, shared_by: int = 1, disk: Kind = Kind.DISK
    ) -> Iterable[Line]:
        # What is bought for years is there all the time: who wants it for hours pays it by the hour.
        purchase = cost.purchase if hours == YEAR_HOURS else ON_DEMAND
        try:
            offer = self._book.offer(cost, purchase)
            if cost.size is not None and hours == YEAR_HOURS and of.owner is Owner.SECONDARY:
                self._note(of, offer, cost.size)
            # Hardware of one's own is paid for while it is off, too.
            yield from self._book.machine_lines(of, offer, YEAR_HOURS if offer.purchase == OWN else hours, shared_by)
        except MissingPriceError as error:
            self._missing[f"{of}: {error.message}"] = None
        if cost.disk is not None:
            yield from self._line(of, disk, cost.disk / GIB, size_of(cost.disk), shared_by)
        if cost.addresses and disk is not Kind.BACKUP:
            count = _count(cost.addresses, "address", "addresses")
            yield from self._line(of, Kind.ADDRESS, Decimal(cost.addresses), count, shared_by)

    def _note(self, of: Of, offer: MachineOffer, size: MachineSize) -> None:
        has = f"{offer.cores:g} cores, {size_of(offer.memory)}"
        wanted = f"{size.cores:g} cores and {size_of(size.memory)}"
        said = f"{of.name}: {offer.name} ({has}) is the cheapest with {wanted}"
        if said not in self._notes:
            self._notes.append(said)

    def _traffic(self, services: Mapping[str, ServiceCost]) -> Iterable[Line]:
        for name, cost in services.items():
            if cost.traffic is not None:
                why = f"{size_of(cost.traffic)} of sync a month"
                yield from self._line(Of(Owner.SERVICE, name), Kind.TRAFFIC, cost.traffic / GIB, why)

    def _line(self, of: Of, kind: Kind, quantity: Decimal, why: str, shared_by: int = 1) -> Iterable[Line]:
        try:
            yield self._book.line(of, kind, quantity, why, shared_by)
        except MissingPriceError as error:
            self._missing[f"{of}: {error.message}"] = None


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _hours(hours: Decimal) -> str:
    return f"{float(hours):.4g} h"


def _first(names: Sequence[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}"
