"""A table of prices, as spreadsheets write it."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from vcrecovery.cost.csv_prices import CsvPrices
from vcrecovery.cost.prices import Kind, MachineOffer, Per, Price
from vcrecovery.errors import UsageError

GIB = 2**30
HEADER = "kind,name,cores,memory,purchase,price,per,currency,as_of,source"
TABLE = f"""\
{HEADER}
machine,small,2,8GiB,on-demand,0.0832,hour,EUR,2026-11-20,https://example.test/prices
machine,small,2,8GiB,yearly,40,month,EUR,2026-11-20,
machine,great,16,64GiB,on-demand,300,month,EUR,2026-11-20,
machine,dollar,16,64GiB,on-demand,0.5,hour,USD,2026-11-20,

disk,ssd,,,,0.08,GiB-month,EUR,2026-11-20,
backup,,,,,0.02,GiB-month,EUR,2026-11-20,
address,,,,,3.6,month,EUR,2026-11-20,
traffic,,,,,0.01,GiB,EUR,2026-11-20,
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "prices.csv"
    file.write_text(TABLE)
    return file


def wrong(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        CsvPrices(path).price(Kind.DISK)
    assert str(path) in caught.value.message
    assert caught.value.hint
    assert "\n" not in str(caught.value)
    return caught.value.message


def test_machines(path: Path) -> None:
    source = CsvPrices(path)
    day = date(2026, 11, 20)
    hourly = Price(Decimal("0.0832"), "EUR", Per.HOUR, "small", "https://example.test/prices", day)
    assert source.machine("small", "on-demand") == MachineOffer("small", 2, 8 * GIB, "on-demand", [hourly])
    monthly = Price(Decimal(40), "EUR", Per.MONTH, "small", str(path), day)
    assert source.machine("small", "yearly") == MachineOffer("small", 2, 8 * GIB, "yearly", [monthly])
    assert source.known_as("small") == ["on-demand", "yearly"]
    assert source.machine("small", "spot") is None
    assert source.machine("smal", "on-demand") is None
    assert source.known_as("smal") == []
    assert source.near("smal") == ["small"]
    assert source.name == str(path)
    assert list(source.rates()) == []


def test_the_cheapest_of_each_currency_that_fits(path: Path) -> None:
    with path.open("a") as file:
        # By the hour it looks cheaper than what is paid by the month.
        file.write("machine,dear,32,128GiB,on-demand,0.5,hour,EUR,2026-11-20,\n")
    source = CsvPrices(path)
    assert [offer.name for offer in source.fitting(2, 8 * GIB, "on-demand")] == ["small", "dollar"]
    assert [offer.name for offer in source.fitting(2.5, 8 * GIB, "on-demand")] == ["great", "dollar"]
    assert [offer.name for offer in source.fitting(2, 65 * GIB, "on-demand")] == ["dear"]
    assert [offer.name for offer in source.fitting(2, 8 * GIB, "yearly")] == ["small"]
    assert source.fitting(64, 8 * GIB, "on-demand") == []


@pytest.mark.parametrize(
    ("kind", "amount", "per", "what"),
    [
        (Kind.DISK, "0.08", Per.GIB_MONTH, "ssd"),
        (Kind.BACKUP, "0.02", Per.GIB_MONTH, "backup"),
        (Kind.ADDRESS, "3.6", Per.MONTH, "address"),
        (Kind.TRAFFIC, "0.01", Per.GIB, "traffic"),
    ],
)
def test_what_costs_money_beside_machines(kind: Kind, amount: str, per: Per, what: str, path: Path) -> None:
    assert CsvPrices(path).price(kind) == Price(Decimal(amount), "EUR", per, what, str(path), date(2026, 11, 20))


def test_what_is_not_in_it_has_no_price(path: Path) -> None:
    path.write_text(HEADER)
    assert CsvPrices(path).price(Kind.DISK) is None
    assert CsvPrices(path).machine("small", "on-demand") is None


@pytest.mark.parametrize(
    "changed",
    [
        TABLE.replace(",", ";"),
        TABLE.replace(",", "\t"),
        "\ufeff" + TABLE,
        TABLE.replace("\n", "\r\n"),
        TABLE.replace("kind,name", "Kind, NAME"),
        TABLE.replace("small,", '"small",').replace("machine,", "Machine , "),
        "\n".join(",".join(reversed(line.split(","))) for line in TABLE.splitlines()),
    ],
)
def test_as_spreadsheets_write_it(changed: str, path: Path) -> None:
    path.write_bytes(changed.encode())
    offer = CsvPrices(path).machine("small", "on-demand")
    assert offer is not None
    assert (offer.memory, offer.prices[0].amount) == (8 * GIB, Decimal("0.0832"))
    assert CsvPrices(path).price(Kind.TRAFFIC) is not None


def test_columns_of_machines_may_lack_where_there_are_none(path: Path) -> None:
    path.write_text("kind,price,per,currency,as_of\ndisk,0.08,GiB-month,EUR,2026-11-20\n")
    assert CsvPrices(path).price(Kind.DISK) is not None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("robot,r,2,8GiB,x,1,hour,EUR,2026-11-20,", "kind: 'robot' is no kind (known: machine, disk, backup, "),
        ("machine,,2,8GiB,x,1,hour,EUR,2026-11-20,", "name: is missing"),
        ("machine,m,2,8GiB,,1,hour,EUR,2026-11-20,", "purchase: is missing"),
        ("machine,m,,8GiB,x,1,hour,EUR,2026-11-20,", "cores: is missing"),
        ("machine,m,nan,8GiB,x,1,hour,EUR,2026-11-20,", "cores: 'nan' is no number of cores"),
        ("machine,m,-2,8GiB,x,1,hour,EUR,2026-11-20,", "cores: '-2' is no number of cores"),
        ("machine,m,2,8,x,1,hour,EUR,2026-11-20,", "memory: '8' is no size"),
        ("machine,m,2,8GiB,x,,hour,EUR,2026-11-20,", "price: is missing"),
        ("machine,m,2,8GiB,x,-1,hour,EUR,2026-11-20,", "price: a price of -1 is below zero"),
        ("machine,m,2,8GiB,x,1e12,hour,EUR,2026-11-20,", "price: a price of 1e12 is more than 1,000,000,000"),
        ('machine,m,2,8GiB,x,"0,5",hour,EUR,2026-11-20,', "price: '0,5' has a comma; write it as 1234.56"),
        ("machine,m,2,8GiB,x,1,GiB,EUR,2026-11-20,", "per: a machine is paid by the hour or month"),
        ("machine,m,2,8GiB,x,1,year,EUR,2026-11-20,", "per: 'year' is nothing to pay by (known: hour, month"),
        ("disk,,,,,1,month,EUR,2026-11-20,", "per: a disk is paid by the GiB-month"),
        ("machine,m,2,8GiB,x,1,hour,euro,2026-11-20,", "currency: 'euro' is no currency"),
        ("machine,m,2,8GiB,x,1,hour,EUR,20.11.2026,", "as_of: '20.11.2026' is no day; write it as 2026-11-30"),
        ("disk,,2,,,1,GiB-month,EUR,2026-11-20,", "cores: stands for nothing with a disk"),
        ("machine,m,2,8GiB,x,1,hour,EUR,2026-11-20,,1", "has more cells than there are columns"),
        ("machine,m,2,8GiB,x,1", "per: is missing"),
        ("machine,\x1b[1m,2,8GiB,x,1,hour,EUR,2026-11-20,", "name: '\\x1b[1m' is no name"),
    ],
)
def test_a_line_that_is_wrong(line: str, said: str, path: Path) -> None:
    assert f"line 2: {said}" in wrong(path, f"{HEADER}\n{line}\n")


