"""Figures 9b and 10b: what it costs in a year, as `vcrecovery cost` reckons it."""

from __future__ import annotations

import tempfile
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from recovery_bench.services import SERVICES
from vcrecovery.cost.alternatives import Way, alternatives
from vcrecovery.cost.book import PriceBook
from vcrecovery.cost.price_file import PriceFile
from vcrecovery.plan.load import load_plan

from .figure import Figure, Head, Plot, Row, Values

PRICES = Path(__file__).with_name("prices.yml")
_MACHINE, _ON = "t3.2xlarge", date(2022, 7, 1)
_SAVED = Decimal(15_000)
PROVIDERS = (1, 2, 4, 8)
HOT = Head("9b", "Cost, hot standby", "One VM in place of four saves about 15,000 dollars in a year.")
COLD = Head(
    "10b",
    "Cost, cold standby",
    "VMs that are booted on failure cost nothing more; the VM of VCRecovery costs its fee, divided by the providers "
    "that share it.",
)
_RECKONED = (
    "Nothing is measured: `vcrecovery cost` reckons it from 0.4352 USD an hour for the machine and 0.13 USD for its "
    "licence, which are not in the paper (t3.2xlarge with Red Hat Enterprise Linux, on demand, in Tokyo, mid-2022)."
)
_HOURS = "The paper does not count the hours in which booted VMs run; here it is a day in a year."


@cache
def years(providers: int) -> dict[Way, Decimal]:
    """Each way to protect four services -> dollars in a year."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.yml"
        file.write_text(yaml.safe_dump(_plan(Path(folder))))
        plan = load_plan(file)
        found = alternatives(plan, PriceBook([PriceFile(PRICES)], "USD", _ON), providers)
    return {entry.way: entry.a_year for entry in found if entry.a_year is not None}


def hot() -> Figure:
    found = years(1)
    ours, theirs = found[Way.THIS_PLAN], found[Way.SECOND_VMS]
    saved = theirs - ours
    rows = [
        Row(
            "one VM for four containers",
            "no figure",
            _dollars(ours),
            f"four VMs: {_dollars(theirs)}",
            _by(ours, theirs),
        ),
        Row("saved", f"about {_dollars(_SAVED)}", _dollars(saved), "the paper's", _by(saved, _SAVED)),
    ]
    groups = {"a year": {"one VM for four containers": _one(ours), "four VMs": _one(theirs), "saved": _one(saved)}}
    return Figure(HOT, rows, differs=(_RECKONED,), plot=Plot("figure-9b", f"9b: {HOT.title}", "USD a year", groups))


def cold() -> Figure:
    alone, backups = years(1)[Way.THIS_PLAN], years(1)[Way.BACKUPS]
    rows = [Row("four VMs, booted on failure", "0", _dollars(backups))]
    groups: dict[str, dict[str, Values | None]] = {"four VMs, booted on failure": {"a provider": _one(backups)}}
    for providers in PROVIDERS:
        part = years(providers)[Way.SHARED]
        what = "one VM for one provider" if providers == 1 else f"one VM, shared by {providers} providers"
        rows.append(Row(what, "its fee, in equal parts", _dollars(part), f"alone: {_dollars(alone)}", _by(part, alone)))
        groups[what] = {"a provider": _one(part)}
    plot = Plot("figure-10b", f"10b: {COLD.title}", "USD a year", groups)
    return Figure(COLD, rows, differs=(_RECKONED, _HOURS), plot=plot)


def _one(sum_: Decimal) -> Values:
    return Values.of([float(sum_)])


def _dollars(amount: Decimal) -> str:
    return f"{amount:,.0f} USD"


def _by(ours: Decimal, theirs: Decimal) -> str:
    return f"{ours / theirs:.3f}"


def _plan(folder: Path) -> dict[str, Any]:
    """Four services and one secondary, each of them the paper's machine; no address is ever used."""
    paid = {"machine": _MACHINE}
    return {
        "version": 1,
        "state_dir": str(folder / "state"),
        "hypervisors": {"hv1": {}},
        "secondaries": {
            "sec1": {
                "network": {"bridge": "vcr0", "address": "10.20.0.1/24"},
                "receiver": {"address": "10.10.0.1"},
                "cost": paid,
            }
        },
        "costs": {"prices": [{"file": str(PRICES)}]},
        "services": {
            name: {
                "primary": {
                    "hypervisor": "hv1",
                    "uuid": f"6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e000{number}",
                    "address": f"10.10.0.1{number}",
                },
                "standby": {"secondary": "sec1", "address": f"10.20.0.1{number}"},
                "ports": [port],
                "cost": paid,
            }
            for number, (name, port) in enumerate(SERVICES.items(), 1)
        },
    }
