"""Offer files of Amazon EC2 in AWS's form: small ones said in a test, and one as large as is wanted."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TextIO

HEAD: dict[str, Any] = {
    "formatVersion": "v1.0",
    "disclaimer": "This pricing list is for informational purposes only.",
    "offerCode": "AmazonEC2",
    "version": "20261120120000",
    "publicationDate": "2026-11-20T12:00:00Z",
}
_HOURLY, _UPFRONT = "6YS6EN2CT7", "2TG2D8R56U"
#: How a reserved machine is bought: years, class, and when it is paid.
Reserved = tuple[str, str, str]
NO_UPFRONT: Reserved = ("1yr", "standard", "No Upfront")
ALL_UPFRONT: Reserved = ("1yr", "standard", "All Upfront")


def _machine(name: str, **changed: str) -> dict[str, str]:
    return {
        "servicecode": "AmazonEC2",
        "location": "EU (Frankfurt)",
        "locationType": "AWS Region",
        "instanceType": name,
        "currentGeneration": "Yes",
        "instanceFamily": "General purpose",
        "vcpu": "2",
        "physicalProcessor": "Intel Xeon Platinum 8175",
        "clockSpeed": "3.1 GHz",
        "memory": "8 GiB",
        "storage": "EBS only",
        "networkPerformance": "Up to 10 Gigabit",
        "processorArchitecture": "64-bit",
        "tenancy": "Shared",
        "operatingSystem": "Linux",
        "licenseModel": "No License required",
        "usagetype": f"EUC1-BoxUsage:{name}",
        "operation": "RunInstances",
        "availabilityzone": "NA",
        "capacitystatus": "Used",
        "classicnetworkingsupport": "false",
        "dedicatedEbsThroughput": "Up to 2120 Mbps",
        "ecu": "10",
        "enhancedNetworkingSupported": "Yes",
        "gpuMemory": "NA",
        "intelAvxAvailable": "Yes",
        "intelAvx2Available": "Yes",
        "intelTurboAvailable": "Yes",
        "marketoption": "OnDemand",
        "normalizationSizeFactor": "4",
        "preInstalledSw": "NA",
        "processorFeatures": "Intel AVX; Intel AVX2; Intel AVX512; Intel Turbo",
        "regionCode": "eu-central-1",
        "servicename": "Amazon Elastic Compute Cloud",
        "vpcnetworkingsupport": "true",
        **changed,
    }


def _price(code: str, unit: str, value: str, currency: str, begin: str = "0") -> dict[str, Any]:
    return {
        "rateCode": code,
        "description": f"{value} per unit",
        "beginRange": begin,
        "endRange": "Inf",
        "unit": unit,
        "pricePerUnit": {currency: value},
        "appliesTo": [],
    }


def _term(sku: str, code: str, prices: Mapping[str, Any], attributes: Mapping[str, str]) -> dict[str, Any]:
    return {
        "offerTermCode": code,
        "sku": sku,
        "effectiveDate": "2026-11-01T00:00:00Z",
        "priceDimensions": prices,
        "termAttributes": attributes,
    }


class OfferFile:
    """What a test says, to be written."""

    def __init__(self, currency: str = "USD", **head: Any) -> None:
        self._currency = currency
        self.head = {**HEAD, **head}
        self.products: dict[str, Any] = {}
        self.on_demand: dict[str, Any] = {}
        self.reserved: dict[str, Any] = {}

    def machine(
        self,
        name: str = "m5.large",
        hourly: str | None = "0.1150000000",
        reserved: Mapping[Reserved, tuple[str, str]] | None = None,
        **changed: str,
    ) -> Self:
        """`reserved`: what is paid by the hour and before; `changed`: its attributes."""
        sku = self._product("Compute Instance", _machine(name, **changed))
        if hourly is not None:
            self._sold(sku, "Hrs", hourly)
        for number, ((years, offered, option), (by_hour, before)) in enumerate((reserved or {}).items()):
            code = f"{sku}.RESERVED{number}"
            prices = {f"{code}.{_HOURLY}": _price(f"{code}.{_HOURLY}", "Hrs", by_hour, self._currency)}
            if before:
                upfront = _price(f"{code}.{_UPFRONT}", "Quantity", before, self._currency)
                prices[f"{code}.{_UPFRONT}"] = upfront
            said = {"LeaseContractLength": years, "OfferingClass": offered, "PurchaseOption": option}
            self.reserved.setdefault(sku, {})[code] = _term(sku, code, prices, said)
        return self

    def other(self, family: str, usage: str, unit: str, *values: str, **changed: str) -> Self:
        """Something beside machines; of several `values` each is for greater quantities."""
        attributes = {"regionCode": "eu-central-1", "location": "EU (Frankfurt)", "usagetype": usage, **changed}
        sku = self._product(family, attributes)
        self._sold(sku, unit, *values)
        return self

    def _product(self, family: str, attributes: Mapping[str, str]) -> str:
        sku = f"{len(self.products):016X}"
        self.products[sku] = {"sku": sku, "productFamily": family, "attributes": attributes}
        return sku

    def _sold(self, sku: str, unit: str, *values: str) -> None:
        code = f"{sku}.JRTCKXETXF"
        prices = {
            f"{code}.{number}": _price(f"{code}.{number}", unit, value, self._currency, str(10240 * number))
            for number, value in reversed(list(enumerate(values)))
        }
        self.on_demand[sku] = {code: _term(sku, code, prices, {})}

    @property
    def text(self) -> str:
        terms = {"OnDemand": self.on_demand, "Reserved": self.reserved}
        whole = {**self.head, "products": self.products, "terms": terms, "attributesList": {}}
        return json.dumps(whole, indent=2, separators=(",", " : "))

    def write(self, path: Path) -> Path:
        path.write_text(self.text)
        return path


REGIONS = ("eu-central-1", "us-east-1", "us-west-2", "eu-west-1", "ap-southeast-3", "sa-east-1", "cn-north-1")
SYSTEMS = ("Linux", "RHEL", "Windows", "SUSE", "Ubuntu Pro")
_SOFTWARE = ("NA", "SQL Std", "SQL Ent", "SQL Web")
_TENANCY = ("Shared", "Dedicated", "Host")
_CAPACITY = ("Used", "UnusedCapacityReservation", "AllocatedCapacityReservation")
_FAMILIES = [f"{letter}{number}{kind}" for letter in "mcrt" for number in range(3, 9) for kind in ("", "a", "i", "gd")]
_SIZES = ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge", "metal")


def write_large(path: Path, size: int) -> None:
    """A valid one of about so many bytes, whose machines begin with those that are meant."""
    with path.open("w") as file:
        head = ",\n".join(f'  "{key}" : {json.dumps(value)}' for key, value in HEAD.items())
        file.write(f'{{\n{head},\n  "products" : {{\n')
        # As in AWS's, most of it are the terms.
        number = _section(file, _large_products(), size // 7)
        file.write('\n  },\n  "terms" : {\n    "OnDemand" : {\n')
        _section(file, _large_terms(number, [("", "", "", "0.1150000000")]))
        file.write('\n    },\n    "Reserved" : {\n')
        said = itertools.product(("1yr", "3yr"), ("standard", "convertible"), ("No Upfront", "All Upfront"))
        _section(file, _large_terms(number, [(*each, "0.0720000000") for each in said]))
        file.write("\n    }\n  }\n}\n")


def _section(file: TextIO, members: Iterator[str], until: int | None = None) -> int:
    """How many it has. Ends after so many bytes."""
    written = number = 0
    for number, member in enumerate(members, 1):
        file.write(member if number == 1 else f",\n{member}")
        written += len(member)
        if until is not None and written > until:
            break
    return number


def _large_products() -> Iterator[str]:
    """SKUs are numbers. There are 800,000 of them."""
    fields = ("tenancy", "preInstalledSw", "capacitystatus", "operatingSystem", "regionCode")
    changed = {field: f"%({field})s" for field in (*fields, "vcpu", "memory")}
    form = json.dumps(_machine("%(instanceType)s", **changed), indent=2, separators=(",", " : "))
    names = [f"{family}.{size}" for size, family in itertools.product(_SIZES, _FAMILIES)]
    number = 0
    for at, name in enumerate(names):
        size = {"instanceType": name, "vcpu": str(2 + at % 7), "memory": f"{8 + at % 7} GiB"}
        for values in itertools.product(_TENANCY, _SOFTWARE, _CAPACITY, SYSTEMS, REGIONS):
            number += 1
            attributes = form % {**size, **dict(zip(fields, values, strict=True))}
            sku = f'"sku" : "{number:016X}",\n"productFamily" : "Compute Instance"'
            yield f'"{number:016X}" : {{\n{sku},\n"attributes" : {attributes}\n}}'


def _large_terms(number: int, ways: Sequence[tuple[str, str, str, str]]) -> Iterator[str]:
    """For each SKU: years, class, option and price of each way."""
    terms = {}
    for at, (years, offered, option, value) in enumerate(ways):
        code = f"%(sku)s.WAY{at}"
        said = {"LeaseContractLength": years, "OfferingClass": offered, "PurchaseOption": option} if years else {}
        rate = f"{code}.{_HOURLY}"
        terms[code] = _term("%(sku)s", code, {rate: _price(rate, "Hrs", value, "USD")}, said)
    form = json.dumps(terms, indent=2, separators=(",", " : "))
    for at in range(1, number + 1):
        sku = f"{at:016X}"
        yield f'"{sku}" : {form % {"sku": sku}}'
