"""`vcrecovery cost`: its words. What it does is in `costs`, which --help and completion do without."""

from __future__ import annotations

from pathlib import Path

import click

from vcrecovery.cli.loading import without_collection
from vcrecovery.cli.options import json_option, plan_option
from vcrecovery.errors import UsageError


@click.command()
@click.option("--month", metavar="MONTH", help="What a month has cost so far, such as 2026-11; `this` is the current.")
@click.option("--explain", is_flag=True, help="Also say where each sum comes from: quantity, price, source, date.")
@click.option(
    "--providers",
    default=4,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="How many would share the secondary, in the row that compares that.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print every line of every sum, for a spreadsheet.")
@json_option
@plan_option
def cost(month: str | None, explain: bool, providers: int, as_csv: bool, as_json: bool, plan_path: Path) -> None:
    """Show what this plan's protection costs, beside other ways to protect the same services.

    The plan says which machines there are (`cost` of secondaries and services), and who knows prices (`costs.prices`).
    What has no price is an error; nothing is taken for free.
    """
    if as_csv and as_json:
        raise UsageError("--csv and --json exclude each other", "choose one")
    with without_collection():
        from vcrecovery.cli.costs import compare, month_so_far

    if month is None:
        compare(plan_path, providers, explain=explain, as_csv=as_csv, as_json=as_json)
    else:
        month_so_far(plan_path, month, explain=explain, as_csv=as_csv, as_json=as_json)
