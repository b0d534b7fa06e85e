"""`vcrecovery report`: its words. What it does is in `reports`, which --help and completion do without."""

from __future__ import annotations

from pathlib import Path

import click

from vcrecovery.cli.loading import without_collection
from vcrecovery.cli.options import Seconds, json_option, plan_option
from vcrecovery.errors import UsageError


@click.command()
@click.option("--since", metavar="TIME", help="What it covers: 30d (the default), 2h, 2026-11-21, 2026-11-21T03:00.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write report-DAY.html, .md and .json there, instead of Markdown to stdout.",
)
@click.option("--scheduled", is_flag=True, help="As the plan's `report` says: write it, and mail it (run by a timer).")
@click.option("--within", default=5.0, show_default=True, type=Seconds(3600), help="Seconds to wait for answers.")
@json_option
@plan_option
def report(
    since: str | None, output: Path | None, scheduled: bool, within: float, as_json: bool, plan_path: Path
) -> None:
    """Tell what a period was like: what needs attention, RTO and RPO reached, freshness, availability, cost.

    It compares itself with the newest earlier report in DIR, or in the plan's `report.directory`. Charts need
    matplotlib (`pip install 'vcrecovery[report]'`); without it the page has the same figures in tables.
    """
    if scheduled and (since is not None or output is not None or as_json):
        raise UsageError(
            "--scheduled goes with none of --since, --output and --json", "the plan's `report` says all that"
        )
    if output is not None and as_json:
        raise UsageError("--output writes JSON too", "leave --json out")
    with without_collection():
        from vcrecovery.cli.reports import make, on_schedule

    if scheduled:
        on_schedule(plan_path, within)
    else:
        make(plan_path, since or "30d", output, within, as_json=as_json)
