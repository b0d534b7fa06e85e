"""AWS's price list: the offer file of Amazon EC2, as AWS publishes it, for one region and operating system."""

from __future__ import annotations

import difflib
import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from vcrecovery.cost.aws_index import MadeFrom, OfferIndex
from vcrecovery.cost.aws_products import ON_DEMAND, Cost
from vcrecovery.cost.aws_reading import LINUX, read_index
from vcrecovery.cost.aws_stream import identity
from vcrecovery.cost.money import Rate
from vcrecovery.cost.prices import PER_OF_KIND, Kind, MachineOffer, MissingPriceError, Per, Price
from vcrecovery.errors import one_line

_KINDS = {
    Kind.DISK: "gp3 volume",
    Kind.BACKUP: "EBS snapshot",
    Kind.ADDRESS: "public IPv4 address",
    Kind.TRAFFIC: "traffic to the internet",
}


class AwsOffers:
    """A `PriceSource`. The file is read at the first question, once: an index in `cache` answers later runs.

    `region` by its code; `operating_system` as AWS calls it, such as Linux, RHEL, Windows, SUSE or Ubuntu Pro.
    Machines are bought `on-demand`, `reserved-1y` or `reserved-3y`. What is paid at once is spread over the hours of
    that time in `reserved-1y-partial-upfront` and `reserved-1y-all-upfront`. Such a file has no spot prices.
    """

    def __init__(
        self, path: Path, region: str, operating_system: str, cache: Path, tell: Callable[[str], None]
    ) -> None:
        self._path, self._region, self._system = path, region, operating_system
        self._cache, self._tell = cache, tell

    @property
    def name(self) -> str:
        return f"{self._path} ({self._region}, {self._system})"

    def machine(self, name: str, purchase: str) -> MachineOffer | None:
        """Raises MissingPriceError when the file has differing prices of it."""
        found = self._agreed(name, self._index.system, purchase)
        return None if found is None else self._offer(name, found)

    def known_as(self, name: str) -> Sequence[str]:
        return self._index.purchases(name, self._index.system)

    def fitting(self, cores: float, memory: int, purchase: str) -> Sequence[MachineOffer]:
        """Without those of Arm, and without those of which the file has differing prices."""
        cheapest: dict[str, tuple[str, Cost]] = {}
        for name, cost in self._index.fitting(cores, memory, self._index.system, purchase):
            best = cheapest.get(cost.currency)
            if best is None or cost.amount < best[1].amount:
                cheapest[cost.currency] = (name, cost)
        return [self._offer(name, cost) for name, cost in cheapest.values()]

    def near(self, name: str) -> Sequence[str]:
        return difflib.get_close_matches(name, self._index.names(), n=3)

    def price(self, kind: Kind) -> Price | None:
        """Raises MissingPriceError when the file has differing prices of it."""
        found = self._agreed(kind, "", ON_DEMAND)
        return None if found is None else self._price(found, PER_OF_KIND[kind], _KINDS[kind])

    def rates(self) -> Sequence[Rate]:
        return ()

    def _agreed(self, thing: str, system: str, purchase: str) -> Cost | None:
        found = self._index.costs(thing, system, purchase)
        if len(found) > 1:
            prices = ", ".join(f"{cost.amount} {cost.currency}" for cost in found[:4])
            raise MissingPriceError(
                f"{self.name} has differing prices of {thing} {purchase}, of which none is taken: {prices}",
                "put the right one into a price file that `costs.prices` names before it",
            )
        return found[0] if found else None

    def _offer(self, name: str, cost: Cost) -> MachineOffer:
        size = self._index.size_of(name)
        assert size is not None  # noqa: S101  what has a price is there
        return MachineOffer(name, *size, cost.purchase, list(self._parts(name, cost)))

    def _parts(self, name: str, cost: Cost) -> Iterator[Price]:
        """The machine and its licence apart, where the same machine with Linux tells how much each is."""
        system = self._index.system
        if system == LINUX:
            yield self._price(cost, Per.HOUR, name)
            return
        plain = self._index.costs(name, LINUX, cost.purchase)
        if len(plain) == 1 and plain[0].currency == cost.currency and plain[0].amount < cost.amount:
            licence = replace(cost, amount=cost.amount - plain[0].amount)
            yield self._price(plain[0], Per.HOUR, name)
            yield self._price(licence, Per.HOUR, f"{name}, licence of {system}")
        else:
            yield self._price(cost, Per.HOUR, f"{name}, with {system}")

    def _price(self, cost: Cost, per: Per, what: str) -> Price:
        return Price(cost.amount, cost.currency, per, what, self.name, self._index.as_of)

    @cached_property
    def _index(self) -> OfferIndex:
        path = self._path.absolute()
        made_from = MadeFrom(str(path), identity(path), self._region.casefold(), self._system.casefold())
        of = hashlib.sha256(repr((made_from.path, made_from.region, made_from.system)).encode()).hexdigest()[:16]
        kept = self._cache / f"aws-{of}.sqlite"
        found = OfferIndex.load(kept, made_from)
        if found is None:
            found = read_index(self._path, self._region, self._system, self._tell)
            try:
                found.save(kept, made_from)
            except (OSError, sqlite3.Error) as error:
                why = error.strerror if isinstance(error, OSError) else one_line(error)
                self._tell(f"{self._cache}: no index can be kept there ({why}): each run reads {self._path} as a whole")
        return found
