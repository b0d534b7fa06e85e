"""`vcrecovery receive`."""

from __future__ import annotations

from pathlib import Path

import click

from vcrecovery.cli import complete
from vcrecovery.transfer.forced_command import serve


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("service", shell_complete=complete.service)
@click.option("--state-dir", type=click.Path(path_type=Path), default=Path("/var/lib/vcrecovery"), show_default=True)
@click.option("--local", is_flag=True, help="Take the command from rsync's -e instead of from sshd.")
@click.option("--seeds", is_flag=True, help="The files do not come from the primary.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def receive(service: str, state_dir: Path, local: bool, seeds: bool, words: tuple[str, ...]) -> None:
    """Receive files for the standby of SERVICE from rsync, or tell its VM who serves, and nothing else.

    During a failback it also gives the standby's files to rsync.

    This is the forced command of that service's SSH key; the role `secondary` sets it up.
    """
    serve(service, state_dir, " ".join(words[1:]) if local else None, seeds=seeds)
