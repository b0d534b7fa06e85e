"""What each of libvirt's states means for a primary, and what an end means after what was seen before. Pure.

Two tables, which the reference `docs/vm-states.md` prints with their reasons:

- `MEANINGS`: each state of libvirt with each of its reasons (virDomainState and its enums of reasons, libvirt 10).
- `ENDS`: each of those meanings after each that may have been seen last. libvirt forgets why a VM is off when its host
  reboots, and what is unknown is not intended: then what was seen last decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from vcrecovery.core.power import Power


class Meaning(StrEnum):
    """What a VM is doing, and whether anybody asked for it."""

    RUNS = "runs"
    STOPPING = "stopping"
    SUSPENDED = "suspended"
    STALLED = "stalled"
    STOPPED = "stopped"
    DIED = "died"
    NOT_STARTED = "not started"
    MIGRATED = "migrated"
    LOST = "lost"
    GONE = "gone"
    SILENT = "silent"


@dataclass(frozen=True)
class Entry:
    meaning: Meaning
    why: str


_ON_REQUEST = "an operator, the guest itself or libvirt-guests asked for it"
_BY_ITSELF = "unexpected"
_OWN_PAUSE = "libvirt pauses it for a moment, for work that an operator asked for"

#: (state, libvirt's reason) -> what that means. The empty reason is also that of reasons that a newer libvirt has.
MEANINGS: Mapping[tuple[Power, str], Entry] = {
    (Power.RUNNING, ""): Entry(Meaning.RUNS, "it runs, however it came to that"),
    (Power.RUNNING, "shutting down"): Entry(Meaning.STOPPING, "its system has ended; QEMU follows in a moment"),
    (Power.PAUSED, ""): Entry(Meaning.SUSPENDED, "`virsh suspend`, or a reason that libvirt does not give"),
    (Power.PAUSED, "migration"): Entry(Meaning.SUSPENDED, _OWN_PAUSE),
    (Power.PAUSED, "saving"): Entry(Meaning.STOPPING, "`virsh save` or libvirt-guests writes its memory, then ends it"),
    (Power.PAUSED, "dump"): Entry(Meaning.SUSPENDED, _OWN_PAUSE),
    (Power.PAUSED, "I/O error"): Entry(Meaning.STALLED, "its disk cannot be written: the host's disk may be full"),
    (Power.PAUSED, "watchdog"): Entry(Meaning.STALLED, "its watchdog has fired: the guest hangs"),
    (Power.PAUSED, "from snapshot"): Entry(Meaning.SUSPENDED, "reverted to a snapshot taken while paused"),
    (Power.PAUSED, "shutting down"): Entry(Meaning.STOPPING, "it is being shut down"),
    (Power.PAUSED, "snapshot"): Entry(Meaning.SUSPENDED, _OWN_PAUSE),
    (Power.PAUSED, "crashed"): Entry(Meaning.STALLED, "its kernel has panicked, and QEMU keeps it for a look"),
    (Power.PAUSED, "starting up"): Entry(Meaning.SUSPENDED, "it is about to run"),
    (Power.PAUSED, "post-copy"): Entry(Meaning.SUSPENDED, "a post-copy migration: it runs on the other hypervisor"),
    (Power.PAUSED, "post-copy failed"): Entry(
        Meaning.STALLED, "a post-copy migration broke: each hypervisor has a part of its memory"
    ),
    (Power.PAUSED, "API error"): Entry(Meaning.STALLED, "libvirt could not resume it after work of its own"),
    (Power.PAUSED, "suspended by the guest"): Entry(Meaning.SUSPENDED, "the guest has put itself to sleep"),
    (Power.SHUTOFF, ""): Entry(Meaning.LOST, "libvirt does not know why: it forgets that when its host reboots"),
    (Power.SHUTOFF, "shutdown"): Entry(Meaning.STOPPED, _ON_REQUEST),
    (Power.SHUTOFF, "destroyed"): Entry(Meaning.STOPPED, "`virsh destroy`"),
    (Power.SHUTOFF, "crashed"): Entry(Meaning.DIED, "QEMU ended unexpectedly"),
    (Power.SHUTOFF, "migrated"): Entry(Meaning.MIGRATED, "it runs on another hypervisor"),
    (Power.SHUTOFF, "saved"): Entry(Meaning.STOPPED, "`virsh save` or libvirt-guests"),
    (Power.SHUTOFF, "failed"): Entry(Meaning.NOT_STARTED, "a start, by hand or by autostart, has failed"),
    (Power.SHUTOFF, "from snapshot"): Entry(Meaning.STOPPED, "reverted to a snapshot taken while off"),
    (Power.SHUTOFF, "daemon"): Entry(Meaning.DIED, "libvirtd came back, and QEMU was gone"),
    (Power.CRASHED, ""): Entry(Meaning.DIED, _BY_ITSELF),
    (Power.CRASHED, "panicked"): Entry(Meaning.DIED, "its kernel has panicked"),
    (Power.ABSENT, ""): Entry(Meaning.GONE, "no hypervisor of the plan knows it"),
    (Power.ABSENT, "shutdown"): Entry(Meaning.STOPPED, "a transient VM that was shut down"),
    (Power.ABSENT, "destroyed"): Entry(Meaning.STOPPED, "a transient VM that was destroyed"),
    (Power.ABSENT, "crashed"): Entry(Meaning.DIED, "a transient VM whose QEMU ended"),
    (Power.ABSENT, "migrated"): Entry(Meaning.MIGRATED, "it runs on another hypervisor, and was undefined here"),
    (Power.ABSENT, "saved"): Entry(Meaning.STOPPED, "a transient VM that was saved"),
    (Power.ABSENT, "failed"): Entry(Meaning.NOT_STARTED, "a transient VM that could not be started"),
    (Power.ABSENT, "from snapshot"): Entry(Meaning.STOPPED, "a transient VM that was reverted to a snapshot"),
    (Power.ABSENT, "daemon"): Entry(Meaning.DIED, "a transient VM whose QEMU ended while libvirtd was away"),
    (Power.UNREACHABLE, ""): Entry(Meaning.SILENT, "its hypervisor does not answer"),
}

#: They say for certain what the VM does; the others leave what was seen before as it was.
TELLING = frozenset(
    {
        Meaning.RUNS,
        Meaning.STOPPING,
        Meaning.SUSPENDED,
        Meaning.STALLED,
        Meaning.STOPPED,
        Meaning.DIED,
        Meaning.MIGRATED,
    }
)


def meaning_of(power: Power, reason: str = "") -> Meaning:
    """A reason that is not in the table counts as none."""
    found = MEANINGS.get((power, reason)) or MEANINGS[power, ""]
    return found.meaning


class End(StrEnum):
    """What the pair of what was seen last and what is seen now comes to."""

    #: It serves, as far as libvirt knows.
    ALIVE = "alive"
    #: It is paused on request, or for a moment.
    PAUSED = "paused"
    #: A fault has paused it: a failure, unless it is resumed in time.
    STALLED = "stalled"
    FAILED = "failed"
    INTENDED = "intended"
    #: It runs where the plan has no hypervisor, or is on its way.
    ELSEWHERE = "elsewhere"
    #: Its hypervisor is silent: whether that has failed, its ports and the time tell.
    SILENT = "silent"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Rule:
    """What is seen now comes to `end`, except after some of what may have been seen last."""

    end: End
    why: str
    after: Mapping[Meaning | None, tuple[End, str]]

    def of(self, last: Meaning | None) -> tuple[End, str]:
        return self.after.get(last, (self.end, self.why))


_STOPPED_BEFORE = (End.INTENDED, "it was stopped on request before")
_WAS_STOPPING = (End.INTENDED, "it was being stopped on request")
_NEVER_SEEN = (End.UNKNOWN, "never seen before")
_WENT_AWAY = (End.ELSEWHERE, "it was migrated away before")

_LAST_DECIDES: Mapping[Meaning | None, tuple[End, str]] = {
    Meaning.STOPPED: _STOPPED_BEFORE,
    Meaning.STOPPING: _WAS_STOPPING,
    Meaning.MIGRATED: _WENT_AWAY,
}

ENDS: Mapping[Meaning, Rule] = {
    Meaning.RUNS: Rule(End.ALIVE, "whatever was before, it runs", {}),
    Meaning.STOPPING: Rule(End.ALIVE, "it goes down on request; once it is off, that is known", {}),
    Meaning.SUSPENDED: Rule(End.PAUSED, "a paused VM loses nothing, and was paused on request", {}),
    Meaning.STALLED: Rule(End.STALLED, "unexpected; it may be resumed in time", {}),
    Meaning.STOPPED: Rule(End.INTENDED, "requested", {}),
    Meaning.DIED: Rule(
        End.FAILED,
        "unexpected, and it must have run since it was last seen",
        {Meaning.STOPPING: (End.INTENDED, "it was being stopped on request; that QEMU ended badly changes nothing")},
    ),
    Meaning.NOT_STARTED: Rule(
        End.FAILED,
        "it served, ended, and does not start again",
        {
            Meaning.STOPPED: (End.UNKNOWN, "it was stopped on request, and now does not start: maintenance"),
            Meaning.STOPPING: (End.UNKNOWN, "it was stopped on request, and now does not start: maintenance"),
            Meaning.MIGRATED: (End.ELSEWHERE, "it was migrated away before, and did not start here"),
        },
    ),
    Meaning.MIGRATED: Rule(End.ELSEWHERE, "it runs on another hypervisor", {}),
    Meaning.LOST: Rule(End.FAILED, "no shutdown was seen", {**_LAST_DECIDES, None: _NEVER_SEEN}),
    Meaning.GONE: Rule(
        End.FAILED,
        "no shutdown was seen; a failure once every hypervisor of the plan has said so, and no port answers",
        {
            **_LAST_DECIDES,
            None: _NEVER_SEEN,
            Meaning.STOPPED: (End.UNKNOWN, "it was stopped on request, and undefined: the plan is old"),
        },
    ),
    Meaning.SILENT: Rule(End.SILENT, "it may serve, or have failed with its hypervisor", _LAST_DECIDES),
}


def end_of(last: Meaning | None, seen: Meaning) -> tuple[End, str]:
    """What `seen` now comes to after `last`, the newest telling sight; and why."""
    return ENDS[seen].of(last)
