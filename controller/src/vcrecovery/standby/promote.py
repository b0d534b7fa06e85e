"""Makes a standby serve, out of whichever state it waits in."""

from __future__ import annotations

from vcrecovery.drivers.lxd import Instance, LxdServer
from vcrecovery.drivers.lxd.instances import FROZEN
from vcrecovery.errors import ExternalError
from vcrecovery.standby import container_units
from vcrecovery.standby.modes import RAW_KEY, boots_to_base, refreshed, without_init


def promote(lxd: LxdServer, known: Instance, timeout: float) -> str:
    """Starts or thaws the container, and its services as far as they do not run or are stale; what was done.

    `known` is the container as the caller has claimed it; only whether it runs may be otherwise by now. Done once more,
    it does what is left. Raises ExternalError when it cannot be done now.
    """
    name = known.name
    # One that does not run shows at once whether it still is what it was. One that runs may have been frozen.
    found = lxd.get(name) if known.running else known
    # One that LXD could not tell a moment ago may run, with nothing of its services.
    found = found and lxd.at_rest(found, timeout)
    if found is None or not (found.running or found.status == FROZEN):
        if found is not None and boots_to_base(found.config):
            # A boot from now on, also one of later, is one with everything.
            _boot_with_everything(lxd, found)
        lxd.start(name, timeout, found)
        return "booted"
    frozen = found.status == FROZEN
    lxd.start(name, timeout, found)
    state = refreshed(found)
    since = state.since if state is not None else found.started_at
    by_base = boots_to_base(found.config)
    try:
        done = container_units.promote(lxd, name, since, timeout)
    except ExternalError as error:
        if by_base:
            raise
        # It runs. What it serves with is told by its ports.
        done = error.message
    if by_base:
        _boot_with_everything(lxd, found)
    return "; ".join(["thawed" if frozen else "was running", *([done] if done else [])])


def promote_again(lxd: LxdServer, known: Instance, timeout: float, *, from_memory: bool = False) -> str:
    """Has a container serve again that did before: starts or thaws it, or in one that runs what has ended there.

    `from_memory`: one that was stopped with its memory goes on with it. What runs in it is left alone: its files
    are newer than its processes because it serves. Raises ExternalError.
    """
    found = lxd.at_rest(lxd.get(known.name) or known, timeout) or known
    lxd.start(known.name, timeout, found, from_memory=from_memory)
    if not found.running:
        return "thawed" if found.status == FROZEN else "went on with its memory" if from_memory else "booted"
    if from_memory:
        return "was running"
    return "; ".join(["was running", *container_units.start_wanted(lxd, known.name, timeout)])


def _boot_with_everything(lxd: LxdServer, found: Instance) -> None:
    lxd.reconfigure(
        lambda: lxd.get(found.name) or found, lambda now: {RAW_KEY: without_init(now.config.get(RAW_KEY, ""))}
    )
