"""Makes the index of an offer file."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

from vcrecovery.cost.aws_index import OfferIndex
from vcrecovery.cost.aws_products import Machine, Product, kind_costs, machine_costs
from vcrecovery.cost.aws_stream import AGAIN, members
from vcrecovery.cost.prices import PER_OF_KIND, Kind
from vcrecovery.errors import UsageError
from vcrecovery.plan.problems import suggest

LINUX = "Linux"
_FORMAT, _OFFER = "v1.0", "AmazonEC2"


def read_index(path: Path, region: str, system: str, tell: Callable[[str], None]) -> OfferIndex:
    """Of one region, with this operating system, and with Linux, since the difference is the licence.

    Raises UsageError when the file cannot be used, or has nothing of these. `tell`: how far it is, and what was left
    out.
    """
    reading = _Reading(path, region, system)
    for member in members(path, reading.wants, tell):
        if not member.section:
            reading.head[member.key] = member.value
        elif member.section == "products":
            reading.product(member.key, member.value)
        else:
            reading.terms(member.section, member.key, member.value)
    return reading.ended(tell)


class _Reading:
    """`head`: what the file says of itself."""

    def __init__(self, path: Path, region: str, system: str) -> None:
        self.head: dict[str, Any] = {}
        self._path, self._region, self._system = path, region, system
        self._index = OfferIndex.empty()
        self._machines: dict[str, Machine] = {}
        self._kinds: dict[str, Kind] = {}
        self._regions: set[str] = set()
        self._systems: set[str] = set()
        self._is_checked = False
        self._of_no_size: set[str] = set()

    def product(self, sku: str, value: Any) -> None:
        if not self._regions:
            self._check_head()
        product = Product(value)
        self._regions.update(product.regions[:1])
        if self._region.casefold() not in (name.casefold() for name in product.regions):
            return
        if (kind := product.kind) is not None:
            self._kinds[sku] = kind
        elif system := product.system:
            self._systems.add(system)
            if system.casefold() in (LINUX.casefold(), self._system.casefold()):
                self._machine(sku, product)

    def _machine(self, sku: str, product: Product) -> None:
        try:
            self._machines[sku] = product.machine
        except ValueError:
            self._of_no_size.add(product.name or sku)
        else:
            self._index.add_machine(self._machines[sku])

    def wants(self, sku: str) -> bool:
        """Whether the terms of this SKU count."""
        if not self._is_checked:
            self._check_products()
        return sku in self._machines or sku in self._kinds

    def terms(self, term: str, sku: str, offers: Any) -> None:
        machine, kind = self._machines.get(sku), self._kinds.get(sku)
        what = machine.name if machine else str(kind)
        try:
            if machine is not None:
                for cost in machine_costs(term, offers):
                    self._index.add_cost(machine.name, machine.system, cost)
            elif kind is not None:
                for cost in kind_costs(term, offers, PER_OF_KIND[kind]):
                    self._index.add_cost(kind, "", cost)
        except ValueError as error:
            raise self._unusable(f"of {what} (SKU {sku!r:.40}) it has no price that can be used: {error}") from error

    def ended(self, tell: Callable[[str], None]) -> OfferIndex:
        self._check_head()
        self._check_products()
        index = self._index
        index.as_of = self._day()
        index.system = next(name for name in self._systems if name.casefold() == self._system.casefold())
        if not index.has_prices(index.system):
            raise self._unusable(f"it has no price of a machine with {index.system} in {self._region}")
        for found, why in (
            (self._of_no_size, "they do not say how large they are"),
            (index.disagreeing(index.system), "their prices differ"),
        ):
            if found:
                names = sorted(found)
                more = f" and {len(names) - 3} more" if len(names) > 3 else ""
                tell(f"{self._path}: left out, since {why}: {', '.join(names[:3])}{more}")
        return index

    def _check_head(self) -> None:
        offer, form = self.head.get("offerCode"), self.head.get("formatVersion")
        if offer != _OFFER:
            said = "no offer file" if offer is None else f"the offer file of {offer!r:.40}"
            raise UsageError(f"{self._path} is {said}, not that of {_OFFER}", "download that of Amazon EC2")
        if form != _FORMAT:
            raise UsageError(
                f"offer file {self._path} is of format {form!r:.40}, and {_FORMAT!r} is known",
                "ask for a newer version of VCRecovery",
            )

    def _check_products(self) -> None:
        self._is_checked = True
        path, region, system = self._path, self._region, self._system
        if not self._regions:
            raise self._unusable("it has no products, or its terms come before them")
        if not self._systems and not self._kinds:
            known = suggest(region, sorted(self._regions))
            raise UsageError(f"offer file {path} has nothing in the region {region!r:.60} {known}", "correct `region`")
        if system.casefold() not in (name.casefold() for name in self._systems):
            known = suggest(system, sorted(self._systems))
            raise UsageError(
                f"offer file {path} has no machine with {system!r:.60} in {region} {known}",
                "correct `operating_system`",
            )

    def _day(self) -> date:
        said = self.head.get("publicationDate")
        try:
            return datetime.fromisoformat(said if isinstance(said, str) else "").date()
        except ValueError:
            raise self._unusable(f"its publicationDate is {said!r:.40}") from None

    def _unusable(self, why: str) -> UsageError:
        return UsageError(f"offer file {self._path} cannot be used: {why}", AGAIN)
