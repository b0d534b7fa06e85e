"""What a step saw or proved. Values; how the journal keeps them is in `store.evidence_json`.

Times are ages in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from vcrecovery.core.power import Power


@dataclass(frozen=True)
class HookRun:
    """One run of a command of the operator's. `moment`: see `core.hooks`; `said`: why it failed; seconds."""

    moment: str
    command: tuple[str, ...]
    ok: bool
    seconds: float = 0.0
    said: str = ""
    gate: bool = False


@dataclass(frozen=True)
class Confirmation:
    """What a look at the primary and at its standby found: the decision to fence rests on it.

    `open_ports` answer as they should, `closed_ports` do not, `reached` accept a connection. `neighbours` are the
    primaries that answer on a hypervisor that does not. `vanished`: no hypervisor has the VM, which had been seen to
    end. `silent` hypervisors may have it. `units`: those behind the ports that are not active, by the heartbeat.
    `sends`: files of the primary arrive. `freshness`: age of the standby's files when the failure began; `heard`: how
    long before it was noticed the last heartbeat came. `asked_for`: see `Request.looks_for`; `serves_on`: the
    secondary on which every port of its standby answers, where that is to go on elsewhere. `restore_asked` is the
    restore point that was looked for, `restore_age` its age. `boot` is the VM's, by its heartbeat, and `final` whether
    that is the one of its shutdown; `problems`: what else speaks against a switchover.
    """

    power: Power
    host: str = ""
    reason: str = ""
    detail: str = ""
    starts_by_itself: str = ""
    also_on: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    vanished: bool = False
    cpu: float | None = None
    heard: float | None = None
    fence_command: bool = False
    neighbours: tuple[str, ...] = ()
    open_ports: tuple[str, ...] = ()
    reached: tuple[str, ...] = ()
    standby_problem: str = ""
    freshness: float | None = None
    freshness_detail: str = ""
    asked_for: str = ""
    serves_on: str = ""
    restore_asked: str | None = None
    restore_problem: str = ""
    restore_age: float | None = None
    summary: str = ""
    closed_ports: tuple[str, ...] = ()
    units: Mapping[str, str] | None = None
    sends: bool | None = False
    boot: str | None = None
    final: bool = False
    problems: tuple[str, ...] = ()
    hooks: tuple[HookRun, ...] = ()

    @property
    def alive(self) -> tuple[str, ...]:
        """Something lives there even if it does not answer as it should."""
        return self.reached or self.open_ports

    @property
    def was_away(self) -> bool:
        """Whether libvirt did not answer."""
        return self.power is Power.UNREACHABLE


class ProvedBy(StrEnum):
    """Whose word it is that the primary is off."""

    LIBVIRT = "libvirt"
    FENCE_COMMAND = "fence command"
    OPERATOR = "operator"
    #: It was fenced at an earlier epoch, and its standby has served up to now.
    STANDBY = "standby"


@dataclass(frozen=True)
class Fenced:
    """The primary cannot serve any more. `starts_with_host`: it was set to, before."""

    summary: str = ""
    by: ProvedBy = ProvedBy.LIBVIRT
    power: Power | None = None
    starts_with_host: bool = False


@dataclass(frozen=True)
class ShutDown:
    """The primary has shut down by itself, on our request. `starts_with_host`: it was set to."""

    summary: str = ""
    power: Power | None = None
    reason: str = ""
    starts_with_host: bool = False


@dataclass(frozen=True)
class Complete:
    """The standby has everything that the primary had when it was shut down; `boot` as it was noted before."""

    summary: str = ""
    boot: str = ""


@dataclass(frozen=True)
class TakenBack:
    """The primary runs again, and the standby stands by."""

    summary: str = ""


@dataclass(frozen=True)
class Booted:
    """The VM runs without serving, and asks for orders. `boot`: its ID; `system`: its distribution and machine."""

    summary: str = ""
    boot: str = ""
    system: str = ""


@dataclass(frozen=True)
class Copied:
    """The VM has fetched what the standby had; `seconds`: of the newest pass, the rest: of all of them."""

    summary: str = ""
    boot: str = ""
    seconds: float = 0.0
    bytes: int = 0
    files: int = 0


@dataclass(frozen=True)
class Stopped:
    """The standby has ended. `started_at`: its last start by LXD's clock, so that a later one is noticed."""

    summary: str = ""
    started_at: float = 0.0


@dataclass(frozen=True)
class Receives:
    """The container there takes the primary's files now, and the one that did takes none."""

    summary: str = ""


@dataclass(frozen=True)
class Synced:
    """The primary vouches for the container there."""

    summary: str = ""


@dataclass(frozen=True)
class HandedOver:
    """The VM serves again, and the standby takes its files."""

    summary: str = ""


@dataclass(frozen=True)
class Kept:
    """What the standby was at its stop is a restore point. `restore_point`: its name; `problem`: why there is none."""

    summary: str = ""
    restore_point: str = ""
    problem: str = ""


@dataclass(frozen=True)
class PoweredOn:
    """The secondary is on, and its LXD answers. `seconds`: its boot; 0 for one that was on."""

    summary: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Restored:
    """The standby is back at a restore point. `asked`: as the operator named it."""

    summary: str = ""
    asked: str = ""
    restore_point: str = ""
    age: float | None = None
    sessions_ended: int = 0


@dataclass(frozen=True)
class Started:
    """The standby runs, and takes no files any more. `waited`: what it was before, by LXD's word.

    `keeps_address`: of a move, its clients reach it where it is now as they did where it was.
    """

    summary: str = ""
    was_running: bool = False
    sessions_ended: int = 0
    waited: str = ""
    hooks: tuple[HookRun, ...] = ()
    keeps_address: bool = False


@dataclass(frozen=True)
class Answered:
    """Every port of the standby, at its `address`."""

    summary: str = ""
    address: str = ""


@dataclass(frozen=True)
class Switched:
    """The names point at the standby. `before`: what each held."""

    summary: str = ""
    before: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Verified:
    """Every authoritative server says so."""

    summary: str = ""
    hooks: tuple[HookRun, ...] = ()


@dataclass(frozen=True)
class Failed:
    """Why the step could not be done. `refused`: nothing was done. `reached`: some of what was asked has answered."""

    error: str = ""
    refused: bool = False
    hooks: tuple[HookRun, ...] = ()
    reached: bool = False


@dataclass(frozen=True)
class Unreadable:
    """What another version wrote, and this one cannot use. It is shown, and proves nothing."""

    data: Mapping[str, Any]

    @property
    def summary(self) -> str:
        return str(self.data.get("summary", ""))


#: What a step that was done leaves.
Proof = (
    Confirmation
    | ShutDown
    | Complete
    | TakenBack
    | Booted
    | Copied
    | Stopped
    | HandedOver
    | Receives
    | Synced
    | Fenced
    | PoweredOn
    | Restored
    | Started
    | Answered
    | Switched
    | Verified
    | Kept
)
Evidence = Proof | Failed | Unreadable
