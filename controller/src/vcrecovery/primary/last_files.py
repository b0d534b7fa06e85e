"""The last act of an orderly shutdown: the standby gets what the services have left, and the VM vouches for it.

Whoever stops the VM in an orderly way, for whatever reason, leaves a complete standby. Without it no switchover goes
on: what its services wrote while they stopped would be lost.
"""

from __future__ import annotations

import os
import time
from typing import Callable, Optional

from .current import current
from .heartbeat import stamp
from .hidden import hidden_paths
from .marker import NAME as HEARTBEAT_NAME
from .programs import ProgramError, Run
from .receivers import find_receiver
from .reconcile import alone
from .sent_mounts import missing_mounts
from .settings import Settings
from .transfer import Transfer, named_paths, whole_tree
from .unit_states import system_state


def send_last_files(settings: Settings, run: Run, now: Callable[[], float] = time.time) -> Optional[Transfer]:
    """What was sent; raises ProgramError when the standby may lack something. Nothing else may write any more.

    The tree is sent as it is: what has stopped needs neither a hook nor a snapshot to be consistent. None, and nothing
    was sent, while the machine goes on: somebody has only stopped or restarted the unit.
    """
    if system_state(run) != "stopping":
        return None
    with alone(settings.run_dir):
        at = now()
        gone = missing_mounts(settings, hidden_paths(settings.lists["rsync-filter"]))
        if gone:
            # To rsync their folders are empty now, and those in the standby would be emptied.
            raise ProgramError(
                f"{sorted(gone)[0]} is not mounted any more: give it the option"
                " x-systemd.before=vcrecovery-last-files.service in /etc/fstab"
            )
        find_receiver(settings, run)
        to = current(settings.run_dir, settings.receivers)
        done = whole_tree(settings.source, settings, lambda _progress: None)
        stamp(
            settings.state_dir, at, None, queue=0, final=True,
            receiver=to.name if to is not None else None, knows=settings.receivers,
        )  # fmt: skip
        folder = os.path.relpath(settings.state_dir, settings.source)
        named_paths(settings.source, settings, [os.fsencode(folder + "/" + HEARTBEAT_NAME)])
        return done
