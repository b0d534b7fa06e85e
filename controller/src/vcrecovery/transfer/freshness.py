"""How old a standby's files are: the primary stamps a marker file, and its newest copy here is read.

So the lag is measured over the whole way, whether anything else changed on the primary or not. The primary also says
in it up to when it knows that everything was sent (see `vcrecovery.primary.heartbeat`), and leaves a report of its last
reconcile beside it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.errors import ExternalError
from vcrecovery.plan.model import Secondary
from vcrecovery.primary.report import NAME as REPORT_NAME
from vcrecovery.primary.report import progress_sentence
from vcrecovery.transfer.heartbeat_copy import HEARTBEAT, TEMPLATE
from vcrecovery.transfer.rootfs import Rootfs
from vcrecovery.transfer.standby_files import reader

#: Seconds by which a heartbeat may lie ahead of this machine's clock: two clocks are never quite the same.
AHEAD_AT_MOST = 60.0
#: Bytes. Either file has a few hundred; the primary may write what it likes.
_LARGEST = 65536
#: The greatest number that is believed to be a count.
_MOST = 1 << 53
#: The most units that are taken from a heartbeat.
_UNITS = 20
#: The most mount points that are taken from a report.
_MOUNTS = 5
#: What text that is no heartbeat or report raises, however it was made up.
_MALFORMED = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
RECONCILE = f"/var/lib/vcrecovery/{REPORT_NAME}"


@dataclass(frozen=True)
class Reconcile:
    """The primary's last comparison of the whole tree; times by its clock, `bytes` those of the files it sent.

    While one runs, `ended` is None and `sent`, `percent` and `remaining` (seconds) tell how far it is. `never_sent`:
    what is mounted there at each boot, and left out by the general rule alone; empty where it does not say.
    """

    began: float
    ended: float | None = None
    bytes: int | None = None
    files: int | None = None
    error: str | None = None
    list_error: str | None = None
    sent: int | None = None
    percent: int | None = None
    remaining: float | None = None
    never_sent: tuple[str, ...] = ()


@dataclass(frozen=True)
class Freshness:
    """What is known of a standby's age.

    `synced_through`: the time, by the primary's clock, up to which everything has arrived; None when that is not known.
    `heard_at`: when the newest marker was stamped. The two differ while the primary knows that something is missing.
    `queue`: changes that the primary had seen and not sent. `units`: those behind its ports that were not active, with
    their states; None where it does not say. `boot`: the primary's, by its kernel. `final`: the marker is the last act
    of its shutdown, before which everything was sent. `sent`: bytes that the sync has sent since that boot; None where
    nobody counts them. `receiver`: the secondary to which the primary sends, and for which it vouches;
    `knows`: those at which it looks for its standby. None and empty where there can be one only.
    """

    synced_through: float | None
    detail: str = ""
    heard_at: float | None = None
    queue: int | None = None
    reconcile: Reconcile | None = field(default=None)
    units: Mapping[str, str] | None = field(default=None)
    boot: str | None = None
    final: bool = False
    sent: int | None = None
    receiver: str | None = None
    knows: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether nothing older than the newest marker is missing."""
        return self.synced_through is not None and self.synced_through == self.heard_at


def freshness_of(service: str, heartbeat: bytes | None, report: bytes | None) -> Freshness:
    """From the two files as they came; the primary is not trusted to have written them well."""
    reconcile = _reconcile(report)
    if len(heartbeat or b"") > _LARGEST:
        return Freshness(None, _too_large("heartbeat", service), reconcile=reconcile)
    if heartbeat is None:
        return Freshness(None, f"no heartbeat has arrived in {service} yet", reconcile=reconcile)
    try:
        found = json.loads(heartbeat)
        heard_at, good_until, queue = _number(found["at"]), found.get("good_until"), found.get("queue")
        good = heard_at if good_until is None else _number(good_until)
    except _MALFORMED:
        return Freshness(None, f"the heartbeat in {service} cannot be read", reconcile=reconcile)
    queue, units = _count(queue), _units(found.get("units"))
    boot, final = _line(found.get("boot")), found.get("final") is True
    sent, receiver, knows = _count(found.get("sent")), _line(found.get("receiver")), _names(found.get("knows"))
    if good <= 0:
        detail = "the first sync has not ended"
        return Freshness(None, detail, heard_at, queue, reconcile, units, boot, False, sent, receiver, knows)
    detail = ""
    if good != heard_at:
        detail = (reconcile and reconcile.error) or "the whole tree has to be compared again"
    if len(report or b"") > _LARGEST:
        detail = _too_large("report", service)
    return Freshness(good, detail, heard_at, queue, reconcile, units, boot, final, sent, receiver, knows)


def _too_large(what: str, service: str) -> str:
    return f"the {what} in {service} is too large to be one: its primary has not written it well"


def from_the_future(fresh: Freshness, now: float) -> str:
    """Why its times say nothing: a clock was set, and nobody knows which one is right. Empty when they hold."""
    ahead = max(fresh.heard_at or 0.0, fresh.synced_through or 0.0) - now
    if ahead <= AHEAD_AT_MOST:
        return ""
    return f"its newest heartbeat is {ahead:.0f} s in the future: its primary's clock or this one was set"


