"""`vcrecovery failover`: its words. What it does is in `recovery`, which --help and completion do without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from vcrecovery.cli import complete
from vcrecovery.cli.loading import without_collection
from vcrecovery.cli.options import json_option, plan_option
from vcrecovery.errors import UsageError


def once(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Of an option that is given again, only the last would count: whoever names two hosts means both."""
    if len(values) > 1 and not context.resilient_parsing:
        raise UsageError(f"{option.opts[0]} is given twice", "name one")
    return values[-1] if values else None


ONE: Any = {"multiple": True, "callback": once}


def services_meant(command: Callable[..., Any]) -> Callable[..., Any]:
    """SERVICE, or several by what they have in common."""
    for option in reversed(
        (
            click.argument("service", shell_complete=complete.service, required=False),
            click.option("--vm", **ONE, shell_complete=complete.vm, metavar="UUID", help="Name the service by its VM."),
            click.option(
                "--host",
                **ONE,
                shell_complete=complete.hypervisor,
                metavar="HYPERVISOR",
                help="Every service of this hypervisor.",
            ),
            click.option(
                "--site",
                **ONE,
                shell_complete=complete.site,
                metavar="NAME",
                help="Every service of this site's hypervisors.",
            ),
            click.option(
                "--group",
                **ONE,
                shell_complete=complete.group,
                metavar="NAME",
                help="Every service of this group of the plan.",
            ),
        )
    ):
        command = option(command)
    return command


dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Only say what would be done, what would be refused, and how long it took before."
)


@click.command()
@services_meant
@click.option("--force", is_flag=True, help="Even if the primary still answers or the standby is too old.")
@click.option(
    "--primary-is-down",
    **ONE,
    shell_complete=complete.primary_is_down,
    metavar="NAME",
    help="Skip fencing on your word: type the name of the service, host, site or group.",
)
@click.option(
    "--restore-point",
    **ONE,
    shell_complete=complete.restore_point,
    metavar="NAME",
    help="Restore this point before the start; `latest` is the newest.",
)
@click.option(
    "--to",
    **ONE,
    shell_complete=complete.secondary,
    metavar="SECONDARY",
    help="Where a standby that serves, on a secondary that has failed, is to go on: its spare.",
)
@click.option(
    "--secondary-is-down",
    **ONE,
    shell_complete=complete.secondary,
    metavar="SECONDARY",
    help="With --to: on your word, nothing runs there any more. Type the secondary's name.",
)
@dry_run_option
@json_option
@plan_option
def failover(plan_path: Path, **asked: Any) -> None:
    """Fail SERVICE over to its standby: confirm, fence, start, probe, switch DNS.

    All services of a host, a site or a group fail over at the same time; each starts once the services that it needs
    are up. Run it again to continue an interrupted failover. A service that is already served by its standby is left
    alone.
    """
    with without_collection():
        from vcrecovery.cli.recovery import run

    run(plan_path, **asked)
