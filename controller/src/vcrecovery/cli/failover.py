"""`vcrecovery failover`: its words. What it does is in `recovery`, which --help and completion do without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vcrecovery.cli import complete
from vcrecovery.cli.loading import without_collection
from vcrecovery.cli.options import json_option, plan_option
from vcrecovery.errors import UsageError


def _once(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Of an option that is given again, only the last would count: whoever names two hosts means both."""
    if len(values) > 1 and not context.resilient_parsing:
        raise UsageError(f"{option.opts[0]} stands there twice", "name one")
    return values[-1] if values else None


_ONE: Any = {"multiple": True, "callback": _once}


@click.command()
@click.argument("service", shell_complete=complete.service, required=False)
@click.option("--vm", **_ONE, shell_complete=complete.vm, metavar="UUID", help="Name the service by its VM.")
@click.option(
    "--host", **_ONE, shell_complete=complete.hypervisor, metavar="HYPERVISOR", help="Every service of this hypervisor."
)
@click.option(
    "--site", **_ONE, shell_complete=complete.site, metavar="NAME", help="Every service of this site's hypervisors."
)
@click.option(
    "--group", **_ONE, shell_complete=complete.group, metavar="NAME", help="Every service of this group of the plan."
)
@click.option("--force", is_flag=True, help="Also if the primary still answers, or the standby is too old.")
@click.option(
    "--primary-is-down",
    **_ONE,
    shell_complete=complete.primary_is_down,
    metavar="NAME",
    help="Your word, in place of a fence: type the name of the service, host, site or group.",
)
@click.option(
    "--restore-point",
    **_ONE,
    shell_complete=complete.restore_point,
    metavar="NAME",
    help="Go back to this one before the start; `latest` is the newest.",
)
@json_option
@plan_option
def failover(plan_path: Path, **asked: Any) -> None:
    """Fail SERVICE over to its standby: confirm, fence, start, probe, switch DNS.

    Of a host, a site or a group, all services fail over at the same time; a standby starts once those are up that its
    service needs. Calling it again goes on where an earlier call stopped. A service that its standby serves already is
    left alone.
    """
    with without_collection():
        from vcrecovery.cli.recovery import run

    run(plan_path, **asked)
