"""`vcrecovery move`: its words. What it does is in `recovery`, as for a failover."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vcrecovery.cli import complete
from vcrecovery.cli.failover import ONE, dry_run_option
from vcrecovery.cli.loading import without_collection
from vcrecovery.cli.options import json_option, plan_option
from vcrecovery.core.episode import How
from vcrecovery.errors import RefusedError, UsageError

#: What LXD itself calls a move of something that runs.
_LIVE = "live"


@click.command()
@click.argument("service", shell_complete=complete.service)
@click.option(
    "--to", **ONE, shell_complete=complete.secondary, metavar="SECONDARY", help="Where it goes on: its spare, or home."
)
@click.option(
    "--how",
    type=click.Choice([*(how.value for how in How), _LIVE]),
    default=How.WARM.value,
    show_default=True,
    help="`warm`: its files; it ends here and boots there. `stateful`: its memory and its connections too (CRIU).",
)
@dry_run_option
@json_option
@plan_option
def move(plan_path: Path, to: str | None, how: str, **asked: Any) -> None:
    """Move the standby of SERVICE to another secondary, and lose nothing.

    One that serves is copied while it does; then it stops, the rest is copied, it starts there, its ports are probed,
    and DNS follows. If a step fails before that, it serves again where it was.

    One that waits for its VM is copied too; the VM serves all the time, and its sync follows there. If that fails, it
    waits where it was. A failover comes first. Run it again to continue an interrupted move.
    """
    if to is None:
        raise UsageError("move needs --to SECONDARY", "`vcrecovery status SERVICE` says where it serves, and its spare")
    if how == _LIVE:
        raise RefusedError(
            "the server's own live move is not offered: LXD 5.0 stands still for about 12 s in it and may fail to "
            "remove the container that it came from; LXD from 6.6 on has none for containers",
            "`--how stateful` keeps memory and connections too",
        )
    with without_collection():
        from vcrecovery.cli.recovery import run

    run(plan_path, planned=True, to=to, how=How(how), vm=None, host=None, site=None, group=None, **asked)
