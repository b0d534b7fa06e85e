"""What a price is, and who knows some: a file of one's own, a table, a cloud's price list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Protocol

from vcrecovery.cost.money import Rate
from vcrecovery.errors import UsageError

#: Hours of an average month, as clouds count them, and of a year.
MONTH_HOURS, YEAR_HOURS = Decimal(730), Decimal(8760)
#: Bytes.
GIB = Decimal(2**30)
#: How hardware of one's own is bought, whatever the plan says of its purchase.
OWN = "own"


class Per(StrEnum):
    """What a price is for."""

    HOUR = "hour"
    MONTH = "month"
    GIB_MONTH = "GiB-month"
    GIB = "GiB"


class Kind(StrEnum):
    """What costs money beside machines."""

    DISK = "disk"
    BACKUP = "backup"
    ADDRESS = "address"
    TRAFFIC = "traffic"


#: What each of them is paid by.
PER_OF_KIND = {Kind.DISK: Per.GIB_MONTH, Kind.BACKUP: Per.GIB_MONTH, Kind.ADDRESS: Per.MONTH, Kind.TRAFFIC: Per.GIB}


@dataclass(frozen=True)
class Price:
    """`amount` of `currency` for each `per`; `what` is paid for. `source` and `as_of`: who says so, and of when."""

    amount: Decimal
    currency: str
    per: Per
    what: str
    source: str
    as_of: date


@dataclass(frozen=True)
class MachineOffer:
    """A machine that can be had, and all that it costs: itself, its licence, its power. `memory` in bytes.

    Each of `prices` is per hour or per month. `purchase`: how it is bought, such as on-demand.
    """

    name: str
    cores: float
    memory: int
    purchase: str
    prices: Sequence[Price]


class PriceSource(Protocol):
    """Somebody who knows prices. All of it raises UsageError when the source cannot be read."""

    @property
    def name(self) -> str:
        """How a person finds it: its path, and what of it."""

    def machine(self, name: str, purchase: str) -> MachineOffer | None:
        """The machine of this name, as it is bought so. None when this source does not know it, or not so."""

    def known_as(self, name: str) -> Sequence[str]:
        """The purchases that this source has of the machine; none when it does not know it."""

    def fitting(self, cores: float, memory: int, purchase: str) -> Sequence[MachineOffer]:
        """Those that have so much at least, as they are bought so: of each currency the cheapest."""

    def near(self, name: str) -> Sequence[str]:
        """Names of machines that may have been meant."""

    def price(self, kind: Kind) -> Price | None:
        """Of what costs money beside machines."""

    def rates(self) -> Sequence[Rate]:
        """Between currencies."""


class MissingPriceError(UsageError):
    """Something of the plan has no price: it is never taken for nothing."""
