"""Answers what a VM asks: who serves, and during a failback, what it is to do next.

The VM's turn must come within a moment, so an answer that would change nothing is held back until it does.

Standard library only: the receiver uses it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from vcrecovery.primary.answers import ELSEWHERE, STANDBY
from vcrecovery.transfer.failback_orders import Given, Order, Report, read_order, take_report
from vcrecovery.transfer.receiver import who_serves

#: Seconds for which an answer is held back at most: a connection must not stay silent for long; after a copy, so that
#: the controller can decide before the next begins; between two looks.
_HELD, _DECIDED, _LOOK = 20.0, 1.5, 0.05


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
    report = take_report(state_dir, service, said, wall()) if said else None
    reply, given = _reply(state_dir, service)
    if report is None or given is None:
        return reply
    deadline = now() + _patience(given, report)
    while now() < deadline:
        sleep(_LOOK)
        if read_order(state_dir, service) != given:
            return _reply(state_dir, service)[0]
    return reply


def _reply(state_dir: Path, service: str) -> tuple[str, Given | None]:
    """The answer of this moment, and the order that is in it."""
    # First: whoever ends a failback gives the role back, then withdraws the order.
    given = read_order(state_dir, service)
    role = who_serves(state_dir, service)
    word, *more = role.split()
    if word != STANDBY or ELSEWHERE in more or given is None:
        return role, None
    return " ".join([word, given.order, str(given.epoch), *more]), given


def _patience(given: Given, report: Report) -> float:
    if given.order is Order.HOLD:
        return _HELD
    if not report.has_done(given):
        return 0.0
    return _HELD if given.order is Order.LAST else _DECIDED
