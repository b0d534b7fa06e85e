"""The guests of one hypervisor: what its agent tells and answers becomes states and utilisation. Pure.

Two things say what state a guest is in. The table is right, but is read every few seconds only, and libvirt-snmp
answers from a copy that is up to five seconds old. A notification is at once there and may say why, but can be lost
or out of order. So a notification counts for `HINT_HOLDS` seconds, and after that the table.

Of libvirt-snmp's copy, which does not say when it was made, only a walk gives utilisation that surely read a new copy,
one and the same throughout, and soon after it was made. Any other would give a wrong value, so it gives none.

Times called `now` and `asked_at` are the relay's monotonic clock, in seconds. Utilisation is computed from the agent's
own clock, sysUpTime, in hundredths of a second; the relay's clock only tells when that one has jumped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any
from uuid import UUID

from vcrecovery.core.power import OFF, Power
from vcrecovery.plan.monitoring import COPY_LIVES
from vcrecovery.relay.counts import Reason
from vcrecovery.relay.notification import Notification
from vcrecovery.snmp.mib import GuestState

#: A walk that lasts longer does not say well enough when the copy was made: an answer was lost on its way.
COPY_WALK = 0.6
#: For so many seconds a table that was asked for after a notification may still be older than it.
HINT_HOLDS = 6.0
#: A state is said again after so many seconds, for a Zabbix that lost it.
REPEAT = 60.0
#: A guest that is gone stays in the list for so many seconds, so that Zabbix still has the item that says so.
LISTED_AFTER_GONE = 60.0
#: A guest has to be missing in so many tables in a row: one may be from the middle of a libvirtd's start.
MISSING_TABLES = 2
#: How far the agent's clock and the relay's may be apart between two polls: lost and repeated requests.
CLOCKS_APART = 3.0

NOT_SEEN_RUNNING = "not seen running"

_POWER = MappingProxyType(
    {
        GuestState.RUNNING: Power.RUNNING,
        GuestState.BLOCKED: Power.RUNNING,
        GuestState.PAUSED: Power.PAUSED,
        GuestState.SHUTDOWN: Power.RUNNING,  # it is still going down
        GuestState.SHUTOFF: Power.SHUTOFF,
        GuestState.CRASHED: Power.CRASHED,
    }
)


@dataclass(frozen=True)
class Row:
    """A guest in the table. CPU time is in ns; `uptime` is the agent's, from the answer that had the CPU time."""

    uuid: str
    name: str
    state: GuestState
    vcpus: int
    cpu_time: int
    uptime: int


@dataclass(frozen=True)
class Table:
    """An agent's answer. `libvirt` is whether it says that libvirt answers it; None for an agent that never says.

    `torn`: its rows are of two copies, since one was made anew in the middle of the walk.
    """

    uptime: int
    rows: tuple[Row, ...]
    libvirt: bool | None = None
    torn: bool = False


@dataclass
class _Guest:
    """What is remembered of one guest."""

    name: str
    power: Power | None = None
    reason: str = ""
    seen_running: bool = False
    hinted_at: float = float("-inf")
    #: When the newest table that had it was asked for.
    asked_at: float = float("-inf")
    #: The newest notification, and when it came.
    told: tuple[Notification, float] | None = None
    said: str = ""
    said_at: float = float("-inf")
    missing: int = 0
    gone_at: float | None = None
    sample: Row | None = None

    def __str__(self) -> str:
        """The words of `drivers.libvirt.DomainReading`."""
        reason = "" if self.power is Power.ABSENT and self.reason == NOT_SEEN_RUNNING else self.reason
        return f"{self.power} ({reason})" if reason else str(self.power)

    def told_before(self, notification: Notification, now: float) -> Reason | None:
        """Why it is no news, by the clock of who tells it: that goes on, or begins again within the time passed since.

        A notification that is sent again has another message around it.
        """
        uptime = notification.uptime
        if self.told is not None and uptime is not None:
            before, came_at = self.told
            if replace(notification, age=before.age) == before:
                return Reason.REPEATED
            if before.uptime is not None and before.uptime > uptime > (now - came_at + CLOCKS_APART) * 100:
                return Reason.LATE
        self.told = notification, now
        return None

    def becomes(self, power: Power, reason: str = "") -> None:
        """`reason` is why it is off, if that is known."""
        if power is Power.RUNNING:
            self.seen_running = True
        if power not in OFF:
            reason = ""
        elif not reason and self.power in (power, Power.ABSENT):
            reason = self.reason
        elif not reason and not self.seen_running:
            reason = NOT_SEEN_RUNNING
        self.power, self.reason = power, reason


