"""Early in its boot a VM asks its secondary who serves: beside a standby that does, it starts no service.

A second line against two live copies. It needs neither the controller nor the hypervisor, which may have lost the fence
that kept this VM off.
"""

from __future__ import annotations

import os
import time
from typing import Callable, List, Optional, Sequence

from .answers import PRIMARY, QUESTION, STANDBY
from .connections import OWN_CONNECTION
from .half_copied import is_marked, mark_path, unmark_who_serves
from .programs import Run
from .receivers import ANSWER_SECONDS, Answer, ask_one, newest
from .settings import Settings
from .unit_states import system_state

SUPERSEDED = "vcrecovery-superseded.target"
NETWORK_MANAGER = "/etc/systemd/system/multi-user.target.wants/NetworkManager.service"
#: Seconds between two questions while nobody answers.
_AGAIN_SECONDS = 1.0

Say = Callable[[str], None]


def who_serves(settings: Settings, run: Run) -> Optional[str]:
    """None when no secondary answers, or nothing that can be understood."""
    words = ask(settings, run, QUESTION, ANSWER_SECONDS)
    return words[0] if words else None


def ask(
    settings: Settings, run: Run, question: str, timeout: float, control: str = OWN_CONNECTION,
    first_is_enough: bool = False,
) -> Optional[Sequence[str]]:  # fmt: skip
    """The words of the answer, of which the first is PRIMARY or STANDBY; None as above. `control`: an option of ssh.

    `first_is_enough`: the first secondary is known to be the one that decides, if it answers.
    """
    answers: List[Answer] = []
    for name in settings.receivers or ("",):
        # Orders come from where the standby is at home: what the VM reports is for that one.
        asked = question if name in ("", *settings.receivers[:1]) else QUESTION
        answer = ask_one(settings, run, name, asked, timeout, control)
        if answer is None:
            continue
        answers.append(answer)
        if first_is_enough and answer.knows:
            break
    found = newest(answers)
    return None if found is None or found.words[0] not in (PRIMARY, STANDBY) else found.words


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
    silent = f"the secondary has not said within {patience:.0f} s who serves"
    if answer == PRIMARY:
        say("this VM serves")
        unmark_who_serves(settings, say)
        return
    if answer is not None:
        say("the standby serves: no service is started here")
    elif is_marked(settings):
        # Whatever the plan says of silence: it does not mean files of two states.
        say(
            f"{silent}, and a copy of the standby's files into this VM has not ended ({mark_path(settings)}):"
            " no service is started here; if its files are good enough for you,"
            f" `rm {mark_path(settings)}`, then `systemctl default`"
        )
    elif settings.unanswered == "serve":
        say(f"{silent}: the services start")
        return
    else:
        say(f"{silent}: no service is started here")
    run(["systemctl", "--no-block", "isolate", SUPERSEDED], 60)
