"""`vcrecovery move`: its words. What it does is in `recovery`, as for a failover."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vcrecovery.cli import complete
from vcrecovery.cli.failover import ONE, dry_run_option
from vcrecovery.cli.loading import without_collection
from vcrecovery.cli.options import json_option, plan_option
from vcrecovery.errors import UsageError


@click.command()
@click.argument("service", shell_complete=complete.service)
@click.option(
    "--to", **ONE, shell_complete=complete.secondary, metavar="SECONDARY", help="Where it goes on: its spare, or home."
)
@dry_run_option
@json_option
@plan_option
def move(plan_path: Path, to: str | None, **asked: Any) -> None:
    """Move the standby of SERVICE to another secondary, and lose nothing.

    One that serves is copied while it does; then it stops, the rest is copied, it starts there, its ports are probed,
    and DNS follows. If a step fails before that, it serves again where it was.

    One that waits for its VM is copied too; the VM serves all the time, and its sync follows there. If that fails, it
    waits where it was. A failover comes first. Run it again to continue an interrupted move.
    """
    if to is None:
        raise UsageError("move needs --to SECONDARY", "`vcrecovery status SERVICE` says where it serves, and its spare")
    with without_collection():
        from vcrecovery.cli.recovery import run

    run(plan_path, planned=True, to=to, vm=None, host=None, site=None, group=None, **asked)
