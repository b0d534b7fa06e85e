"""libvirt's states in the words of LIBVIRT-MIB. Pure; without libvirt's binding, whose numbers are fixed for ever."""

from __future__ import annotations

from types import MappingProxyType

from vcrecovery.snmp.mib import GuestState, RowStatus

#: virDomainState -> LibvirtGuestState. The MIB has no word for 0 (no state) and 7 (suspended by the guest itself), and
#: libvirt-snmp sends these numbers all the same, in its table and in notifications.
_STATES = MappingProxyType(
    {
        0: GuestState.RUNNING,
        1: GuestState.RUNNING,
        2: GuestState.BLOCKED,
        3: GuestState.PAUSED,
        4: GuestState.SHUTDOWN,
        5: GuestState.SHUTOFF,
        6: GuestState.CRASHED,
        7: GuestState.PAUSED,
    }
)
#: What a lifecycle event leaves a VM in. Events that are not here (defined, undefined) change no state.
_AFTER = MappingProxyType(
    {
        "started": GuestState.RUNNING,
        "resumed": GuestState.RUNNING,
        "suspended": GuestState.PAUSED,
        "pmsuspended": GuestState.PAUSED,
        "shutdown": GuestState.SHUTDOWN,
        "stopped": GuestState.SHUTOFF,
        "crashed": GuestState.CRASHED,
    }
)
#: The event that would have told of a state, had it been seen.
_EVENT_OF = MappingProxyType(
    {
        GuestState.RUNNING: "started",
        GuestState.BLOCKED: "started",
        GuestState.PAUSED: "suspended",
        GuestState.SHUTDOWN: "shutdown",
        GuestState.SHUTOFF: "stopped",
        GuestState.CRASHED: "crashed",
    }
)


def guest_state(libvirt_state: int) -> GuestState:
    """A state that a newer libvirt may have added counts as running: it is none of those that end a VM."""
    return known_state(libvirt_state) or GuestState.RUNNING


def known_state(libvirt_state: int) -> GuestState | None:
    """None for a number that is no state."""
    return _STATES.get(libvirt_state)


def state_after(event: str, detail: str) -> GuestState | None:
    """The state that an event leaves a VM in; None for events that change none."""
    if (event, detail) == ("crashed", "crashloaded"):
        return GuestState.RUNNING  # its kernel crashed into a dump kernel, which runs
    return _AFTER.get(event)


def event_of(state: GuestState) -> str:
    """The event whose outcome `state` is, for a change that was found by looking."""
    return _EVENT_OF[state]


def row_status(state: GuestState) -> RowStatus:
    """What libvirt-snmp says in a notification. In the table every row is active."""
    gone = (GuestState.SHUTDOWN, GuestState.SHUTOFF, GuestState.CRASHED)
    return RowStatus.NOT_IN_SERVICE if state in gone else RowStatus.ACTIVE
