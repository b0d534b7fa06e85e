"""Answers what a VM asks: who serves, and during a failback, what it is to do next.

The VM's turn must come within a moment, so an answer that would change nothing is held back until it does.

Standard library only: the receiver uses it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from vcrecovery.errors import ExternalError
from vcrecovery.transfer.failback_orders import Given, Order, Report, leave_report, report_of
from vcrecovery.transfer.receiver import Told, who_serves

#: Seconds for which an answer is held back at most: a connection must not stay silent for long; after a copy, so that
#: the controller can decide before the next begins; between two looks, for each of which LXD is asked.
_HELD, _DECIDED, _LOOK = 20.0, 1.5, 0.1


def answer(
    state_dir: Path,
    service: str,
    said: str,
    wall: Callable[[], float] = time.time,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """What `who_serves` says; of a standby that serves with the words `ORDER EPOCH` behind the first one.

    `said`: the VM's report, empty if it brings none.

    Raises RefusedError for a report that is none, and what `who_serves` raises.
    """
    told = who_serves(state_dir, service)
    given = told.given
    report = report_of(said, wall(), given.since if given is not None else 0.0) if said else None
    if report is None or given is None or told.rootfs is None:
        return _reply(told)
    leave_report(told.rootfs, report)
    deadline = now() + _patience(given, report)
    while now() < deadline:
        sleep(_LOOK)
        # LXD may be restarted meanwhile.
        with contextlib.suppress(ExternalError):
            told = who_serves(state_dir, service)
        if told.given != given:
            break
    return _reply(told)


def _reply(told: Told) -> str:
    if told.given is None:
        return told.words
    word, *more = told.words.split()
    return " ".join([word, told.given.order, str(told.given.epoch), *more])


def _patience(given: Given, report: Report) -> float:
    if given.order is Order.HOLD:
        return _HELD
    if not report.has_done(given):
        return 0.0
    return _HELD if given.order is Order.LAST else _DECIDED
