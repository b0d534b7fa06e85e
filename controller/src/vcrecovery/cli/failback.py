"""`vcrecovery failback`: its words. What it does is in `recovery`, as for a failover."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vcrecovery.cli import complete
from vcrecovery.cli.failover import ONE, dry_run_option, services_meant
from vcrecovery.cli.loading import without_collection
from vcrecovery.cli.options import json_option, plan_option, seconds_of


@click.command()
@services_meant
@click.option(
    "--into",
    **ONE,
    shell_complete=complete.vm,
    metavar="UUID",
    help="Into a rebuilt VM, which the plan names by now: it is booted anew, and gets everything.",
)
@click.option(
    "--commit-after",
    callback=seconds_of,
    metavar="DURATION",
    help="How long after its end `vcrecovery rollback` can go back to what the standby was: 10m, 1d.  [default: 1h]",
)
@dry_run_option
@json_option
@plan_option
def failback(plan_path: Path, **asked: Any) -> None:
    """Return SERVICE to its VM, and lose nothing: boot, copy, stop the standby, copy the rest, hand over, switch DNS.

    The VM boots without its services and fetches what the standby has written, while that serves. Then the standby
    stops, the VM fetches the rest and takes over, and its standby takes files again. If a step fails before the VM
    serves, the standby serves again. Run it again to continue an interrupted failback. What the standby was is kept
    until it is committed: see `vcrecovery rollback` and `vcrecovery commit`.
    """
    with without_collection():
        from vcrecovery.cli.recovery import run

    run(plan_path, back=True, **asked)
