"""Restore points: snapshots of a standby, to go back to when what was synced is corrupt.

One is made while no session of the receiver is open, of a standby that is whole. It has a name of its own until that is
sure: what a controller that was killed leaves behind is no restore point, and the next run removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from vcrecovery.core.service_state import ServiceState
from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.errors import BusyError, ExternalError, RefusedError
from vcrecovery.plan.model import Plan, Sync
from vcrecovery.standby.container import KEEPING_KEY, READY_KEY, ROLE_KEY, STANDBY, secondary_of
from vcrecovery.store.lock import one_keeper, service_lock
from vcrecovery.transfer.freshness import Reconcile, from_the_future, read_freshness
from vcrecovery.transfer.sessions import set_aside

LATEST = "latest"
_FORMAT = "vcr-%Y%m%dT%H%M%SZ"
#: Behind the time, of what a standby was before a failback: see `kept_points`.
_KEPT = "-before-failback"
_UNFINISHED = "vcr-new-"
#: A pool with driver `dir` copies the whole tree.
COPY_TIMEOUT = 3600.0
#: How long an open session may take to end by itself. New ones wait longer than that (`receiver.WAIT_SECONDS`).
_SESSIONS_END_WITHIN = 20.0


class States(Protocol):
    """What is needed of the journal."""

    def state(self, service: str) -> ServiceState: ...


@dataclass(frozen=True, order=True)
class RestorePoint:
    """`taken_at`: seconds since the epoch, of the secondary's clock. `kept`: until its failback is committed."""

    taken_at: float
    name: str
    kept: bool = False


@dataclass(frozen=True)
class Made:
    """What one run did: `point` is the new one, or None; `why` says it in words."""

    point: RestorePoint | None
    why: str
    removed: Sequence[str] = ()


def restore_points(lxd: LxdServer, service: str) -> list[RestorePoint]:
    """Oldest first; snapshots that somebody else has made are none."""
    found = []
    for name in lxd.snapshots(service):
        try:
            taken_at = datetime.strptime(name.removesuffix(_KEPT), _FORMAT).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
        found.append(RestorePoint(taken_at, name, name.endswith(_KEPT)))
    return sorted(found)


def gone_with_a_copy(lxd: LxdServer, service: str) -> str:
    """Why nothing may be copied to its container there, with the way out; empty when nothing would be lost.

    LXD takes a copy to what is there already for one with its snapshots, and removes those that the source has not.
    What a failback has kept is for an hour, and a failover since has given that up.
    """
    there = lxd.snapshots(service)
    lost = [name for name in there if not (name.startswith(_UNFINISHED) or name.endswith(_KEPT))]
    if not lost:
        return ""
    many = f"{len(lost)} restore point{'s' if len(lost) > 1 else ''}"
    return (
        f"its container on {lxd.name} has {many}, which a copy to it would remove: "
        f"`{lxd.client} rename {service} {service}-before` there keeps them, and has the copy made anew; or remove them"
    )


def find(points: Sequence[RestorePoint], service: str, wanted: str) -> RestorePoint:
    """The one of that name, or for `latest` the newest of what the primary has sent.

    Raises RefusedError, which names those that there are.
    """
    if wanted == LATEST and (sent := _sent(points)):
        return sent[-1]
    for point in points:
        if point.name == wanted:
            return point
    known = ", ".join(point.name for point in reversed(points)) or "none"
    what = "no restore point" if wanted == LATEST else f"no restore point {wanted!r}"
    raise RefusedError(f"{service} has {what} (there are: {known})", f"see `vcrecovery standby snapshots {service}`")


