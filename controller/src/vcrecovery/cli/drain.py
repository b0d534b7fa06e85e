"""`vcrecovery drain` and `undrain`: their words. What they do is in `draining`."""

from __future__ import annotations

from pathlib import Path

import click

from vcrecovery.cli import complete
from vcrecovery.cli.failover import dry_run_option
from vcrecovery.cli.loading import without_collection
from vcrecovery.cli.options import json_option, plan_option


@click.command()
@click.argument("secondary", shell_complete=complete.secondary)
@dry_run_option
@json_option
@plan_option
def drain(secondary: str, plan_path: Path, dry_run: bool, as_json: bool) -> None:
    """Move every standby off SECONDARY, and let nothing be moved to it until `undrain`.

    Each goes to its spare, one after the other, as `vcrecovery move` does it, those that serve first. What has no spare
    stays, and is named. Run it again to continue an interrupted one.
    """
    with without_collection():
        from vcrecovery.cli.draining import drain_it

    drain_it(plan_path, secondary, dry_run=dry_run, as_json=as_json)


@click.command()
@click.argument("secondary", shell_complete=complete.secondary)
@plan_option
def undrain(secondary: str, plan_path: Path) -> None:
    """Let standbys be moved to SECONDARY again. Nothing is moved back by itself."""
    with without_collection():
        from vcrecovery.cli.draining import undrain_it

    undrain_it(plan_path, secondary)
