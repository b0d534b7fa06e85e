"""`vcrecovery receive`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from vcrecovery.cli import complete
from vcrecovery.errors import UsageError
from vcrecovery.primary.answers import QUESTION
from vcrecovery.transfer.places import take_place
from vcrecovery.transfer.question import answer
from vcrecovery.transfer.receiver import receive as receive_files
from vcrecovery.transfer.receiver import refusals_noted


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
    command = " ".join(words[1:]) if local else os.environ.get("SSH_ORIGINAL_COMMAND", "")
    if not command:
        raise UsageError("receive is for sshd: it takes rsync's files, and gives no shell")
    question, _, said = command.partition(" ")
    if question == QUESTION:
        with refusals_noted(service, command):
            click.echo(answer(state_dir, service, said.strip()))
        return
    take_place(state_dir, service)
    receive_files(state_dir, service, command, seeds=seeds)
