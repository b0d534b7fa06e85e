"""Drills while the watcher runs: what a killed one left is removed, and each service is rehearsed when it is due.

The drill itself is a program of its own, so that nothing of it can disturb the watch: a unit with the rights that it
needs and the watcher has not, or where no systemd runs, a child.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from vcrecovery.core.drill import NO_DRILLS, is_due, longest_waiting_first
from vcrecovery.core.service_state import Side
from vcrecovery.drivers.process import run
from vcrecovery.drivers.runtime import Event
from vcrecovery.errors import BusyError, ExternalError
from vcrecovery.keeping import SayOnce, go_on
from vcrecovery.operations.drill import needed
from vcrecovery.operations.drill_clones import COPY_TIMEOUT, left_over
from vcrecovery.operations.drill_preflight import objections
from vcrecovery.operations.environment import Environment
from vcrecovery.store.drills import DrillBook
from vcrecovery.store.lock import drill_lock

log = logging.getLogger("vcrecovery.watch")

LOOK_EVERY = 30.0
#: Seconds after which one that was not even begun, such as since its standby is too old, is tried again.
REFUSED_AGAIN_AFTER = 300.0
#: Seconds for a whole drill: a copy, a boot and a removal of several services.
_TAKES_AT_MOST = 4 * COPY_TIMEOUT


def due_now(env: Environment) -> list[str]:
    """Of those that can be rehearsed here, the service that has waited longest for its drill, if one is due.

    Where nothing can, the one that has waited longest: whoever tries hears why. None while any failover is open.
    """
    book, now = DrillBook(env.journal), env.clock.now()
    if book.open_failovers():
        return []
    known = book.all()
    found = [
        name
        for name, service in env.plan.services.items()
        if is_due(service.drill.every, known.get(name, NO_DRILLS), now)
        and env.lxd[service.standby.secondary].is_here
        and env.journal.state(name).side is Side.PRIMARY
    ]
    due = longest_waiting_first(found, lambda name: known.get(name, NO_DRILLS))
    # One that is refused for long must not keep the others waiting.
    chosen = next(([name] for name in due if not objections(env, needed(env, [name]))), due[:1])
    # To see what the copies would take has its time, in which one may have begun.
    return [] if book.open_failovers() else chosen


def command(plan_path: Path, unit: str | None) -> list[str]:
    """What carries out the drill that is due."""
    if unit is not None:
        return ["systemctl", "start", unit]
    return [sys.executable, "-m", "vcrecovery", "drill", "--due", "--plan", str(plan_path.absolute())]


def keep_drilling(env: Environment, argv: Sequence[str], stop: Event) -> None:
    """Returns when `stop` is set. `env` is its own; `argv`: see `command`."""
    asked = [service.drill.every for service in env.plan.services.values() if service.drill.every is not None]
    pause, again = min(LOOK_EVERY, *asked, LOOK_EVERY), min(REFUSED_AGAIN_AFTER, *asked, REFUSED_AGAIN_AFTER)
    refused_at = float("-inf")

    def turn() -> None:
        nonlocal refused_at
        why = _to_do(env, may_rehearse=env.clock.steady() - refused_at >= again)
        if why:
            log.info("drill: %s", why)
            try:
                run(argv, timeout=_TAKES_AT_MOST)
            except ExternalError:
                refused_at = env.clock.steady()
                raise
            log.info("drill: done; `vcrecovery history` shows it")
        say.well("drill")
        stop.wait(pause)

    say = SayOnce(log)
    go_on(turn, stop=stop, say=say, about="drill", trouble=_trouble, again_after=pause)


def _trouble(error: str) -> str:
    """What the program said is enough."""
    return f"drill: {error.rpartition('vcrecovery: error: ')[2]}"


def _to_do(env: Environment, *, may_rehearse: bool) -> str:
    """Why a program is to be started; empty while there is nothing to do, or a drill is at work."""
    try:
        with drill_lock(env.plan.state_dir, brief=True):
            left = [name for _, name in left_over(env)]
    except (BusyError, ExternalError):
        # Without LXD nothing can be done; others say that it is away.
        return ""
    if left:
        return f"{', '.join(left)} of an interrupted drill will be removed"
    return "".join(f"{name} will be rehearsed" for name in due_now(env)) if may_rehearse else ""
