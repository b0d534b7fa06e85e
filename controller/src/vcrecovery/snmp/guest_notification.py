"""libvirtGuestNotif: when it is due, and what it says. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from vcrecovery.snmp.guest_state import event_of, guest_state, state_after
from vcrecovery.snmp.mib import GuestState


@dataclass(frozen=True)
class GuestNotification:
    """A change of a VM's state. `at` is when it was seen, in seconds of a clock that never jumps."""

    uuid: UUID
    name: str
    state: GuestState
    event: str
    detail: str
    at: float

    def __str__(self) -> str:
        cause = f" ({self.detail})" if self.detail else ""
        return f"{self.name} {self.uuid}: {self.event}{cause}"


@dataclass(frozen=True)
class Listed:
    """A VM in libvirt's list. `state` is libvirt's number, `reason` its word for why the VM is off."""

    uuid: UUID
    name: str
    state: int
    reason: str


class Changes:
    """Turns events into notifications, and finds by looking what happened while no events came."""

    def __init__(self) -> None:
        self._known: dict[UUID, _Known] = {}
        self._looked = False

    def event(self, uuid: UUID, name: str, event: str, detail: str, at: float) -> GuestNotification | None:
        """What an event calls for: nothing if it is no change of state."""
        if event == "undefined":
            self._known.pop(uuid, None)
        state = state_after(event, detail)
        if state is None:
            return None
        self._known[uuid] = _Known(name, state, at)
        return GuestNotification(uuid, name, state, event, detail, at)

    def look(self, listed: Iterable[Listed], begun: float, now: float) -> list[GuestNotification]:
        """What changed since the last event. The first look only learns what there is.

        `begun` is when the list was asked for: what an event told after that is newer than the list.
        """
        found = {guest.uuid: guest for guest in listed}
        changes = []
        for uuid, guest in found.items():
            state, known = guest_state(guest.state), self._known.get(uuid)
            if known is not None and known.at >= begun:
                continue
            # One that nobody knew and that is off was defined meanwhile, which is no change of state.
            before = known.state if known is not None else GuestState.SHUTOFF
            if self._looked and _settled(state) is not _settled(before):
                changes.append(GuestNotification(uuid, guest.name, state, event_of(state), guest.reason, now))
            self._known[uuid] = _Known(guest.name, state, begun)
        for uuid, known in list(self._known.items()):
            if uuid in found or known.at >= begun:
                continue
            del self._known[uuid]
            if known.state is not GuestState.SHUTOFF:
                # A transient VM: nobody can say any more how it ended.
                off = GuestState.SHUTOFF
                changes.append(GuestNotification(uuid, known.name, off, event_of(off), "", now))
        self._looked = True
        return changes


@dataclass(frozen=True)
class _Known:
    name: str
    state: GuestState
    at: float


def _settled(state: GuestState) -> GuestState:
    """A VM that waits for input or output runs."""
    return GuestState.RUNNING if state is GuestState.BLOCKED else state