def age_in_words(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def make(plan: Plan, service: str, lxd: LxdServer, journal: States, clock: Clock, patience: float = 0.0) -> Made:
    """Makes one if it is due and the standby is whole, and removes those beyond `keep` that nobody goes back to.

    Raises ExternalError when LXD cannot do it, or a session does not end in time; BusyError when another keeper is
    still at work on the standby after `patience` seconds.
    """
    wanted = plan.services[service].restore_points
    if wanted.keep == 0:
        return Made(None, "nothing to do: restore_points.keep is 0")
    if not lxd.is_here:
        return Made(None, f"nothing to do: secondary {lxd.name} is another machine")
    if why := _not_now(plan, service, lxd, clock):
        return Made(None, why)
    with one_keeper(plan.state_dir, service, patience, clock):
        with set_aside(plan.state_dir, service, _SESSIONS_END_WITHIN):
            # What was seen before may have changed until the last session ended.
            if why := _not_now(plan, service, lxd, clock):
                return Made(None, why)
            remove_unfinished(lxd, service)
            point = named(clock.now())
            if why := take(lxd, service, point.name, lambda: _not_a_standby(lxd, service)):
                return Made(None, f"given up: {why}")
        return Made(point, f"restore point {point.name} made", _prune(plan, service, lxd, journal, clock, point))


def named(at: float, *, kept: bool = False) -> RestorePoint:
    """What one of that time is called."""
    whole = int(at)
    name = datetime.fromtimestamp(whole, UTC).strftime(_FORMAT)
    return RestorePoint(float(whole), f"{name}{_KEPT if kept else ''}", kept)


def take(lxd: LxdServer, service: str, name: str, spoilt: Callable[[], str]) -> str:
    """Makes one of that name, unless that is `spoilt` when it is made; why. For whoever keeps the standby."""
    unfinished = _UNFINISHED + name
    lxd.take_snapshot(service, unfinished, COPY_TIMEOUT)
    if why := spoilt():
        # A failover does not wait for this. Its container may have changed what was being copied.
        lxd.delete_snapshot(service, unfinished, COPY_TIMEOUT)
        return why
    lxd.rename_snapshot(service, unfinished, name)
    return ""


def unmake(lxd: LxdServer, service: str, name: str) -> None:
    """It is no restore point any more, from one moment to the next; `remove_unfinished` removes it."""
    lxd.rename_snapshot(service, name, _UNFINISHED + name)


def remove_unfinished(lxd: LxdServer, service: str) -> None:
    """For whoever keeps the standby: nobody else is at work on one."""
    for name in lxd.snapshots(service):
        if name.startswith(_UNFINISHED):
            lxd.delete_snapshot(service, name, COPY_TIMEOUT)


def _sent(points: Sequence[RestorePoint]) -> list[RestorePoint]:
    """Those that the primary has sent."""
    return [point for point in points if not point.kept]


def _prune(plan: Plan, service: str, lxd: LxdServer, journal: States, clock: Clock, newest: RestorePoint) -> list[str]:
    """For whoever keeps the standby. The next run does it where a controller is at work: it may have chosen one."""
    keep = plan.services[service].restore_points.keep
    try:
        # The removal itself, which takes long on some pools, holds up no failover.
        with service_lock(plan.state_dir, service, brief=True, clock=clock):
            episode = journal.state(service).open_episode
            # A failover to it may wait at its fence for hours.
            asked = episode.request.restore_point if episode is not None else None
            # What was made before and has a later time is of a clock that was set back since: that goes first.
            points = sorted(_sent(restore_points(lxd, service)), key=lambda point: (point <= newest, point))
            surplus = [point.name for point in points[:-keep] if point.name != asked]
            for name in surplus:
                unmake(lxd, service, name)
    except BusyError:
        return []
    remove_unfinished(lxd, service)
    return surplus


def _not_now(plan: Plan, service: str, lxd: LxdServer, clock: Clock) -> str:
    """Why none is to be made; empty when one is."""
    entry, now = plan.services[service], clock.now()
    points = _sent(restore_points(lxd, service))
    # One of a clock that was set back since must not keep others from being made until its time has come.
    if recent := [point for point in points if abs(now - point.taken_at) < entry.restore_points.every]:
        return f"nothing to do: the newest is {age_in_words(now - recent[-1].taken_at)} old"
    if why := _not_a_standby(lxd, service):
        return f"not now: {why}"
    fresh = read_freshness(lxd, service, secondary_of(plan, entry))
    if fresh.synced_through is None or not fresh.whole:
        return f"not now: the standby is not complete: {fresh.detail}"
    if why := _mixed(entry.sync, fresh.reconcile):
        return f"not now: {why}"
    if why := from_the_future(fresh, now):
        return f"not now: {why}"
    if now - fresh.synced_through > entry.max_staleness:
        return f"not now: the standby is {age_in_words(now - fresh.synced_through)} old, more than its max_staleness"
    return ""


def _mixed(sync: Sync, last: Reconcile | None) -> str:
    """Why the standby may hold files of two states; with lsyncd the heartbeat itself tells."""
    if sync.engine != "periodic" or last is None:
        return ""
    if last.ended is None:
        return "a sync goes on, or was cut off"
    return f"the last sync has failed: {last.error}" if last.error else ""


def _not_a_standby(lxd: LxdServer, service: str) -> str:
    instance = lxd.get(service)
    if instance is None:
        raise ExternalError(f"secondary {lxd.name} has no container {service}", "run the role `secondary`")
    if instance.config.get(READY_KEY) != "true":
        return "the standby was never made ready"
    if instance.config.get(ROLE_KEY) != STANDBY:
        return "the standby serves"
    if KEEPING_KEY in instance.config:
        return "a failback keeps what the standby was"
    if instance.status != "Stopped":
        return f"the container is {instance.status.lower()}"
    return ""
