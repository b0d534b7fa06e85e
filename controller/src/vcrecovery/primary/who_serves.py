"""Early in its boot a VM asks its secondary who serves: beside a standby that does, it starts no service.

A second line against two live copies. It needs neither the controller nor the hypervisor, which may have lost the fence
that kept this VM off.
"""

from __future__ import annotations

import os
import time
from typing import Callable, Optional, Sequence

from .answers import PRIMARY, QUESTION, STANDBY
from .connections import OWN_CONNECTION
from .programs import ProgramError, Run
from .settings import Settings
from .unit_states import system_state

SUPERSEDED = "vcrecovery-superseded.target"
NETWORK_MANAGER = "/etc/systemd/system/multi-user.target.wants/NetworkManager.service"
#: Seconds for one question; between two while nobody answers.
_ANSWER_SECONDS, _AGAIN_SECONDS = 20.0, 1.0

Say = Callable[[str], None]


def who_serves(settings: Settings, run: Run) -> Optional[str]:
    """None when the secondary does not answer, or nothing that can be understood."""
    words = ask(settings, run, QUESTION, _ANSWER_SECONDS)
    return words[0] if words else None


def ask(
    settings: Settings, run: Run, question: str, timeout: float, control: str = OWN_CONNECTION
) -> Optional[Sequence[str]]:  # fmt: skip
    """The words of the answer, of which the first is PRIMARY or STANDBY; None as above. `control`: an option of ssh."""
    command = ["ssh", "-F", settings.ssh_config, "-o", control, "receiver", question]
    try:
        words = run(command, timeout).split()
    except ProgramError:
        return None
    return words if words and words[0] in (PRIMARY, STANDBY) else None


def at_boot(
    settings: Settings, run: Run, say: Say, patience: float,
    now: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep, root: str = "",
) -> None:  # fmt: skip
    """Has this boot end without services where the standby serves, or may; ProgramError if systemd does not do it."""
    if system_state(run) != "initializing":
        say("this VM has booted: nothing is asked")
        return
    if os.path.exists(root + NETWORK_MANAGER):
        # Its network comes up with the services.
        patience = 0.0
    deadline = now() + patience
    answer = who_serves(settings, run)
    while answer is None and now() < deadline:
        sleep(_AGAIN_SECONDS)
        answer = who_serves(settings, run)
    if answer == PRIMARY:
        say("this VM serves")
    elif answer is None and settings.unanswered == "serve":
        say(f"the secondary has not said within {patience:.0f} s who serves: the services start")
    else:
        why = "the standby serves" if answer else f"the secondary has not said within {patience:.0f} s who serves"
        say(f"{why}: no service is started here")
        run(["systemctl", "--no-block", "isolate", SUPERSEDED], 60)
