"""A price file: prices of one's own, also of one's own hardware, whose price is spread over its life."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from vcrecovery.cost.money import Rate, amount
from vcrecovery.cost.prices import MONTH_HOURS, OWN, PER_OF_KIND, YEAR_HOURS, Kind, MachineOffer, Per, Price
from vcrecovery.errors import UsageError
from vcrecovery.plan.costs import Currency
from vcrecovery.plan.fields import Section, Size
from vcrecovery.plan.lined_yaml import LinedYaml, NotYamlError
from vcrecovery.plan.problems import Problem, dotted
from vcrecovery.plan.validated import validated

_Amount = Annotated[Decimal, BeforeValidator(amount)]
_Text = Annotated[str, Field(min_length=1, max_length=200)]


class _Own(Section):
    """Hardware of one's own."""

    price: _Amount
    years: Annotated[float, Field(gt=0, le=50)]
    watts: Annotated[float, Field(ge=0, le=100_000)] = 0.0
    per_kwh: _Amount | None = None
    rack_per_month: _Amount = Decimal(0)

    @model_validator(mode="after")
    def _power_has_a_price(self) -> Self:
        if self.watts and self.per_kwh is None:
            raise ValueError("watts needs per_kwh: what its power costs")
        return self


class _Machine(Section):
    cores: Annotated[float, Field(gt=0, le=4096)]
    memory: Size
    #: By the way in which it is bought.
    per_hour: dict[_Text, _Amount] = Field({})
    per_month: dict[_Text, _Amount] = Field({})
    licence_per_hour: _Amount | None = None
    own: _Own | None = None

    @model_validator(mode="after")
    def _has_a_price(self) -> Self:
        if not (self.per_hour or self.per_month or self.own):
            raise ValueError("needs a price: one of per_hour, per_month and own")
        if self.own and (self.per_hour or self.per_month):
            raise ValueError("is bought or rented, not both: own stands alone")
        if twice := sorted(self.per_hour.keys() & self.per_month.keys()):
            raise ValueError(f"has two prices for {', '.join(twice)}: per hour and per month")
        return self


class _RateEntry(Section):
    day: date
    base: Currency
    quote: Currency
    rate: Annotated[Decimal, BeforeValidator(amount), Field(gt=0)]


class _File(Section):
    version: Literal[1]
    currency: Currency
    as_of: date
    source: _Text | None = None
    machines: dict[_Text, _Machine] = Field({})
    disk: _Amount | None = None
    backup: _Amount | None = None
    address: _Amount | None = None
    traffic: _Amount | None = None
    rates: list[_RateEntry] = Field([])


class PriceFile:
    """A `PriceSource`. Raises UsageError with everything that is wrong with the file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        return str(self._path)

    @cached_property
    def _file(self) -> _File:
        try:
            yaml = LinedYaml(self._path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise UsageError(f"price file {self._path} cannot be read: {reason}", "correct `costs.prices`") from error
        except NotYamlError as error:
            raise self._wrong([Problem(error.line, "", f"not valid YAML: {error}")]) from error
        found, problems = validated(_File, yaml.data, "a price file")
        wrong = [*yaml.problems, *(Problem(yaml.line(key), dotted(key), said) for key, said in problems)]
        if found is None or wrong:
            raise self._wrong(wrong)
        return found

    def _wrong(self, problems: Iterable[Problem]) -> UsageError:
        return UsageError(f"price file {self._path}: {'; '.join(map(str, sorted(set(problems))))}", "correct that")

    def machine(self, name: str, purchase: str) -> MachineOffer | None:
        entry = self._file.machines.get(name)
        return None if entry is None else self._offer(name, entry, purchase)

    def known_as(self, name: str) -> Sequence[str]:
        entry = self._file.machines.get(name)
        return () if entry is None else [*entry.per_hour, *entry.per_month, *([OWN] if entry.own else [])]

    def fitting(self, cores: float, memory: int, purchase: str) -> Sequence[MachineOffer]:
        fit = {
            name: entry
            for name, entry in self._file.machines.items()
            if entry.cores >= cores and entry.memory >= memory
        }
        offers = [offer for name, entry in fit.items() if (offer := self._offer(name, entry, purchase)) is not None]
        return sorted(offers, key=a_month)[:1]

    def near(self, name: str) -> Sequence[str]:
        return difflib.get_close_matches(name, self._file.machines, n=3)

    def price(self, kind: Kind) -> Price | None:
        found: Decimal | None = getattr(self._file, kind.value)
        return None if found is None else self._price(found, PER_OF_KIND[kind], kind.value)

    def rates(self) -> Sequence[Rate]:
        return [Rate(r.day, r.base, r.quote, r.rate, self._source) for r in self._file.rates]

    @property
    def _source(self) -> str:
        return self._file.source or str(self._path)

    def _price(self, found: Decimal, per: Per, what: str) -> Price:
        return Price(found, self._file.currency, per, what, self._source, self._file.as_of)

    def _offer(self, name: str, entry: _Machine, purchase: str) -> MachineOffer | None:
        prices = list(self._prices(name, entry, purchase))
        if not prices:
            return None
        return MachineOffer(name, entry.cores, entry.memory, OWN if entry.own else purchase, prices)

    def _prices(self, name: str, entry: _Machine, purchase: str) -> Iterator[Price]:
        if entry.own is not None:
            yield from self._of_own(name, entry.own)
        elif (hourly := entry.per_hour.get(purchase)) is not None:
            yield self._price(hourly, Per.HOUR, name)
        elif (monthly := entry.per_month.get(purchase)) is not None:
            yield self._price(monthly, Per.MONTH, name)
        else:
            return
        if entry.licence_per_hour is not None:
            yield self._price(entry.licence_per_hour, Per.HOUR, f"{name}, licence")

    def _of_own(self, name: str, own: _Own) -> Iterator[Price]:
        life = f"{own.price} {self._file.currency} over {own.years:g} years"
        yield self._price(own.price / (Decimal(str(own.years)) * YEAR_HOURS), Per.HOUR, f"{name}, {life}")
        if own.watts and own.per_kwh is not None:
            power = Decimal(str(own.watts)) / 1000 * own.per_kwh
            yield self._price(power, Per.HOUR, f"{name}, {own.watts:g} W at {own.per_kwh} per kWh")
        if own.rack_per_month:
            yield self._price(own.rack_per_month, Per.MONTH, f"{name}, its place in the rack")


def a_month(offer: MachineOffer) -> Decimal:
    """What it costs in a month, in its currency."""
    return sum((p.amount * (MONTH_HOURS if p.per is Per.HOUR else 1) for p in offer.prices), Decimal(0))
