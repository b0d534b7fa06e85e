"""Amounts of money, exact, and the rates between currencies, each of a day."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from vcrecovery.errors import UsageError

_CURRENCY = re.compile(r"[A-Z]{3}")
#: No price and no rate is greater: it is a slip of the hand, or another unit.
LARGEST = Decimal(10) ** 9


class NoRateError(UsageError):
    """Two currencies, and nothing that says how many of one make one of the other."""


def currency(value: Any) -> str:
    """A code of three capitals (ISO 4217). Raises ValueError."""
    if not isinstance(value, str) or not _CURRENCY.fullmatch(value):
        raise ValueError(f"{value!r:.40} is no currency; write its three capitals, such as EUR")
    return value


def amount(value: Any, what: str = "price") -> Decimal:
    """An exact number, zero or more. Raises ValueError for one that is negative, absurd or none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise ValueError(f"{value!r:.40} is no {what}")
    try:
        # Of a float as it is written, not as it is stored.
        found = Decimal(str(value).strip())
    except InvalidOperation:
        raise ValueError(f"{value!r:.40} is no {what}") from None
    if not found.is_finite() or found < 0:
        raise ValueError(f"a {what} of {value} is below zero, or no number")
    if found > LARGEST:
        raise ValueError(f"a {what} of {value} is more than {LARGEST:,}")
    return found


@dataclass(frozen=True)
class Rate:
    """On that day one `base` was worth `quote_per_base` of `quote`."""

    on: date
    base: str
    quote: str
    quote_per_base: Decimal
    source: str = ""


class Rates:
    """The rates that are known. Of several days the newest counts that is not after the day of the bill."""

    def __init__(self, rates: Iterable[Rate] = ()) -> None:
        self._rates = sorted(rates, key=lambda rate: rate.on)

    def between(self, base: str, quote: str, on: date) -> Rate:
        """How much `quote` one `base` was worth on that day. Raises NoRateError."""
        if base == quote:
            return Rate(on, base, quote, Decimal(1))
        for rate in reversed(self._rates):
            if rate.on > on:
                continue
            if (rate.base, rate.quote) == (base, quote):
                return rate
            if (rate.base, rate.quote) == (quote, base):
                return Rate(rate.on, base, quote, 1 / rate.quote_per_base, rate.source)
        raise NoRateError(
            f"a price is in {base}, the bill in {quote}, and no rate between them is known for {on}",
            f"add one to `rates` of a price file: `{{day: {on}, base: {base}, quote: {quote}, rate: ...}}`",
        )
