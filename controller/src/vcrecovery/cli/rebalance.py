"""`vcrecovery rebalance`: its words. What it does is in `balancing`."""

from __future__ import annotations

from pathlib import Path

import click

from vcrecovery.cli.failover import dry_run_option
from vcrecovery.cli.loading import without_collection
from vcrecovery.cli.options import json_option, plan_option


@click.command()
@dry_run_option
@json_option
@plan_option
def rebalance(plan_path: Path, dry_run: bool, as_json: bool) -> None:
    """Move standbys that serve, or that run while they wait, off secondaries that are overloaded, to their spares.

    As few bytes as possible are moved, and no secondary is brought above `balance.target`. Loads are what the watcher
    has seen; without one they are measured for some seconds. Run it again to continue an interrupted one.
    """
    with without_collection():
        from vcrecovery.cli.balancing import run

    run(plan_path, dry_run=dry_run, as_json=as_json)
