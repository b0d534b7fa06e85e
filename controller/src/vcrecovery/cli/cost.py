"""`vcrecovery cost`."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import click

from vcrecovery.cli.options import json_option, plan_option, read_plan
from vcrecovery.cli.output import say
from vcrecovery.errors import UsageError


@click.command()
@click.option("--explain", is_flag=True, help="Also say where each sum comes from: quantity, price, source, date.")
@click.option(
    "--providers",
    default=4,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="How many would share the secondary, in the row that compares that.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print every line of every row, for a spreadsheet.")
@json_option
@plan_option
def cost(explain: bool, providers: int, as_csv: bool, as_json: bool, plan_path: Path) -> None:
    """Show what this plan's protection costs, beside other ways to protect the same services.

    The plan says which machines there are (`cost` of secondaries and services), and who knows prices (`costs.prices`).
    What has no price is an error; nothing is taken for free.
    """
    if as_csv and as_json:
        raise UsageError("--csv and --json exclude each other", "choose one")
    from vcrecovery.cost.alternatives import alternatives
    from vcrecovery.cost.book import PriceBook
    from vcrecovery.cost.sources import sources_of
    from vcrecovery.cost.split import split
    from vcrecovery.drivers.clock import SystemClock
    from vcrecovery.report.costs import CostView, as_data, origins, table
    from vcrecovery.report.costs import as_csv as csv_of

    plan = read_plan(plan_path)
    if plan.costs is None:
        raise UsageError(f"plan {plan_path} has no `costs`: who knows prices", "docs/costs.md has an example")
    # The day of the bill is the operator's.
    today = datetime.fromtimestamp(SystemClock().now()).astimezone().date()
    sources = list(sources_of(plan.costs, plan.state_dir / "prices", lambda text: say(text, err=True)))
    found = alternatives(plan, PriceBook(sources, plan.costs.currency, today), providers)
    view = CostView(plan.costs.currency, today, plan.costs.failed, found, split(plan, found[0].lines))
    if as_json:
        click.echo(json.dumps(as_data(view), indent=2))
    elif as_csv:
        click.echo(csv_of(view), nl=False)
    else:
        click.echo("\n".join([*table(view), *(origins(view) if explain else [])]))
