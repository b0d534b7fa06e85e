"""What counts of an offer file of AWS for one region: which products, and what their terms come to.

Of a machine there are dozens: by its tenancy, by what is installed on it, by whose licence it has, as capacity that was
reserved. The one that is meant here is what somebody gets who starts an instance and says none of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from vcrecovery.cost.money import amount, currency
from vcrecovery.cost.prices import MONTH_HOURS, YEAR_HOURS, Kind, Per
from vcrecovery.plan.fields import parse_size

ON_DEMAND = "on-demand"
#: Products of one kind differ in these; an older file lacks some of them.
_USUAL = {
    "tenancy": ("shared",),
    "preInstalledSw": ("na", ""),
    "capacitystatus": ("used", ""),
    # A block of capacity costs nothing by the hour: it is paid for when it is booked.
    "marketoption": ("ondemand", ""),
    # Not what one's own licence, or none, pays: "Bring your own license", "License Included - Infrastructure".
    "licenseModel": ("no license required", "license included"),
}
_FAMILIES = ("Compute Instance", "Compute Instance (bare metal)")
#: By what they are called at the end of a usage type, behind the region's own prefix.
_KINDS = {
    "EBS:VolumeUsage.gp3": Kind.DISK,
    "EBS:SnapshotUsage": Kind.BACKUP,
    "PublicIPv4:InUseAddress": Kind.ADDRESS,
    "DataTransfer-Out-Bytes": Kind.TRAFFIC,
}
#: What is counted. A GB of AWS has 2**30 bytes.
_UNITS = {
    "hrs": Per.HOUR,
    "hours": Per.HOUR,
    "gb-mo": Per.GIB_MONTH,
    "gb-month": Per.GIB_MONTH,
    "gb": Per.GIB,
}
_YEARS = {"1yr": 1, "3yr": 3}
_UPFRONT = {"noupfront": "", "partialupfront": "-partial-upfront", "allupfront": "-all-upfront"}


@dataclass(frozen=True)
class Machine:
    """`system`: its operating system. `memory` in bytes. `arm`: it does not run what was made for other machines."""

    name: str
    system: str
    cores: float
    memory: int
    arm: bool


@dataclass(frozen=True)
class Cost:
    """Of a machine in an hour, or of what its kind is paid by."""

    purchase: str
    amount: Decimal
    currency: str


class Product:
    """One product of the file."""

    def __init__(self, product: Any) -> None:
        found = product if isinstance(product, dict) else {}
        attributes = found.get("attributes")
        self._attributes: Mapping[str, Any] = attributes if isinstance(attributes, dict) else {}
        self._family = found.get("productFamily")

    def _text(self, key: str) -> str:
        """Empty also for what could not be shown on a terminal."""
        value = self._attributes.get(key)
        return value if isinstance(value, str) and value.isprintable() else ""

    @property
    def regions(self) -> Sequence[str]:
        """The names of its region: the code, and how people call it."""
        # An Outpost is AWS's hardware in a customer's own rooms.
        if self._text("locationType") == "AWS Outposts":
            return ()
        keys = ("regionCode", "location", "fromRegionCode", "fromLocation")
        return [name for key in keys if (name := self._text(key))]

    @property
    def name(self) -> str:
        return self._text("instanceType")

    @property
    def system(self) -> str:
        """Its operating system, when it is a machine as it is meant here; else empty."""
        usual = all(self._text(key).casefold() in values for key, values in _USUAL.items())
        return self._text("operatingSystem") if usual and self._family in _FAMILIES else ""

    @property
    def machine(self) -> Machine:
        """Raises ValueError when it does not say how large it is."""
        cores = float(self._text("vcpu"))
        # Old files have commas in great numbers.
        memory = parse_size(self._text("memory").replace(",", ""))
        name = self.name
        if not (name and 0 < cores <= 4096 and memory):
            raise ValueError(f"{name!r:.40} does not say how large it is")
        # `processorArchitecture` is 64-bit for both.
        processor = f"{self._text('physicalProcessor')} {self._text('processorArchitecture')}".casefold()
        arm = any(word in processor for word in ("graviton", "arm64", "apple"))
        return Machine(name, self.system, cores, memory, arm)

    @property
    def kind(self) -> Kind | None:
        """What it is beside machines."""
        said = self._text("usagetype")
        return next((kind for end, kind in _KINDS.items() if said == end or said.endswith(f"-{end}")), None)


def machine_costs(term: str, offers: Any) -> Iterator[Cost]:
    """`term`: OnDemand or Reserved; `offers`: what it has of one SKU. Raises ValueError for an absurd price."""
    for offer in _mappings(offers):
        purchase, years = _purchase(term, offer.get("termAttributes"))
        parts = list(_parts(offer, years)) if purchase else []
        total = sum((value for value, _ in parts), Decimal(0))
        # Nobody gets a machine for nothing: what costs nothing by the hour is paid for in another way.
        if total and len({of for _, of in parts}) == 1:
            yield Cost(purchase, total, parts[0][1])


def _parts(offer: Mapping[str, Any], years: int) -> Iterator[tuple[Decimal, str]]:
    """What is paid for each hour, and for each hour's part of what is paid before the first of them."""
    hourly = False
    for dimension in _dimensions(offer):
        if _unit(dimension) is Per.HOUR and not hourly:
            hourly = True
            yield _paid(dimension)
        elif years and dimension.get("unit") == "Quantity":
            value, of = _paid(dimension)
            yield value / (years * YEAR_HOURS), of


