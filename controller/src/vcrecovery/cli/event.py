"""`vcrecovery event`. Standard library and click only: it runs while a service is down."""

from __future__ import annotations

from pathlib import Path

import click

from vcrecovery.detect.spool import DEFAULT, event_id, put
from vcrecovery.errors import ExternalError, UsageError


@click.command()
@click.argument("number", metavar="ID")
@click.option(
    "--spool",
    # Zabbix's agent may add to it, and cannot read it.
    type=click.Path(path_type=Path, file_okay=False, readable=False),
    default=DEFAULT,
    show_default=True,
    help="The folder.",
)
def event(number: str, spool: Path) -> None:
    """Pass Zabbix's event ID to `vcrecovery watch`, which asks Zabbix about it and acts.

    Zabbix's action runs this. Passing the same event again does no harm.
    """
    name = event_id(number)
    if name is None:
        raise UsageError(f"{number[:40]!r} is no event id", "it is a number; Zabbix's macro is {EVENT.ID}")
    try:
        put(spool, name)
    except OSError as error:
        raise ExternalError(
            f"event {name} cannot be put into {spool}: {error.strerror}",
            "the folder belongs to the controller and the group of Zabbix's agent; the role `monitoring` makes it",
        ) from error
