"""`vcrecovery drill`: its words. What it does is in `rehearsal`, which --help and completion do without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vcrecovery.cli import complete
from vcrecovery.cli.loading import without_collection
from vcrecovery.cli.options import json_option, plan_option


@click.command()
@click.argument("services", nargs=-1, shell_complete=complete.services, metavar="[SERVICE]...")
@click.option(
    "--group",
    "groups",
    multiple=True,
    shell_complete=complete.group,
    metavar="NAME",
    help="Every service of this group of the plan; may be repeated.",
)
@click.option("--all", "every", is_flag=True, help="Every service of the plan.")
@click.option("--due", is_flag=True, help="The service whose drill.every is over, if any (run by the watcher).")
@click.option("--dry-run", is_flag=True, help="Only check whether it could be done, and list the steps.")
@json_option
@plan_option
def drill(plan_path: Path, **asked: Any) -> None:
    """Rehearse the failover of SERVICE on a clone of its standby, which production never notices.

    The clone boots in a network of its own, with its standby's address and no way out. Its ports are asked as in a
    failover, drill.command is run in it, and it is removed. Services that it needs are rehearsed with it. What a drill
    left that was killed is removed first.
    """
    with without_collection():
        from vcrecovery.cli.rehearsal import run

    run(plan_path, **asked)