def test_every_problem_is_told_at_once(path: Path) -> None:
    said = wrong(path, TABLE.replace("0.0832", "x").replace("3.6,month", "x,year"))
    assert "line 2: price: 'x'" in said
    assert "line 9: price: 'x'" in said
    assert "line 9: per: " in said
    assert said.count("line ") == 3


def test_of_very_many_problems_the_first_are_told(path: Path) -> None:
    assert "and 150 more" in wrong(path, HEADER + "\nrobot,r,2,8GiB,x,1,hour,EUR,2026-11-20," * 200)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("machine,small,2,8GiB,on-demand,9,hour,EUR,2026-11-20,", "line 11: machine small on-demand is given twice"),
        ("machine,small,4,8GiB,spot,9,hour,EUR,2026-11-20,", "line 11: name: 'small' is given in line 2 with other"),
        ("machine,small,2,9GiB,spot,9,hour,EUR,2026-11-20,", "line 11: name: 'small' is given in line 2 with other"),
        ("disk,hdd,,,,9,GiB-month,EUR,2026-11-20,", "line 11: disk is given twice: it has a price in line 7"),
    ],
)
def test_what_is_given_twice(line: str, said: str, path: Path) -> None:
    assert said in wrong(path, TABLE + line)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1: names no columns; write them there: kind, name, cores"),
        ("\n" + TABLE, "line 1: names no columns"),
        (TABLE.partition("\n")[2], "line 1: 'small' is no column (known: kind, name"),
        (TABLE.replace("as_of,source", "date,source"), "line 1: 'date' is no column"),
        (TABLE.replace("as_of,source", "date,source"), "line 1: lacks the column as_of"),
        (TABLE.replace("as_of,source", "as_of,price"), "line 1: column price is given twice"),
        (TABLE + 'disk,"never ends', "line 11: is no row of a table: unexpected end of data"),
    ],
)
def test_a_table_that_is_none(text: str, said: str, path: Path) -> None:
    assert said in wrong(path, text)


def test_a_table_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none cannot be read: No such file"):
        CsvPrices(tmp_path / "none").fitting(1, 1, "on-demand")
    (tmp_path / "latin").write_bytes(TABLE.replace("small", "kl\xe4in").encode("latin-1"))
    with pytest.raises(UsageError, match="latin cannot be read: it is not UTF-8 text"):
        CsvPrices(tmp_path / "latin").known_as("small")
