"""What protection costs, as an operator asks for it; the paper's figures 9b and 10b."""

from __future__ import annotations

import csv
import io
import json
import re
import textwrap
import time
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import yaml
from warm_program import vcrecovery

from vcrecovery.core.episode import Episode, Outcome, Request
from vcrecovery.core.lease import LeaseState
from vcrecovery.core.sent_bytes import SentCount
from vcrecovery.core.service_state import Side
from vcrecovery.cost.alternatives import Alternative, Way, alternatives
from vcrecovery.cost.book import PriceBook
from vcrecovery.cost.money import NoRateError, Rate, Rates
from vcrecovery.cost.month import Month, OnFor, Served, day_of, month_of, on_for, served
from vcrecovery.cost.price_file import PriceFile
from vcrecovery.cost.prices import MissingPriceError
from vcrecovery.cost.spent import Sent, spent
from vcrecovery.cost.split import Part, split
from vcrecovery.errors import ExitCode
from vcrecovery.plan.load import load_plan
from vcrecovery.plan.model import Plan
from vcrecovery.report.costs import month_table
from vcrecovery.store.freshness_book import FreshnessBook, hour_of
from vcrecovery.store.journal import Journal
from vcrecovery.store.leases import LeaseBook

ON = date(2026, 11, 25)
BERLIN = ZoneInfo("Europe/Berlin")
Changes = Callable[[dict[str, Any]], None]


def prices() -> dict[str, Any]:
    """AWS's on-demand prices of mid-2022 in Tokyo, where the paper was written; its licence is the difference."""
    return {
        "version": 1,
        "currency": "USD",
        "as_of": date(2022, 7, 1),
        "source": "AWS, ap-northeast-1",
        "machines": {
            "t3.2xlarge": {
                "cores": 8,
                "memory": "32GiB",
                "per_hour": {"on-demand": "0.4352"},
                "licence_per_hour": "0.13",
            },
            "t3.large": {"cores": 2, "memory": "8GiB", "per_hour": {"on-demand": "0.1088", "reserved-1y": "0.07"}},
            "closet": {
                "cores": 16,
                "memory": "64GiB",
                "own": {"price": 4380, "years": 5, "watts": 100, "per_kwh": "0.30", "rack_per_month": 20},
            },
        },
    }


def plan_data(folder: Path, services: int = 4) -> dict[str, Any]:
    named = [f"web{number}" for number in range(1, services + 1)]
    return {
        "version": 1,
        "state_dir": str(folder / "state"),
        "hypervisors": {"hv1": {}},
        "secondaries": {
            "sec1": {
                "network": {"bridge": "vcr0", "address": "10.20.0.1/24"},
                "receiver": {"address": "10.10.0.1"},
                "cost": {"machine": "t3.2xlarge"},
            }
        },
        "costs": {"prices": [{"file": str(folder / "prices.yml")}]},
        "services": {
            name: {
                "primary": {
                    "hypervisor": "hv1",
                    "uuid": f"6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e000{number}",
                    "address": f"10.10.0.1{number}",
                },
                "standby": {"secondary": "sec1", "address": f"10.20.0.1{number}"},
                "ports": [80],
                "cost": {"machine": "t3.2xlarge"},
            }
            for number, name in enumerate(named, 1)
        },
    }


