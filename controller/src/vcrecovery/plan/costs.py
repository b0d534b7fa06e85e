"""The sections of the plan that say what costs money, and who knows what it costs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from vcrecovery.plan.fields import AbsolutePath, Duration, Name, Section, Size

_Word = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Currency = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]


class MachineSize(Section):
    """A machine by what it has at least: the cheapest is taken."""

    cores: float = Field(gt=0, le=4096)
    memory: Size = Field(examples=["8GiB"])


class Machine(Section):
    """A machine that is paid for, or would be: its `machine` or its `size`."""

    machine: _Word | None = Field(None, description="its name in a price list", examples=["t3.2xlarge"])
    size: MachineSize | None = Field(None, description="in place of its name")
    purchase: _Word = Field(
        "on-demand", description="how it is bought, as the price list calls it", examples=["reserved-1y", "spot"]
    )
    disk: Size | None = Field(None, description="that it has, where a disk is paid for", examples=["40GiB"])
    addresses: int = Field(0, ge=0, le=1000, description="public ones, where these are paid for")

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.machine is None) == (self.size is None):
            raise ValueError("needs one of machine (its name in a price list) and size (its cores and memory)")
        return self


class SecondaryCost(Machine):
    """What a secondary costs."""

    shared_by: int = Field(1, ge=1, le=1000, description="how many providers share it, each paying an equal part")


class ServiceCost(Machine):
    """What a second VM for the service would be: what its protection is compared with."""

    memory: Size | None = Field(
        None,
        description="what its standby needs while it serves, for `plan advise`; null: what that VM has",
        examples=["512MiB"],
    )
    traffic: Size | None = Field(
        None, description="what its sync sends in a month, where traffic is paid for", examples=["30GiB"]
    )
    provider: Name | None = Field(None, description="the tenant who pays for it")


class PriceList(Section):
    """Who knows prices: one of `file`, `csv` and `aws`."""

    file: AbsolutePath | None = Field(
        None, description="prices of your own, also of your hardware", examples=["/etc/vcrecovery/prices.yml"]
    )
    csv: AbsolutePath | None = Field(
        None, description="a table, as a spreadsheet writes it", examples=["/etc/vcrecovery/prices.csv"]
    )
    aws: AbsolutePath | None = Field(
        None, description="AWS's offer file for Amazon EC2", examples=["/var/lib/vcrecovery/AmazonEC2.json"]
    )
    region: _Word | None = Field(None, description="aws: which", examples=["eu-central-1"])
    operating_system: _Word = Field("Linux", description="aws: with its licence", examples=["RHEL", "Windows"])

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        named = [kind for kind in ("file", "csv", "aws") if getattr(self, kind) is not None]
        if len(named) != 1:
            raise ValueError(f"needs one of file, csv and aws, and has {' and '.join(named) or 'none'}")
        if self.aws is not None and self.region is None:
            raise ValueError("aws needs region: prices differ between regions")
        return self


class Split(StrEnum):
    """What the services of a secondary pay of it."""

    EQUALLY = "equally"
    MEMORY = "memory"


class Costs(Section):
    """What `vcrecovery cost` and the reports reckon with."""

    currency: Currency = Field("USD", description="of every sum (ISO 4217)")
    prices: list[PriceList] = Field(
        min_length=1, description="who knows prices; of several that know one, the first counts"
    )
    failed: Duration = Field(
        86400.0, description="how long in a year a service runs from its standby; prices what is booted on failure"
    )
    split: Split = Field(
        Split.EQUALLY,
        description="what the services of a secondary pay of it: equal parts, or as much as each needs of its memory"
        " (their cost.memory)",
    )
