"""`vcrecovery metrics`."""

from __future__ import annotations

from pathlib import Path

import click

from vcrecovery.cli.options import plan_option, read_plan


@click.command()
@plan_option
def metrics(plan_path: Path) -> None:
    """Print metrics in Prometheus' text format.

    With `metrics: {}` in the plan, `vcrecovery watch` serves the same on http://127.0.0.1:9870/metrics. Without a
    watcher, have a timer write them to a file for node_exporter's textfile collector.
    """
    from vcrecovery.report.page import Page
    from vcrecovery.report.recent_look import RecentLook

    click.echo(Page(RecentLook(read_plan(plan_path))).text(), nl=False)
