"""All price sources of a plan together: of several that know a price, the first counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from functools import cached_property

from vcrecovery.core.text import size_of
from vcrecovery.cost.money import Rate, Rates
from vcrecovery.cost.prices import (
    MONTH_HOURS,
    YEAR_HOURS,
    Kind,
    MachineOffer,
    MissingPriceError,
    Per,
    Price,
    PriceSource,
)
from vcrecovery.plan.costs import Machine

ON_DEMAND = "on-demand"


class Owner(StrEnum):
    """What needs a thing that is paid for."""

    SECONDARY = "secondary"
    SERVICE = "service"


@dataclass(frozen=True)
class Of:
    """Which of them."""

    owner: Owner
    name: str

    def __str__(self) -> str:
        return f"{self.owner} {self.name}"


@dataclass(frozen=True)
class Line:
    """One thing that is paid for each month: `quantity` in units of the price, by one of `shared_by` who share it.

    `of`: what needs it; `why`: how the quantity comes about. `rate`: to the bill's currency. `while_on`: only while the
    machine is on; all else is paid for in any case.
    """

    of: Of
    price: Price
    quantity: Decimal
    why: str
    rate: Rate
    shared_by: int = 1
    while_on: bool = False

    @property
    def a_month(self) -> Decimal:
        return self.price.amount * self.quantity * self.rate.quote_per_base / self.shared_by

    @property
    def a_year(self) -> Decimal:
        return self.a_month * 12


class PriceBook:
    """`currency`: of the bill; `on`: its day, for the rates."""

    def __init__(self, sources: Sequence[PriceSource], currency: str, on: date) -> None:
        self.sources, self.currency, self.on = sources, currency, on

    @cached_property
    def _rates(self) -> Rates:
        return Rates([rate for source in self.sources for rate in source.rates()])

    def offer(self, wanted: Machine, purchase: str) -> MachineOffer:
        """Raises MissingPriceError when nobody has it, or not so; UsageError when a source cannot be read."""
        if wanted.machine is not None:
            return self._named(wanted.machine, purchase)
        assert wanted.size is not None  # noqa: S101  the plan has one of the two
        cores, memory = wanted.size.cores, wanted.size.memory
        found = [offer for source in self.sources for offer in source.fitting(cores, memory, purchase)]
        if not found:
            size = f"{cores:g} cores and {size_of(memory)}"
            raise MissingPriceError(f"no machine that has {size} is priced {purchase} in {self._names}")
        return min(found, key=self.a_month)

    def a_month(self, offer: MachineOffer) -> Decimal:
        """What it costs in the bill's currency. Raises NoRateError."""
        lines = self.machine_lines(Of(Owner.SECONDARY, offer.name), offer, YEAR_HOURS)
        return sum((line.a_month for line in lines), Decimal(0))

    def _named(self, name: str, purchase: str) -> MachineOffer:
        for source in self.sources:
            if (found := source.machine(name, purchase)) is not None:
                return found
        if known := [word for source in self.sources for word in source.known_as(name)]:
            raise MissingPriceError(f"machine {name} has no price {purchase} (known: {', '.join(known)})")
        near = [word for source in self.sources for word in source.near(name)]
        meant = f" (did you mean {near[0]}?)" if near else ""
        raise MissingPriceError(f"machine {name} has no price in {self._names}{meant}")

    @property
    def _names(self) -> str:
        return " and ".join(source.name for source in self.sources)

    def line(self, of: Of, kind: Kind, quantity: Decimal, why: str, shared_by: int = 1) -> Line:
        """Of what costs money beside machines. Raises as `offer` does."""
        for source in self.sources:
            if (price := source.price(kind)) is not None:
                return Line(of, price, quantity, why, self._rate(price), shared_by)
        raise MissingPriceError(f"{kind} has no price in {self._names}")

    def machine_lines(self, of: Of, offer: MachineOffer, hours: Decimal, shared_by: int = 1) -> list[Line]:
        """`hours` in a year. Raises NoRateError."""
        return list(self._machine_lines(of, offer, hours, shared_by))

    def _machine_lines(self, of: Of, offer: MachineOffer, hours: Decimal, shared_by: int) -> Iterator[Line]:
        always = hours == YEAR_HOURS
        for price in offer.prices:
            if price.per is Per.HOUR:
                quantity, why = hours / 12, f"{MONTH_HOURS} hours" if always else f"{float(hours):.4g} hours a year"
            else:
                quantity, why = hours / YEAR_HOURS, "a month" if always else f"{float(hours):.4g} hours a year"
            yield Line(of, price, quantity, why, self._rate(price), shared_by, while_on=not always)

    def _rate(self, price: Price) -> Rate:
        return self._rates.between(price.currency, self.currency, self.on)