def _purchase(term: str, attributes: Any) -> tuple[str, int]:
    """How a term of it is called here, and for how many years it binds; empty for those that are not known here."""
    if term == "OnDemand":
        return ON_DEMAND, 0
    said = {key: value.replace(" ", "").casefold() for key, value in _strings(attributes)}
    years, upfront = _YEARS.get(said.get("LeaseContractLength", "")), _UPFRONT.get(said.get("PurchaseOption", ""))
    if term != "Reserved" or years is None or upfront is None or said.get("OfferingClass", "standard") != "standard":
        return "", 0
    return f"reserved-{years}y{upfront}", years


def kind_costs(term: str, offers: Any, per: Per) -> Iterator[Cost]:
    """Of what is paid by `per`; of several steps the first that costs something. Raises ValueError as above."""
    for offer in _mappings(offers) if term == "OnDemand" else ():
        for dimension in _dimensions(offer):
            value, of = _paid(dimension)
            unit = _unit(dimension)
            if (unit, per) == (Per.HOUR, Per.MONTH):
                value, unit = value * MONTH_HOURS, per
            if value and unit is per:
                yield Cost(ON_DEMAND, value, of)
                break


def _paid(dimension: Mapping[str, Any]) -> tuple[Decimal, str]:
    """Raises ValueError. A file of China has yuan; who has dollars and others means these."""
    prices = dimension.get("pricePerUnit")
    if not isinstance(prices, dict) or not prices:
        raise ValueError("its price is not there")
    code = "USD" if "USD" in prices else min(prices)
    return amount(prices[code]), currency(code)


def _unit(dimension: Mapping[str, Any]) -> Per | None:
    unit = dimension.get("unit")
    return _UNITS.get(unit.casefold()) if isinstance(unit, str) else None


def _dimensions(offer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What is paid for each unit: from the first unit on, then the steps of great quantities."""
    return sorted(_mappings(offer.get("priceDimensions")), key=_begin)


def _begin(dimension: Mapping[str, Any]) -> Decimal:
    try:
        return amount(dimension.get("beginRange", "0"))
    except ValueError:
        return Decimal(0)


def _mappings(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value.values() if isinstance(each, dict)] if isinstance(value, dict) else []


def _strings(value: Any) -> list[tuple[str, str]]:
    return [(key, said) for key, said in value.items() if isinstance(said, str)] if isinstance(value, dict) else []
