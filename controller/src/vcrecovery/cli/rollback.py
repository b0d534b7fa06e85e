"""`vcrecovery rollback` and `vcrecovery commit`: their words. What they do is in `undo`."""

from __future__ import annotations

from pathlib import Path

import click

from vcrecovery.cli import complete
from vcrecovery.cli.failover import ONE
from vcrecovery.cli.loading import without_collection
from vcrecovery.cli.options import json_option, known_service, plan_option, read_plan


@click.command()
@click.argument("service", shell_complete=complete.service)
@click.option(
    "--drop-new-writes",
    **ONE,
    shell_complete=complete.primary_is_down,
    metavar="NAME",
    help="What the VM has written since is lost, on your word: type the service's name.",
)
@json_option
@plan_option
def rollback(service: str, drop_new_writes: str | None, as_json: bool, plan_path: Path) -> None:
    """Undo the failback of SERVICE: fence its VM, restore what its standby was before, and have that serve.

    Says first what of the VM's new writes is lost, and does nothing without --drop-new-writes. Run it again to continue
    an interrupted rollback. Possible until the failback is committed.
    """
    plan = read_plan(plan_path)
    known_service(plan, plan_path, service)
    with without_collection():
        from vcrecovery.cli.undo import roll_back
        from vcrecovery.operations.environment import Environment

    roll_back(Environment(plan), plan_path, service, drop_new_writes, as_json=as_json)


@click.command()
@click.argument("service", shell_complete=complete.service)
@plan_option
def commit(service: str, plan_path: Path) -> None:
    """Remove what the failback of SERVICE keeps for a rollback. The watcher does so after failback's --commit-after."""
    plan = read_plan(plan_path)
    known_service(plan, plan_path, service)
    with without_collection():
        from vcrecovery.cli.undo import commit_now
        from vcrecovery.operations.environment import Environment

    commit_now(Environment(plan), service)