class Guests:
    """`services` has the plan's services by their primaries' UUIDs."""

    def __init__(self, services: Mapping[str, str]) -> None:
        self._services = services
        self._guests: dict[str, _Guest] = {}
        self._clocks: tuple[int, float] | None = None
        self._asked_until = float("-inf")

    def known(self, uuid: str) -> bool:
        return uuid in self._guests or uuid in self._services

    def has(self, uuid: str) -> bool:
        """Whether the guest is here, running or paused."""
        guest = self._guests.get(uuid)
        return guest is not None and guest.power in (Power.RUNNING, Power.PAUSED)

    def any_on(self) -> bool:
        """Whether some guest ran or was paused when it was seen last."""
        return any(guest.power in (Power.RUNNING, Power.PAUSED) for guest in self._guests.values())

    def listing(self) -> str:
        """The document of Zabbix's low-level discovery."""
        return json.dumps(
            [
                {"{#UUID}": uuid, "{#VM}": guest.name, "{#SERVICE}": self._services.get(uuid, "")}
                for uuid, guest in sorted(self._guests.items())
            ]
        )

    def summary(self) -> str:
        """The primaries of services, and their states, in words."""
        lines = [
            f"{self._services[uuid]}: VM {guest.name} is {guest}"
            for uuid, guest in self._guests.items()
            if uuid in self._services and guest.power is not None
        ]
        return "\n".join(sorted(lines)) or "no primary of a service is here"

    def memory(self) -> dict[str, dict[str, object]]:
        """What the next relay has to know, so that a guest that crashes between the two was seen running."""
        return {
            uuid: {"name": guest.name, "power": guest.power, "reason": guest.reason, "ran": guest.seen_running}
            for uuid, guest in sorted(self._guests.items())
            if guest.power is not None and guest.gone_at is None
        }

    def recall(self, memory: Mapping[str, Mapping[str, Any]]) -> None:
        """Takes over what an earlier relay's `memory` was.

        Raises KeyError, TypeError, AttributeError or ValueError when it is none.
        """
        for uuid, known in memory.items():
            power, reason, ran = Power(known["power"]), str(known["reason"]), bool(known["ran"])
            self._guests[str(UUID(uuid))] = _Guest(str(known["name"]), power, reason, ran)

    def notified(self, notification: Notification, now: float) -> dict[str, str] | Reason:
        """Values by item key: a known guest's state, if that is new. Or why the notification is not taken."""
        guest = self._guests.setdefault(notification.uuid, _Guest(notification.name))
        if reason := guest.told_before(notification, now):
            return reason
        seen_at = now - notification.age
        power = _POWER[notification.state]
        if guest.asked_at - seen_at > HINT_HOLDS and power is not guest.power:
            return {}  # it waited for a relay, and the table is newer
        # Only a stop's detail is a reason: `started` has details too.
        stopped = power is Power.SHUTOFF and notification.event in ("stopped", "")
        guest.becomes(power, notification.detail if stopped else "")
        guest.name = notification.name or guest.name
        guest.hinted_at, guest.gone_at, guest.missing = seen_at, None, 0
        return self._states(now, only=notification.uuid)

    def polled(self, table: Table, asked_at: float, now: float) -> dict[str, str]:
        """Values by item key: utilisation, and the states that are new or not said for a while."""
        if self._clock_moved(table.uptime, asked_at):
            for guest in self._guests.values():
                guest.sample = None
        values = {}
        sampled = self._sampled(table, asked_at, now)
        for row in table.rows:
            guest = self._guests.setdefault(row.uuid, _Guest(row.name))
            guest.name, guest.missing, guest.gone_at, guest.asked_at = row.name, 0, None, asked_at
            power = _POWER[row.state]
            if power is guest.power or asked_at - guest.hinted_at > HINT_HOLDS:
                guest.becomes(power)
            if not power is guest.power is Power.RUNNING:
                guest.sample = guest.sample if power is Power.RUNNING else None
            elif sampled and (cpu := self._utilisation(guest, row)) is not None:
                values[f"vcr.cpu[{row.uuid}]"] = _in_percent(cpu)
        if table.libvirt or (table.rows and table.libvirt is None):
            self._notice_missing({row.uuid for row in table.rows}, asked_at, now)
        return values | self._states(now)

    def _clock_moved(self, uptime: int, asked_at: float) -> bool:
        """Whether the agent was restarted, or its clock was set, since the last answer."""
        before, self._clocks = self._clocks, (uptime, asked_at)
        if before is None:
            return False
        passed, shown = asked_at - before[1], (uptime - before[0]) / 100
        return shown < 0 or abs(shown - passed) > CLOCKS_APART + passed / 4

    def unanswered(self, now: float) -> None:
        """The agent was asked until `now`, in vain. It may have made a copy for that."""
        self._asked_until = now

    def _sampled(self, table: Table, asked_at: float, now: float) -> bool:
        """Whether the table's CPU times are new ones of one moment."""
        before, self._asked_until = self._asked_until, now
        if table.libvirt is not None:
            return True
        return not table.torn and asked_at - before > COPY_LIVES and now - asked_at <= COPY_WALK

    def _utilisation(self, guest: _Guest, row: Row) -> float | None:
        """Per cent of all vCPUs since the last sample. None if there are no two samples to compare."""
        last = guest.sample
        if last is None or row.cpu_time < last.cpu_time or row.vcpus < 1:
            guest.sample = row
            return None
        ticks = row.uptime - last.uptime
        if ticks <= 0:
            return None
        guest.sample = row
        return min(100.0, (row.cpu_time - last.cpu_time) / 1e7 / ticks / row.vcpus * 100)

    def _notice_missing(self, present: set[str], asked_at: float, now: float) -> None:
        for uuid, guest in list(self._guests.items()):
            if uuid in present:
                continue
            if guest.gone_at is not None:
                if now - guest.gone_at > LISTED_AFTER_GONE:
                    del self._guests[uuid]
            elif asked_at - guest.hinted_at > HINT_HOLDS:
                guest.missing += 1
                if guest.missing >= MISSING_TABLES:
                    reason = guest.reason if guest.power in OFF else ""
                    guest.power, guest.reason, guest.gone_at, guest.sample = Power.ABSENT, reason, now, None

    def _states(self, now: float, only: str | None = None) -> dict[str, str]:
        values = {}
        for uuid in self._guests if only is None else (only,):
            guest = self._guests[uuid]
            if guest.power is None:
                continue
            word = str(guest)
            again = guest.gone_at is None and now - guest.said_at >= REPEAT
            if word != guest.said or again:
                guest.said, guest.said_at = word, now
                values[f"vcr.state[{uuid}]"] = word
        return values


def with_figures(values: Mapping[str, str]) -> dict[str, str]:
    """The values of items, and 0 for the CPU of a guest that is off: one that stayed as it was would look measured."""
    off = {
        key: word
        for key, word in values.items()
        if key.startswith("vcr.state[") and word.startswith((*OFF, Power.ABSENT))
    }
    return {**values, **{key.replace("state", "cpu", 1): "0" for key in off}}


def _in_percent(cpu: float) -> str:
    """Never 0 for a guest that has used any CPU time: one of many vCPUs that is idle would look as if it hung."""
    return f"{max(cpu, 0.0001):.4f}" if 0 < cpu < 0.01 else f"{cpu:.2f}"
