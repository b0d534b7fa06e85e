"""`vcrecovery switchover`: its words. What it does is in `recovery`, as for a failover."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vcrecovery.cli.failover import dry_run_option, services_meant
from vcrecovery.cli.loading import without_collection
from vcrecovery.cli.options import json_option, plan_option


@click.command()
@services_meant
@dry_run_option
@json_option
@plan_option
def switchover(plan_path: Path, **asked: Any) -> None:
    """Move SERVICE to its standby, planned, and lose nothing: check, shut down, last files, start, probe, switch DNS.

    Whatever speaks against it is said before anything is touched. The VM shuts down by itself, and its standby starts
    only if the VM has vouched for its last files. If a step fails before that, the VM is started again. Run it again to
    continue an interrupted switchover.
    """
    with without_collection():
        from vcrecovery.cli.recovery import run

    run(plan_path, planned=True, **asked)
