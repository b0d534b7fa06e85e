"""What AWS's offer file of Amazon EC2 says of prices."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from offer_files import ALL_UPFRONT, NO_UPFRONT, OfferFile

from vcrecovery.cost.aws_offers import AwsOffers
from vcrecovery.cost.prices import Kind, MachineOffer, MissingPriceError, Per, Price

Offers = Callable[..., AwsOffers]
GIB = 2**30


@pytest.fixture
def offers(tmp_path: Path) -> Offers:
    """The source of a file that a test says."""

    def made(file: OfferFile, system: str = "Linux", region: str = "eu-central-1") -> AwsOffers:
        return AwsOffers(file.write(tmp_path / "offers.json"), region, system, tmp_path / "cache", lambda _: None)

    return made


def hourly(offer: MachineOffer | None) -> list[str]:
    assert offer is not None
    assert all((price.per, price.currency) == (Per.HOUR, "USD") for price in offer.prices)
    return [f"{price.amount.normalize():f}" for price in offer.prices]


def test_a_machine_is_known_by_its_name(offers: Offers, tmp_path: Path) -> None:
    found = offers(OfferFile().machine("m5.large").machine("m5.xlarge", "0.23")).machine("m5.large", "on-demand")
    source = f"{tmp_path}/offers.json (eu-central-1, Linux)"
    price = Price(Decimal("0.115"), "USD", Per.HOUR, "m5.large", source, date(2026, 11, 20))
    assert found == MachineOffer("m5.large", 2, 8 * GIB, "on-demand", [price])


def test_another_region_may_be_called_as_people_do(offers: Offers) -> None:
    file = OfferFile().machine().machine(hourly="0.096", regionCode="us-east-2", location="US East (Ohio)")
    assert hourly(offers(file, region="us-east-2").machine("m5.large", "on-demand")) == ["0.096"]
    assert hourly(offers(file, region="US East (Ohio)").machine("m5.large", "on-demand")) == ["0.096"]


@pytest.mark.parametrize(
    "changed",
    [
        {"tenancy": "Dedicated"},
        {"tenancy": "Host"},
        {"preInstalledSw": "SQL Std"},
        {"capacitystatus": "UnusedCapacityReservation"},
        {"marketoption": "CapacityBlock"},
        {"licenseModel": "Bring your own license"},
        {"licenseModel": "License Included - Infrastructure"},
        {"locationType": "AWS Outposts"},
        {"regionCode": "eu-central-2", "location": "Europe (Zurich)"},
        {"operatingSystem": "RHEL"},
    ],
)
def test_a_machine_that_is_sold_otherwise_is_another(changed: dict[str, Any], offers: Offers) -> None:
    file = OfferFile().machine(hourly="0.01", **changed).machine(hourly="0.115").machine(hourly="0.9", **changed)
    assert hourly(offers(file).machine("m5.large", "on-demand")) == ["0.115"]


def test_a_machine_that_costs_nothing_is_not_sold_so(offers: Offers) -> None:
    file = OfferFile().machine().machine("p5.48xlarge", "0.0000000000")
    assert offers(file).machine("p5.48xlarge", "on-demand") is None


@pytest.mark.parametrize("system", ["RHEL", "rhel"])
def test_the_licence_is_what_it_costs_more_than_linux(system: str, offers: Offers) -> None:
    file = OfferFile().machine(hourly="0.115").machine(hourly="0.1438", operatingSystem="RHEL")
    found = offers(file, system).machine("m5.large", "on-demand")
    assert hourly(found) == ["0.115", "0.0288"]
    assert found is not None
    assert [price.what for price in found.prices] == ["m5.large", "m5.large, licence of RHEL"]


@pytest.mark.parametrize("linux", [None, "0.2", "0.1438"])
def test_where_linux_does_not_tell_it_stays_in_one(linux: str | None, offers: Offers) -> None:
    file = OfferFile().machine(hourly="0.1438", operatingSystem="RHEL").machine(hourly=linux)
    found = offers(file, "RHEL").machine("m5.large", "on-demand")
    assert hourly(found) == ["0.1438"]
    assert found is not None
    assert found.prices[0].what == "m5.large, with RHEL"


def test_where_linux_has_two_prices_nobody_knows_the_licence(offers: Offers) -> None:
    file = OfferFile().machine(hourly="0.1438", operatingSystem="RHEL").machine(hourly="0.1").machine(hourly="0.11")
    assert hourly(offers(file, "RHEL").machine("m5.large", "on-demand")) == ["0.1438"]


def test_reserved_machines(offers: Offers) -> None:
    """What is paid before is spread over the hours: 876 over a year is 0.1."""
    reserved = {
        NO_UPFRONT: ("0.072", ""),
        ALL_UPFRONT: ("0.0000000000", "876"),
        ("3yr", "standard", "Partial Upfront"): ("0.03", "525.6"),
        ("3yr", "convertible", "No Upfront"): ("0.05", ""),
    }
    source = offers(OfferFile().machine(reserved=reserved))
    expected = {
        "on-demand": "0.115",
        "reserved-1y": "0.072",
        "reserved-1y-all-upfront": "0.1",
        "reserved-3y-partial-upfront": "0.05",
    }
    assert sorted(source.known_as("m5.large")) == sorted(expected)
    for purchase, price in expected.items():
        found = source.machine("m5.large", purchase)
        assert hourly(found) == [price]
        assert found is not None
        assert found.purchase == purchase


def test_the_licence_of_a_reserved_machine(offers: Offers) -> None:
    file = OfferFile()
    for system, paid in (("Linux", "876"), ("SUSE", "963.6")):
        file.machine(operatingSystem=system, reserved={ALL_UPFRONT: ("0", paid)})
    assert hourly(offers(file, "SUSE").machine("m5.large", "reserved-1y-all-upfront")) == ["0.1", "0.01"]


def test_what_it_does_not_know(offers: Offers) -> None:
    source = offers(OfferFile().machine("m5.large").machine("m5.xlarge").machine("t3.nano"))
    assert source.machine("m5.large", "spot") is None
    assert source.known_as("m5.large") == ["on-demand"]
    assert source.machine("m5.lrge", "on-demand") is None
    assert source.known_as("m5.lrge") == []
    assert source.near("m5.lrge") == ["m5.large", "m5.xlarge"]
    assert list(source.rates()) == []


def test_the_cheapest_that_fits(offers: Offers) -> None:
    file = (
        OfferFile()
        .machine("little", "0.01", vcpu="1", memory="32 GiB")
        .machine("narrow", "0.02", vcpu="8", memory="7.5 GiB")
        .machine("m6g.large", "0.03", vcpu="8", memory="32 GiB", physicalProcessor="AWS Graviton2 Processor")
        .machine("differs", "0.04", vcpu="8", memory="32 GiB")
        .machine("differs", "0.05", vcpu="8", memory="32 GiB")
        .machine("great", "0.9", vcpu="448", memory="12,288 GiB")
        .machine("fits", "0.1", vcpu="2", memory="8 GiB", reserved={NO_UPFRONT: ("0.08", "")})
        # As a text it would come first.
        .machine("dear", "0.0999999", vcpu="2", memory="8 GiB")
        .machine("dearer", "10", vcpu="2", memory="8 GiB")
    )
    source = offers(file)
    assert [offer.name for offer in source.fitting(2, 8 * GIB, "on-demand")] == ["dear"]
    assert [offer.name for offer in source.fitting(2, 8 * GIB, "reserved-1y")] == ["fits"]
    assert [offer.name for offer in source.fitting(9, 8 * GIB, "on-demand")] == ["great"]
    assert source.fitting(2, 12_289 * GIB, "on-demand") == []
    assert source.fitting(2, 8 * GIB, "spot") == []
    assert hourly(source.machine("m6g.large", "on-demand")) == ["0.03"]


def test_differing_prices_are_taken_for_none(tmp_path: Path) -> None:
    said: list[str] = []
    file = OfferFile().machine(hourly="0.1150").machine(hourly="0.115").machine("t3.nano", "10").machine("t3.nano", "9")
    path = file.write(tmp_path / "offers.json")
    source = AwsOffers(path, "eu-central-1", "Linux", tmp_path / "cache", said.append)
    assert hourly(source.machine("m5.large", "on-demand")) == ["0.115"]
    with pytest.raises(
        MissingPriceError, match=r"offers.json .*differing prices of t3.nano on-demand.*: 9 USD, 10 USD"
    ):
        source.machine("t3.nano", "on-demand")
    assert source.known_as("t3.nano") == []
    assert said[-1] == f"{path}: left out, since their prices differ: t3.nano on-demand"


def test_what_costs_money_beside_machines(offers: Offers) -> None:
    file = (
        OfferFile()
        .machine()
        .other("Storage", "EUC1-EBS:VolumeUsage.gp2", "GB-Mo", "0.119")
        .other("Storage", "EUC1-EBS:VolumeUsage.gp3", "GB-Mo", "0.0952")
        .other("System Operation", "EUC1-EBS:VolumeP-IOPS.gp3", "IOPS-Mo", "0.006")
        .other("Storage Snapshot", "EUC1-EBS:SnapshotUsage", "GB-Mo", "0.054")
        .other("Storage Snapshot", "EUC1-EBS:SnapshotUsage", "GB-Mo", "0.05", locationType="AWS Outposts")
        .other("Storage Snapshot", "EUC1-EBS:SnapshotArchiveStorage", "GB-Mo", "0.0135")
    )
    source = offers(file)
    disk, backup = source.price(Kind.DISK), source.price(Kind.BACKUP)
    assert disk is not None
    assert backup is not None
    assert (disk.amount, disk.per, disk.what) == (Decimal("0.0952"), Per.GIB_MONTH, "gp3 volume")
    assert (backup.amount, backup.per) == (Decimal("0.054"), Per.GIB_MONTH)
    assert source.price(Kind.ADDRESS) is None
    assert source.price(Kind.TRAFFIC) is None


def test_addresses_and_traffic_where_a_file_has_them(offers: Offers) -> None:
    """An address is paid by the hour; of traffic, the first step that costs something counts."""
    place = {"regionCode": "", "location": "", "fromRegionCode": "eu-central-1"}
    file = (
        OfferFile()
        .machine()
        .other("VpcPublicIPv4Address", "EUC1-PublicIPv4:InUseAddress", "Hrs", "0.005")
        .other("Data Transfer", "EUC1-DataTransfer-Out-Bytes", "GB", "0", "0.09", "0.085", **place)
        .other("Data Transfer", "EUC1-USE1-AWS-Out-Bytes", "GB", "0.02", **place)
    )
    address, traffic = offers(file).price(Kind.ADDRESS), offers(file).price(Kind.TRAFFIC)
    assert address is not None
    assert traffic is not None
    assert (address.amount, address.per) == (Decimal("3.65"), Per.MONTH)
    assert (traffic.amount, traffic.per) == (Decimal("0.09"), Per.GIB)


def test_machines_that_do_not_say_how_large_they_are(tmp_path: Path) -> None:
    said: list[str] = []
    file = OfferFile().machine().machine("m5.none", memory="NA").machine("m5.zero", vcpu="0").machine("m5.\x1b[1m")
    path = file.write(tmp_path / "offers.json")
    source = AwsOffers(path, "eu-central-1", "Linux", tmp_path / "cache", said.append)
    assert source.machine("m5.none", "on-demand") is None
    assert hourly(source.machine("m5.large", "on-demand")) == ["0.115"]
    # One without a name is called by its SKU.
    names = f"{3:016X}, m5.none, m5.zero"
    assert said[1:] == [f"{path}: left out, since they do not say how large they are: {names}"]


def test_differing_prices_of_a_disk(offers: Offers) -> None:
    file = OfferFile().machine()
    for value in ("0.08", "0.09"):
        file.other("Storage", "EUC1-EBS:VolumeUsage.gp3", "GB-Mo", value)
    with pytest.raises(MissingPriceError, match="differing prices of disk"):
        offers(file).price(Kind.DISK)


def test_china_is_paid_in_yuan(offers: Offers) -> None:
    file = OfferFile("CNY").machine(hourly="0.8", regionCode="cn-north-1", reserved={ALL_UPFRONT: ("0", "876")})
    source = offers(file, region="cn-north-1")
    for purchase, value in (("on-demand", "0.8"), ("reserved-1y-all-upfront", "0.1")):
        found = source.machine("m5.large", purchase)
        assert found is not None
        assert (found.prices[0].amount, found.prices[0].currency) == (Decimal(value), "CNY")