def read_freshness(lxd: LxdServer, service: str, secondary: Secondary) -> Freshness:
    """Raises ExternalError when LXD has to be asked and does not answer."""
    # One byte more tells that it is too large.
    read = reader(lxd, service, secondary, _LARGEST + 1)
    return freshness_of(service, read(HEARTBEAT), read(RECONCILE))


def read_age(
    lxd: LxdServer, service: str, secondary: Secondary, enough: Callable[[Freshness], bool] = lambda _fresh: False
) -> Freshness:
    """The same as far as it tells an age. Raises ExternalError when LXD has to be asked and does not answer.

    Over HTTPS each file takes its time. So the report, which only says why there is no age, is read only then, and the
    heartbeat itself only where its copy (see `vcrecovery.transfer.heartbeat_copy`) is not `enough`.
    """
    read = reader(lxd, service, secondary, _LARGEST + 1)
    if not lxd.is_here:
        copy = freshness_of(service, lxd.template(service, TEMPLATE), None)
        if copy.whole and enough(copy):
            return copy
    heartbeat = read(HEARTBEAT)
    fresh = freshness_of(service, heartbeat, None)
    return fresh if fresh.whole else freshness_of(service, heartbeat, read(RECONCILE))


def read_age_lightly(lxd: LxdServer, service: str, secondary: Secondary) -> Freshness:
    """The age alone, for whoever reads it all the time: from files where these are here, else from the copy.

    LXD starts no program for it. Raises ExternalError when it has to be asked and does not answer.
    """
    if not lxd.is_here:
        return freshness_of(service, lxd.template(service, TEMPLATE), None)
    rootfs = lxd.rootfs(secondary.storage_pool, service)
    if not os.access(rootfs, os.R_OK | os.X_OK):
        return Freshness(None, f"the files of {service} cannot be read here")
    return freshness_of(service, Rootfs(rootfs, []).read(HEARTBEAT, _LARGEST + 1), None)


def read_freshness_quietly(lxd: LxdServer, service: str, secondary: Secondary) -> Freshness:
    """All that is known, with a server that does not answer as the detail."""
    try:
        return read_freshness(lxd, service, secondary)
    except ExternalError as error:
        return Freshness(None, error.message)


def wait_for_sync(
    lxd: LxdServer,
    service: str,
    secondary: Secondary,
    clock: Clock,
    timeout: float,
    tell: Callable[[str], None],
    meanwhile: Callable[[], None] = lambda: None,
    *,
    newer: bool = True,
) -> float:
    """Waits until everything has arrived that the primary had at the call; the newest state's age in seconds.

    Without `newer`, one whole sync at any time is enough. `tell` gets a line when a first sync has come further,
    and `meanwhile` is called between two looks; it may raise what ends the waiting.
    Raises ExternalError after `timeout` seconds.
    """
    deadline = clock.steady() + timeout
    first = read_freshness(lxd, service, secondary)
    told: float | None = None
    while True:
        fresh = read_freshness(lxd, service, secondary)
        is_newer = first.heard_at is None or (fresh.synced_through or 0.0) > first.heard_at
        if fresh.whole and (is_newer or not newer):
            return max(0.0, clock.now() - (fresh.synced_through or 0.0))
        running = fresh.reconcile
        if running is not None and running.ended is None and running.sent is not None and running.sent != told:
            told = running.sent
            tell(progress_line(running))
        if clock.steady() > deadline:
            raise ExternalError(
                f"no sync of {service} has ended within {timeout:.0f} s"
                + (f": {fresh.detail}" if fresh.detail else ""),
                "see `journalctl -u vcrecovery-sync -u vcrecovery-reconcile` on the primary",
            )
        meanwhile()
        clock.sleep(0.2)


def progress_line(running: Reconcile) -> str:
    """How far a reconcile has come, for a person."""
    return progress_sentence(running.sent or 0, running.files or 0, running.percent or 0, running.remaining)


def _reconcile(report: bytes | None) -> Reconcile | None:
    if len(report or b"") > _LARGEST:
        return None
    try:
        found = json.loads(report or b"")
        progress = found.get("progress") or {}
        return Reconcile(
            began=_number(found["began"]),
            ended=_number(found["ended"]) if found.get("ended") is not None else None,
            bytes=_count(found.get("bytes")),
            files=_count(progress.get("files") if progress else found.get("files")),
            error=_line(found.get("error")),
            list_error=_line(found.get("list_error")),
            sent=_count(progress.get("bytes")),
            percent=_count(progress.get("percent")),
            remaining=_number(progress["remaining"]) if progress.get("remaining") is not None else None,
            never_sent=tuple(name for name in _names(found.get("never_sent")) if name.startswith("/"))[:_MOUNTS],
        )
    except _MALFORMED:
        return None


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= _MOST else None


def _units(value: Any) -> dict[str, str] | None:
    """A few, with names and states as systemd writes them."""
    if not isinstance(value, dict):
        return None
    found = [(_line(unit), _line(state)) for unit, state in list(value.items())[:_UNITS]]
    return {unit: state for unit, state in found if unit and state}


def _names(value: Any) -> tuple[str, ...]:
    return tuple(name for name in map(_line, value[:_UNITS]) if name) if isinstance(value, list) else ()


def _line(value: Any) -> str | None:
    """At most one line without control characters: it will be shown on a terminal."""
    return "".join(c if c.isprintable() else "?" for c in value)[:300] if isinstance(value, str) else None
