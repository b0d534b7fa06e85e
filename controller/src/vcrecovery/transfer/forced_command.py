"""What sshd starts for a VM's key: it takes the VM's files, gives them back, or says who serves.

Standard library only: this runs at every change on a primary, and must start fast.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from vcrecovery.errors import UsageError
from vcrecovery.primary.answers import QUESTION
from vcrecovery.transfer.places import take_place
from vcrecovery.transfer.question import answer
from vcrecovery.transfer.receiver import receive, refusals_noted


def serve(service: str, state_dir: str | Path, command: str | None = None, *, seeds: bool = False) -> None:
    """Answers the `command`, that of the SSH session by default, or becomes its rsync. `seeds`: see `receive`.

    Raises UsageError without a command, and what `answer` and `receive` raise.
    """
    folder = Path(state_dir)
    said = os.environ.get("SSH_ORIGINAL_COMMAND", "") if command is None else command
    if not said:
        raise UsageError("receive is for sshd: it takes rsync's files, and gives no shell")
    question, _, report = said.partition(" ")
    if question == QUESTION:
        with refusals_noted(service, said):
            sys.stdout.write(answer(folder, service, report.strip()) + "\n")
        return
    take_place(folder, service)
    receive(folder, service, said, seeds=seeds)