class Shop:
    """A plan and a price file, changed as a test wants them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plan, self.prices = plan_data(folder), prices()

    @property
    def path(self) -> Path:
        (self.folder / "prices.yml").write_text(yaml.safe_dump(self.prices))
        path = self.folder / "plan.yml"
        path.write_text(yaml.safe_dump(self.plan))
        return path

    def loaded(self) -> tuple[Plan, PriceBook]:
        plan = load_plan(self.path)
        assert plan.costs is not None
        sources = [PriceFile(entry.file) for entry in plan.costs.prices if entry.file is not None]
        return plan, PriceBook(sources, plan.costs.currency, ON)

    def ways(self, providers: int = 4) -> dict[Way, Alternative]:
        return {entry.way: entry for entry in alternatives(*self.loaded(), providers)}

    def year(self, way: Way, providers: int = 4) -> Decimal:
        found = self.ways(providers)[way].a_year
        assert found is not None
        return round(found, 2)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


# -- the paper's --------------------------------------------------------------------------------------------------


def test_figure_9b_one_machine_in_place_of_four_saves_about_15_000_dollars_a_year(shop: Shop) -> None:
    this, second = shop.year(Way.THIS_PLAN), shop.year(Way.SECOND_VMS)
    assert this == Decimal("4951.15")
    assert second == round(4 * Decimal("0.5652") * 8760, 2)
    assert 14_500 < second - this < 15_500


def test_figure_10b_a_shared_machine_costs_each_provider_its_part(shop: Shop) -> None:
    alone = shop.year(Way.THIS_PLAN)
    shop.plan["costs"]["failed"] = 0.001
    assert shop.year(Way.BACKUPS) == 0
    assert [shop.year(Way.SHARED, n) for n in (1, 2, 4, 8)] == [round(alone / n, 2) for n in (1, 2, 4, 8)]


# -- what costs what ----------------------------------------------------------------------------------------------


def test_all_that_a_machine_has_is_paid_for(shop: Shop) -> None:
    shop.prices |= {"disk": "0.10", "backup": "0.05", "address": "3.60", "traffic": "0.09"}
    shop.plan["secondaries"]["sec1"]["cost"] |= {"machine": "t3.large", "disk": "100GiB", "addresses": 2}
    shop.plan["services"]["web1"]["cost"] |= {"disk": "40GiB", "traffic": "10GiB", "addresses": 1}
    this = shop.ways()[Way.THIS_PLAN]
    assert [(str(line.of), line.price.what, round(line.a_month, 2)) for line in this.lines] == [
        ("secondary sec1", "t3.large", Decimal("79.42")),
        ("secondary sec1", "disk", Decimal("10.00")),
        ("secondary sec1", "address", Decimal("7.20")),
        ("service web1", "traffic", Decimal("0.90")),
    ]
    backups = [line.price.what for line in shop.ways()[Way.BACKUPS].lines if str(line.of) == "service web1"]
    # A backup has no address.
    assert backups == ["t3.2xlarge", "t3.2xlarge, licence", "backup", "traffic"]


def test_what_is_booted_on_failure_is_paid_by_the_hour(shop: Shop) -> None:
    shop.plan["secondaries"]["sec1"]["cost"] = {"machine": "t3.large", "purchase": "reserved-1y"}
    shop.plan["costs"]["failed"] = "100h"
    assert shop.year(Way.THIS_PLAN) == Decimal("613.20")
    assert shop.year(Way.COLD_SECONDARY) == Decimal("10.88")


def test_hardware_of_ones_own_is_paid_for_while_it_is_off(shop: Shop) -> None:
    shop.plan["secondaries"]["sec1"]["cost"]["machine"] = "closet"
    # 4,380 over 43,800 hours, 100 W at 0.30 a kWh, and its place in the rack.
    assert shop.year(Way.THIS_PLAN) == Decimal("0.13") * 8760 + 240
    assert shop.year(Way.COLD_SECONDARY) == shop.year(Way.THIS_PLAN)


def test_the_cheapest_machine_of_a_size_is_looked_up_and_said(shop: Shop) -> None:
    shop.plan["secondaries"]["sec1"]["cost"] = {"size": {"cores": 2, "memory": "4GiB"}}
    del shop.prices["machines"]["closet"]
    this = shop.ways()[Way.THIS_PLAN]
    assert this.lines[0].price.what == "t3.large"
    assert "sec1: t3.large (2 cores, 8 GiB) is the cheapest with 2 cores and 4 GiB" in this.notes
    assert "is the cheapest with 2 cores" in vcrecovery("cost", "--plan", shop.path).stdout


def test_a_shared_secondary_is_paid_for_in_parts(shop: Shop) -> None:
    alone = shop.year(Way.THIS_PLAN)
    shop.plan["secondaries"]["sec1"]["cost"]["shared_by"] = 2
    assert shop.year(Way.THIS_PLAN) == round(alone / 2, 2)


def test_providers_pay_for_their_services(shop: Shop) -> None:
    for name, provider in (("web1", "a"), ("web2", "a"), ("web3", "b")):
        shop.plan["services"][name]["cost"]["provider"] = provider
    plan, book = shop.loaded()
    this = alternatives(plan, book, 1)[0]
    parts = {part.whose: round(part.a_month, 2) for part in split(plan, this.lines)}
    month = this.a_month
    assert month is not None
    assert parts == {
        "provider a": round(month / 2, 2),
        "provider b": round(month / 4, 2),
        "service web4": round(month / 4, 2),
    }


def with_spare(shop: Shop, **cost: Any) -> None:
    """Two of the four services have their spare on a second secondary, where nobody stands by."""
    shop.plan["secondaries"]["sec2"] = {
        "lxd": "/run/sec2/unix.socket",
        "network": {"bridge": "vcr0", "address": "10.30.0.1/24"},
        "receiver": {"address": "10.10.0.2"},
        **cost,
    }
    for number in (1, 2):
        spare = {"secondary": "sec2", "address": f"10.30.0.1{number}"}
        shop.plan["services"][f"web{number}"]["standby"]["spare"] = spare


def test_a_secondary_that_holds_spares_is_paid_for_by_those_who_have_them(shop: Shop) -> None:
    alone = shop.ways()[Way.THIS_PLAN].a_month
    assert alone is not None
    with_spare(shop, cost={"machine": "t3.large"})
    plan, book = shop.loaded()
    this = alternatives(plan, book, 1)[0]
    assert this.title == "this plan: 2 secondaries, in any mode"
    large = round(Decimal("0.1088") * 730, 2)
    assert this.a_month is not None
    assert round(this.a_month - alone, 2) == large
    assert [round(part.a_month - alone / 4, 2) for part in split(plan, this.lines)] == [large / 2, large / 2, 0, 0]


def test_a_secondary_that_holds_spares_says_what_it_is(shop: Shop) -> None:
    with_spare(shop)
    done = vcrecovery("cost", "--plan", shop.path)
    assert done.returncode == ExitCode.USAGE
    assert "no secondaries.sec2.cost" in done.stderr


def test_services_pay_for_the_memory_that_they_need(shop: Shop) -> None:
    shop.plan["costs"]["split"] = "memory"
    for name, memory in (("web1", "4GiB"), ("web2", "2GiB"), ("web3", "1GiB"), ("web4", "1GiB")):
        shop.plan["services"][name]["cost"]["memory"] = memory
    plan, book = shop.loaded()
    this = alternatives(plan, book, 1)[0]
    month = this.a_month
    assert month is not None
    assert [part.a_month / month for part in split(plan, this.lines)] == [Decimal(n) / 8 for n in (4, 2, 1, 1)]


def test_memory_that_nobody_says_is_no_share(shop: Shop) -> None:
    shop.plan["costs"]["split"] = "memory"
    done = vcrecovery("plan", "check", "--plan", shop.path)
    assert done.returncode == ExitCode.USAGE
    assert "web1: has no cost.memory, by which costs.split (memory) has secondaries paid for" in done.stdout


# -- money --------------------------------------------------------------------------------------------------------


def test_the_newest_rate_counts_that_is_not_after_the_day() -> None:
    rates = Rates(
        [
            Rate(date(2026, 11, 1), "EUR", "USD", Decimal("1.25")),
            Rate(date(2026, 12, 1), "EUR", "USD", Decimal(2)),
            Rate(date(2026, 1, 1), "EUR", "USD", Decimal(3)),
        ]
    )
    assert rates.between("EUR", "USD", ON).quote_per_base == Decimal("1.25")
    assert rates.between("USD", "EUR", ON).quote_per_base == Decimal("0.8")
    assert rates.between("CHF", "CHF", ON).quote_per_base == 1
    with pytest.raises(NoRateError, match="2025-01-01"):
        rates.between("EUR", "USD", date(2025, 1, 1))


def test_prices_are_turned_into_the_bills_currency(shop: Shop) -> None:
    dollars = shop.year(Way.THIS_PLAN)
    shop.plan["costs"]["currency"] = "EUR"
    shop.prices["rates"] = [{"day": date(2026, 1, 1), "base": "EUR", "quote": "USD", "rate": "1.25"}]
    assert shop.year(Way.THIS_PLAN) == round(dollars / Decimal("1.25"), 2)


# -- bad input ----------------------------------------------------------------------------------------------------


def no_machine(data: dict[str, Any]) -> None:
    data["secondaries"]["sec1"]["cost"]["machine"] = "t3.2xlrage"


def another_purchase(data: dict[str, Any]) -> None:
    data["services"]["web2"]["cost"]["purchase"] = "spot"


def no_disk_price(data: dict[str, Any]) -> None:
    data["secondaries"]["sec1"]["cost"]["disk"] = "1GiB"


def no_such_size(data: dict[str, Any]) -> None:
    data["secondaries"]["sec1"]["cost"] = {"size": {"cores": 4000, "memory": "8GiB"}}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (no_machine, "secondary sec1: machine t3.2xlrage has no price in"),
        (no_machine, "(did you mean t3.2xlarge?)"),
        (another_purchase, "service web2: machine t3.2xlarge has no price spot (known: on-demand)"),
        (no_disk_price, "secondary sec1: disk has no price in"),
        (no_such_size, "no machine that has 4000 cores and 8 GiB is priced on-demand"),
    ],
)
def test_a_missing_price_is_named_and_never_nothing(shop: Shop, change: Changes, said: str) -> None:
    change(shop.plan)
    with pytest.raises(MissingPriceError) as caught:
        shop.ways()
    assert said in str(caught.value)


def test_all_missing_prices_are_named_at_once(shop: Shop) -> None:
    no_machine(shop.plan)
    another_purchase(shop.plan)
    done = vcrecovery("cost", "--plan", shop.path)
    assert done.returncode == ExitCode.USAGE
    assert "t3.2xlrage" in done.stderr
    assert "service web2" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_two_currencies_without_a_rate(shop: Shop) -> None:
    shop.plan["costs"]["currency"] = "EUR"
    done = vcrecovery("cost", "--plan", shop.path)
    assert done.returncode == ExitCode.USAGE
    assert "no rate between them" in done.stderr
    assert "base: USD, quote: EUR" in done.stderr


def negative(data: dict[str, Any]) -> None:
    data["machines"]["t3.large"]["per_hour"]["on-demand"] = -1


def absurd(data: dict[str, Any]) -> None:
    data["machines"]["t3.large"]["per_hour"]["on-demand"] = "1e30"


def no_number(data: dict[str, Any]) -> None:
    data["disk"] = ".nan"


def no_version(data: dict[str, Any]) -> None:
    data["version"] = 2


def no_price(data: dict[str, Any]) -> None:
    data["machines"]["t3.large"]["per_hour"] = {}


def no_power_price(data: dict[str, Any]) -> None:
    del data["machines"]["closet"]["own"]["per_kwh"]


def slip(data: dict[str, Any]) -> None:
    data["storage"] = 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (negative, "machines.t3.large.per_hour.on-demand: a price of -1 is below zero"),
        (absurd, "a price of 1e30 is more than"),
        (no_number, "disk: "),
        (no_version, "version: "),
        (no_price, "machines.t3.large: needs a price"),
        (no_power_price, "watts needs per_kwh"),
        (slip, "storage: is no key of a price file"),
    ],
)
def test_a_bad_price_file_is_named_with_line_and_key(shop: Shop, change: Changes, said: str) -> None:
    change(shop.prices)
    done = vcrecovery("cost", "--plan", shop.path)
    assert done.returncode == ExitCode.USAGE
    assert said in done.stderr
    assert "prices.yml: line " in done.stderr


def test_a_price_file_that_is_not_there(shop: Shop) -> None:
    path = shop.path
    (shop.folder / "prices.yml").unlink()
    done = vcrecovery("cost", "--plan", path)
    assert done.returncode == ExitCode.USAGE
    assert "prices.yml cannot be read: No such file" in done.stderr


def test_a_plan_that_says_nothing_of_costs(shop: Shop) -> None:
    del shop.plan["secondaries"]["sec1"]["cost"]
    assert "no secondaries.sec1.cost" in vcrecovery("cost", "--plan", shop.path).stderr
    del shop.plan["costs"]
    assert "has no `costs`" in vcrecovery("cost", "--plan", shop.path).stderr


def test_what_cannot_be_compared_is_said(shop: Shop) -> None:
    del shop.plan["services"]["web3"]["cost"]
    second = shop.ways()[Way.SECOND_VMS]
    assert second.a_year is None
    assert second.unknown == "not known: web3 has no `cost`"
    assert "web3 has no `cost`" in vcrecovery("cost", "--plan", shop.path).stdout


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        ({"machine": "a", "size": {"cores": 1, "memory": "1GiB"}}, "needs one of machine"),
        ({"disk": "1GiB"}, "needs one of machine"),
        ({"machine": "a", "disk": "40"}, "is no size; write 512MiB, 40GiB or 2TB"),
        ({"machine": "a", "shared_by": 0}, "shared_by"),
    ],
)
def test_a_bad_cost_of_the_plan(shop: Shop, cost: dict[str, Any], said: str) -> None:
    shop.plan["secondaries"]["sec1"]["cost"] = cost
    assert said in vcrecovery("plan", "check", "--plan", shop.path).stdout


# -- output -------------------------------------------------------------------------------------------------------


def test_the_table(shop: Shop) -> None:
    said = vcrecovery("cost", "--plan", shop.path).stdout.splitlines()
    assert said[0] == "in USD, at prices of 2022-07-01, which is 4 years ago"
    assert said[3].split() == ["this", "plan:", "1", "secondary,", "in", "any", "mode", "412.60", "4,951.15"]
    assert next(line for line in said if line.startswith("a second set of 4 VMs")).endswith("+14,853.46")


def test_each_sum_can_be_traced(shop: Shop) -> None:
    said = vcrecovery("cost", "--explain", "--plan", shop.path).stdout
    assert "730 hours x 0.4352 USD per hour" in said
    assert "AWS, ap-northeast-1, 2022-07-01" in said


def test_machines_get_the_same(shop: Shop) -> None:
    data = json.loads(vcrecovery("cost", "--json", "--plan", shop.path).stdout)
    rows = list(csv.DictReader(io.StringIO(vcrecovery("cost", "--csv", "--plan", shop.path).stdout)))
    for entry in data["alternatives"]:
        of_it = [row for row in rows if row["part_of"] == entry["way"]]
        assert len(of_it) == len(entry["lines"])
        assert abs(sum(Decimal(row["month"]) for row in of_it) - Decimal(entry["month"])) < Decimal("0.05")
    both = vcrecovery("cost", "--csv", "--json", "--plan", shop.path)
    assert both.returncode == ExitCode.USAGE


DOCS = (Path(__file__).parents[3] / "docs/costs.md").read_text()


def documented(shop: Shop) -> Path:
    """The plan of the docs, with the price file there."""
    (found,) = re.findall(r"(?ms)^```text\n(.*?)^```$", DOCS)
    shop.prices = yaml.safe_load(found)
    costs, cost, _ = (yaml.safe_load(part) for part in re.findall(r"(?ms)^```yaml\n(.*?)^```$", DOCS))
    shop.plan = plan_data(shop.folder, 2)
    shop.plan["costs"] = {**costs["costs"], "prices": [{"file": str(shop.folder / "prices.yml")}]}
    shop.plan["secondaries"]["sec1"]["cost"] = yaml.safe_load(DOCS.split("cost: ", 1)[1].splitlines()[0])
    shop.plan["services"] = dict(zip(("web", "wiki"), shop.plan["services"].values(), strict=True))
    shop.plan["services"]["web"]["cost"] = cost["cost"]
    shop.plan["services"]["wiki"]["cost"] = {"machine": "m-2-4", "disk": "80GiB"}
    return shop.path


def test_the_documented_costs_are_what_it_prints(shop: Shop) -> None:
    said = vcrecovery("cost", "--plan", documented(shop)).stdout.splitlines()
    shown = textwrap.dedent(DOCS.split("$ vcrecovery cost\n", 1)[1].split("\n- ", 1)[0]).splitlines()
    while shown and not shown[-1]:
        shown.pop()
    assert said == shown


# -- a month ------------------------------------------------------------------------------------------------------


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).timestamp()


def test_months_are_the_operators(shop: Shop) -> None:
    now = at("2026-11-25 12:00")
    assert month_of("2026-03", now, BERLIN).hours == 743
    assert month_of("2026-10", now, BERLIN).hours == 745
    assert month_of("2025-12", now, BERLIN).end == at("2026-01-01 00:00")
    current = month_of(None, now, BERLIN)
    assert (current.name, current.past_hours, current.is_over) == ("2026-11", 24 * 24 + 12, False)
    assert day_of(at("2026-11-01 00:30"), BERLIN) == date(2026, 11, 1)
    # In the hour that comes twice, the month of its zone goes on.
    assert month_of(None, at("2026-11-01 00:30"), BERLIN).name == "2026-11"
    with pytest.raises(ValueError, match="has not begun yet"):
        month_of("2026-12", now, BERLIN)
    for name in ("2026-13", "2026-00", "november", "1969-01"):
        with pytest.raises(ValueError, match="is no month"):
            month_of(name, now, BERLIN)


def episode(
    ended: str | None, *, back: bool = False, outcome: Outcome = Outcome.DONE, to: str | None = None
) -> Episode:
    closed = None if ended is None else at(ended)
    return Episode(1, "web1", 1, "", Request(back=back, to=to), 0.0, (), closed, outcome if ended else None)


NOVEMBER = month_of("2026-11", at("2026-11-25 12:00"), BERLIN)


@pytest.mark.parametrize(
    ("history", "side", "expected"),
    [
        ([], Side.PRIMARY, Served(0, 0)),
        ([episode("2026-11-02 00:00")], Side.STANDBY, Served(23.5 * 24, 1)),
        ([episode("2026-10-30 00:00")], Side.STANDBY, Served(24.5 * 24, 1)),
        ([episode("2026-11-02 06:00", back=True), episode("2026-11-02 00:00")], Side.PRIMARY, Served(6, 1)),
        ([episode("2026-09-02 06:00", back=True), episode("2026-09-02 00:00")], Side.PRIMARY, Served(0, 0)),
        # Never ended, refused: nothing has changed.
        ([episode(None), episode("2026-11-02 00:00", outcome=Outcome.REFUSED)], Side.PRIMARY, Served(0, 0)),
        # Brought up again while it served.
        ([episode("2026-11-25 06:00"), episode("2026-11-25 00:00")], Side.STANDBY, Served(12, 1)),
        # Returned by hand.
        ([episode("2026-11-02 00:00")], Side.PRIMARY, Served(0, 0, open_ended=True)),
        # A move changes nothing of who serves.
        (
            [
                episode("2026-11-02 00:00"),
                episode("2026-11-03 00:00", to="sec2"),
                episode("2026-10-03 00:00", to="sec1"),
            ],
            Side.STANDBY,
            Served(24.5 * 24, 1, moves=1),
        ),
    ],
)
def test_for_how_long_a_standby_has_served(history: list[Episode], side: Side, expected: Served) -> None:
    assert served(history, side, NOVEMBER) == expected


def test_a_month_so_far_and_at_its_end(shop: Shop) -> None:
    shop.prices["disk"] = "0.10"
    shop.plan["secondaries"]["sec1"]["cost"] = {"machine": "t3.large", "disk": "100GiB"}
    plan, book = shop.loaded()
    month = Month("2026-11", 0.0, 720 * 3600.0, 180 * 3600.0)
    by_service = {name: Served(0, 0) for name in plan.services} | {"web1": Served(10, 1)}
    found = spent(plan, book, month, alternatives(plan, book, 1)[0].lines, by_service, {})
    assert [round(line.a_month, 3) for line in found.so_far] == [Decimal("19.584"), Decimal("2.5")]
    assert [round(line.a_month, 3) for line in found.forecast] == [Decimal("78.336"), Decimal("10.0")]
    # What a VM that is booted on failure would have cost for these ten hours.
    assert found.booted == Decimal("5.652")
    assert split(plan, found.so_far)[0] == Part(
        "service web1", sum((line.a_month for line in found.so_far), Decimal(0)) / 4
    )


def test_a_secondary_on_demand_is_paid_for_while_it_is_on(shop: Shop) -> None:
    secondary = shop.plan["secondaries"]["sec1"]
    secondary["cost"] = {"machine": "t3.large"}
    always = alternatives(*shop.loaded(), 1)[0]
    is_on_demand(shop, "t3.large")
    plan, book = shop.loaded()
    this = alternatives(plan, book, 1)[0]
    assert this.title == "this plan: 1 secondary, sec1 off until a failure"
    assert always.a_year is not None
    assert this.a_year is not None
    # For a day of the year.
    assert this.a_year == pytest.approx(always.a_year / 365, rel=Decimal("0.01"))
    month = Month("2026-11", 0.0, 720 * 3600.0, 180 * 3600.0)
    on = on_for([(-7200.0, 3600.0), (36000.0, 50400.0), (178 * 3600.0, None)], month)
    assert on == OnFor(1 + 4 + 2, 2)
    by_service = {name: Served(0, 0) for name in plan.services}
    found = spent(plan, book, month, this.lines, by_service, {}, {"sec1": on})
    assert [(round(line.a_month, 3), line.why) for line in found.so_far] == [(Decimal("0.762"), "7 hours on")]
    assert "sec1: on for 7 h, booted twice" in month_table(
        found, "USD", split(plan, found.so_far), split(plan, found.forecast)
    )


@pytest.mark.parametrize(
    ("price", "so_far"),
    [
        ({"per_hour": {"on-demand": "0.0425"}}, (0, "15.30", "30.60")),
        ({"per_month": {"on-demand": "31.00"}}, (0, "15.50", "31.00")),
    ],
    ids=("by the hour", "by the month"),
)
def test_a_rented_one_is_paid_for_by_the_hours_that_it_was_on(
    shop: Shop, price: dict[str, Any], so_far: tuple[str, ...]
) -> None:
    shop.prices["machines"]["rented"] = {"cores": 2, "memory": "8GiB", **price}
    found = [month_on_demand(shop, "rented", hours) for hours in (0.0, 360.0, 720.0)]
    assert [round(each, 2) for each in found] == [Decimal(amount) for amount in so_far]


def test_a_month_of_hardware_of_ones_own_costs_the_same_while_it_is_off(shop: Shop) -> None:
    # 876 a year for it and 262.80 for its power, of 8,760 hours, of which this month has 720; 20 a month for the rack.
    assert {round(month_on_demand(shop, "closet", hours), 2) for hours in (0.0, 360.0, 720.0)} == {Decimal("113.60")}


def month_on_demand(shop: Shop, machine: str, hours: float) -> Decimal:
    """What a month of 720 hours has cost, in which a secondary on demand was on for so many."""
    is_on_demand(shop, machine)
    plan, book = shop.loaded()
    month = Month("2026-11", 0.0, 720 * 3600.0, 720 * 3600.0)
    lines, by_service = alternatives(plan, book, 1)[0].lines, {name: Served(0, 0) for name in plan.services}
    found = spent(plan, book, month, lines, by_service, {}, {"sec1": OnFor(hours, 1)})
    so_far, forecast = (sum((line.a_month for line in each), Decimal(0)) for each in (found.so_far, found.forecast))
    assert so_far == forecast
    return so_far


def is_on_demand(shop: Shop, machine: str) -> None:
    secondary = shop.plan["secondaries"]["sec1"]
    files = {name: f"/{name}" for name in ("certificate", "key", "server_certificate")}
    vm = {"hypervisor": "hv1", "standbys_disk": "9GiB", "image": "/i", "network": "br0", "address": "192.0.2.20/24"}
    secondary |= {"lxd": {"url": "https://192.0.2.20:8443", **files}, "power": "on-demand", "vm": vm}
    secondary["cost"] = {"machine": machine}


def test_one_that_is_made_for_a_while_is_paid_for_while_it_is_there(shop: Shop) -> None:
    elastic: dict[str, Any] = {
        "template": {"cores": 2, "memory": "8GiB", "networks": ["10.30.1.1/24"]},
        "provisioner": {"command": ["cloud"]},
        "certificate": "/controller.crt",
        "key": "/controller.key",
    }
    shop.plan["balance"] = {"do": "move", "elastic": elastic}
    state = shop.folder / "state"
    state.mkdir()
    now = time.time()
    month = month_of(None, now)
    since = max(month.begin, now - 7200)
    book = LeaseBook(Journal(state / "journal.db"))
    lease = book.ask("a" * 32, "no room", "10.30.1.1/24", {"web1": "10.30.1.2"}, since - 60, 1)
    assert lease is not None
    book.change(lease, LeaseState.JOINED, made_at=since, joined_at=since, address="192.0.2.7", port=8443)

    def bill() -> tuple[str, dict[str, Any]]:
        words = ("cost", "--month", "this", "--plan", shop.path)
        done = vcrecovery(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout, json.loads(vcrecovery(*words, "--json").stdout)

    shown, data = bill()
    assert "elastic-1: there for " in shown
    assert "not counted, the plan has no balance.elastic.template.cost" in shown
    without = Decimal(data["so_far"])
    elastic["template"]["cost"] = {"machine": "t3.large"}
    shown, data = bill()
    assert "not counted" not in shown
    (leased,) = data["leased"]
    assert leased["hours"] == pytest.approx((now - since) / 3600, abs=0.02)
    paid = Decimal(data["so_far"]) - without
    assert float(paid) == pytest.approx(leased["hours"] * 0.1088, abs=0.02)
    # All of it is somebody's.
    assert float(sum(Decimal(part["so_far"]) for part in data["parts"])) == pytest.approx(
        float(data["so_far"]), abs=0.03
    )
    book.change(lease, LeaseState.GONE, gone_at=since)
    assert bill()[1]["leased"] == []


GIB = 2**30


@pytest.mark.parametrize(
    ("sent", "so_far", "forecast"),
    [
        # Nobody has counted: the plan's 60 GiB a month.
        (None, 15, 60),
        # All the month: what was counted, and it goes on so.
        (Sent(45 * GIB, -1e6), 45, 180),
        # From its fifth day on: the plan's figure before that.
        (Sent(10 * GIB, 120 * 3600.0), 10 + 10, 10 + 10 + 540 * 10 / 60),
        # A first sync a few hours ago is no forecast.
        (Sent(40 * GIB, 170 * 3600.0), 40 + 60 * 170 / 720, 40 + 60 * 710 / 720),
        # Counted only since this month, and an earlier one is asked for.
        (Sent(0, 180 * 3600.0), 15, 60),
    ],
)
def test_traffic_is_what_was_counted(shop: Shop, sent: Sent | None, so_far: float, forecast: float) -> None:
    shop.prices["traffic"] = "1.00"
    shop.plan["services"]["web1"]["cost"]["traffic"] = "60GiB"
    plan, book = shop.loaded()
    month = Month("2026-11", 0.0, 720 * 3600.0, 180 * 3600.0)
    by_service = {name: Served(0, 0) for name in plan.services}
    lines = alternatives(plan, book, 1)[0].lines
    found = spent(plan, book, month, lines, by_service, {} if sent is None else {"web1": sent, "web2": Sent(1, 0.0)})
    assert [line.of.name for line in found.so_far].count("web1") == 1
    assert float(found.so_far[-1].a_month) == pytest.approx(so_far)
    assert float(found.forecast[-1].a_month) == pytest.approx(forecast)


def test_the_month_says_what_was_sent(shop: Shop) -> None:
    state = shop.folder / "state"
    now = time.time()
    begin = month_of(None, now).begin
    book = FreshnessBook(state)
    book.add_sent({}, {"web1": SentCount("a", 0)}, begin - 1)
    book.add_sent({}, {"web2": SentCount("a", 0)}, now)
    book.add_sent({("web1", hour_of(begin)): 3 * GIB, ("web1", hour_of(begin - 3600)): GIB}, {}, now)
    done = vcrecovery("cost", "--month", "this", "--plan", shop.path)
    assert "web1: its sync has sent 3 GiB\n" in done.stdout
    assert f"web2: its sync has sent 0 bytes since {day_of(now)}\n" in done.stdout
    data = json.loads(vcrecovery("cost", "--month", "this", "--json", "--plan", shop.path).stdout)
    assert data["sent"][0] == {"service": "web1", "bytes": 3 * GIB, "since": begin - 1}


def test_figures_that_cannot_be_read_end_no_bill(shop: Shop) -> None:
    (shop.folder / "state").mkdir()
    (shop.folder / "state/freshness.db").write_text("no database" * 1000)
    done = vcrecovery("cost", "--month", "this", "--plan", shop.path)
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 1
    assert "the sync's traffic is the plan's: " in done.stderr


def test_the_months_table(shop: Shop) -> None:
    (shop.folder / "state").mkdir()
    done = vcrecovery("cost", "--month", "this", "--plan", shop.path)
    assert done.returncode == 0
    assert "so far  forecast" in done.stdout
    assert "no standby served" in done.stdout
    data = json.loads(vcrecovery("cost", "--month", "this", "--json", "--plan", shop.path).stdout)
    assert Decimal(data["so_far"]) <= Decimal(data["forecast"])
    assert len(data["parts"]) == 4
    for month in ("2026-13", "2999-01"):
        bad = vcrecovery("cost", "--month", month, "--plan", shop.path)
        assert bad.returncode == ExitCode.USAGE
        assert "--month" in bad.stderr


def test_a_damaged_journal_is_one_line(shop: Shop) -> None:
    (shop.folder / "state").mkdir()
    (shop.folder / "state/journal.db").write_text("no database" * 1000)
    done = vcrecovery("cost", "--month", "this", "--plan", shop.path)
    assert done.returncode == ExitCode.EXTERNAL
    assert len(done.stderr.splitlines()) == 1
