"""While the standby serves: the VM asks when its turn comes, and copies the standby's files back when it is told to.

What is asked and answered is in `transfer.question`. An order is of one failback, which its epoch names.
"""

from __future__ import annotations

import json
import time
from typing import Callable, NamedTuple, Optional, Sequence, Tuple

from .answers import PRIMARY, QUESTION
from .connections import shared_connection
from .fetch import Fetch
from .half_copied import unmark_who_serves
from .heartbeat import boot_id
from .programs import ProgramError, Run
from .settings import Settings
from .system_name import own_system
from .who_serves import Say, ask

HOLD, COPY, LAST = "hold", "copy", "last"
#: Seconds for one question, whose answer the secondary may hold back for 20; between two while there is no order; after
#: a pass that has failed; between two at the least.
_ANSWER_SECONDS, _LOOK_SECONDS, _FAILED_SECONDS, _PAUSE = 45.0, 10.0, 5.0, 0.5
_ERROR_LENGTH = 300


class Report(NamedTuple):
    """What the secondary is told; see `transfer.failback_orders`."""

    boot: str
    system: str
    epoch: int = 0
    order: str = ""
    passes: int = 0
    seconds: float = 0.0
    bytes: int = 0
    files: int = 0
    error: str = ""


def until_it_may_serve(
    settings: Settings, run: Run, say: Say, sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic, fetch: Optional[Fetch] = None,
) -> None:  # fmt: skip
    """Waits until the secondary says that this VM serves, and has the boot go on then."""
    first = Report(boot_id() or "", own_system())
    fetch = fetch or Fetch(settings)
    epoch, report, rested, control = 0, first, True, shared_connection(settings)
    while True:
        asked = now()
        question = f"{QUESTION} {json.dumps(report._asdict())}" if epoch else QUESTION
        words = ask(settings, run, question, _ANSWER_SECONDS, control, first_is_enough=bool(epoch))
        if words and words[0] == PRIMARY:
            break
        order, wanted = _order(words)
        if wanted == 0:
            if words:
                # That failback is over: another one begins anew.
                epoch, report = 0, first
            sleep(_LOOK_SECONDS)
        elif wanted != epoch:
            # It hears who is there before anything is copied.
            epoch, report, rested = wanted, first, True
        elif order == HOLD or (report.order, report.error, order) == (LAST, "", LAST):
            sleep(max(0.0, _PAUSE - (now() - asked)))
        elif not rested:
            sleep(_FAILED_SECONDS)
            rested = True
        else:
            report = _pass(fetch, order, epoch, report, say, now)
            rested = not report.error
    say("this VM serves again: the services start")
    unmark_who_serves(settings, say)
    # Units have come with the files.
    run(["systemctl", "daemon-reload"], 60)
    run(["systemctl", "--no-block", "default"], 60)


def _order(words: Optional[Sequence[str]]) -> Tuple[str, int]:
    """What the answer wants done, and the epoch; 0 for nothing."""
    if not words or len(words) < 3 or words[1] not in (HOLD, COPY, LAST) or not words[2].isdigit():
        return "", 0
    return words[1], int(words[2])


def _pass(fetch: Fetch, order: str, epoch: int, before: Report, say: Say, now: Callable[[], float]) -> Report:
    began = now()
    report = before._replace(epoch=epoch, order=order, bytes=0, files=0, error="")
    try:
        done = fetch(order == LAST, say)
    except (ProgramError, OSError) as error:
        line = " ".join(str(error).split())[:_ERROR_LENGTH]
        say(f"{order}: the standby's files are not all here: {line}")
        return report._replace(seconds=now() - began, error=line)
    seconds = now() - began
    say(f"{order}: {done.files} files, {done.bytes} bytes fetched from the standby, {seconds:.1f} s")
    return report._replace(passes=before.passes + 1, seconds=seconds, bytes=done.bytes, files=done.files)
