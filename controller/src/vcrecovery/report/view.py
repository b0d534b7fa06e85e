"""What is known of a service at one moment. Immutable values; `look` makes them, everything else here reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from vcrecovery.core.domain import DomainReading
from vcrecovery.core.drill import NO_DRILLS, DrillsOf, is_overdue
from vcrecovery.core.episode import Episode
from vcrecovery.core.health import Course
from vcrecovery.core.power import Power
from vcrecovery.core.returning import Quarantine
from vcrecovery.core.service_state import ServiceState, Side, Suspension
from vcrecovery.core.standby_end import StandbyEnd
from vcrecovery.core.verdict import Verdict
from vcrecovery.store.zone_book import NOT_TRIED, Tried
from vcrecovery.transfer.freshness import Freshness

_NOT_ASKED = Course()


#: The states of a container that runs.
RUNS = ("running", "ready")
#: The state of a standby whose secondary is off until a failover needs it.
OFF_ON_DEMAND = "off (on demand)"


@dataclass(frozen=True)
class KeptView:
    """What a failback keeps for a rollback; it is committed at `until`, in seconds since the epoch."""

    restore_point: str
    until: float


@dataclass(frozen=True)
class PoolView:
    """The pool that holds a standby; bytes."""

    name: str
    free: int
    total: int


@dataclass(frozen=True)
class StandbyView:
    """The standby's container. `state` is LXD's word, `missing` or `unreachable`; `age` is in seconds.

    `started_at`: its last start; `refreshed_at`: from when its oldest processes are, None while that is not known.
    `kept`: by its newest failback, if that is not committed. `pool`: None when its server has not said how full it is.
    `client`: what an operator calls there. `hint`: the way out, where its server does not answer. `serves_at`: at which
    epoch it was made the one that serves, by its own word; None where it says that it stands by. `has_gone_back`: it
    does since the operation that is the newest by the journal, or a later one.
    """

    state: str
    detail: str = ""
    age: float | None = None
    fresh: Freshness | None = None
    started_at: float = 0.0
    refreshed_at: float | None = None
    kept: KeptView | None = None
    pool: PoolView | None = None
    client: str = "lxc"
    hint: str = ""
    serves_at: int | None = None
    has_gone_back: bool = False

    def as_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"state": self.state, "detail": self.detail, "age": self.age}
        data["kept"] = asdict(self.kept) if self.kept is not None else None
        data["pool"] = asdict(self.pool) if self.pool is not None else None
        if self.fresh is not None:
            reconcile = asdict(self.fresh.reconcile) if self.fresh.reconcile else None
            data |= {"whole": self.fresh.whole, "queue": self.fresh.queue, "reconcile": reconcile}
        return data


@dataclass(frozen=True)
class SpareView:
    """The copy of a standby that serves. `state`: of its container, by LXD, `missing` or `unreachable`.

    `copied_at`: from when its files are, in seconds since the epoch; None where it was never whole since this standby
    serves. `whole`: no refresh was cut off. `client`: what an operator calls there.
    """

    secondary: str
    state: str
    every: float
    copied_at: float | None = None
    whole: bool = False
    detail: str = ""
    client: str = "lxc"

    def age(self, now: float) -> float | None:
        return None if self.copied_at is None else max(0.0, now - self.copied_at)

    def protects(self, now: float, max_staleness: float) -> bool:
        """Whether it may take over without --force."""
        age = self.age(now)
        return self.whole and age is not None and age <= max_staleness


@dataclass(frozen=True)
class ServerView:
    """What another name server of the zone says of a name (None: it does not answer so; `detail` says more)."""

    server: str
    found: tuple[str, ...] | None
    detail: str = ""


@dataclass(frozen=True)
class NameView:
    """A DNS name: what it holds (None: its server does not answer; `detail` says more), and what it should hold.

    `others`: the name servers beside the one that takes the updates. `tried`: what the watcher has last found wrong
    with its updates, and with the zone's transfers.
    """

    name: str
    found: tuple[str, ...] | None
    wanted: tuple[str, ...]
    detail: str = ""
    others: tuple[ServerView, ...] = ()
    tried: Tried = NOT_TRIED


@dataclass(frozen=True)
class PlanView:
    """What the plan says of the service, as far as it is shown."""

    hypervisor: str
    site: str
    secondary: str
    mode: str
    uuid: str
    primary_address: str
    standby_address: str
    max_staleness: float
    #: The mode that `standby set` has chosen in place of the plan's; empty when the plan's holds.
    chosen_mode: str = ""
    refresh_every: float = 3600.0
    has_dns: bool = True
    #: Seconds that every name server may take to show a change.
    dns_within: float = 10.0
    virtual_ip: str = ""
    cool_down: float = 0.0
    replicated_by: Mapping[str, str] = field(default_factory=dict)
    drill_every: float | None = None


@dataclass(frozen=True)
class ServiceView:
    """One service at the time `at`.

    `has_address`: whether this machine has its virtual address, while the standby serves; None where that is not known.
    `last`: its newest episode, open or not. `done`: its newest failover that was done. `holder`: the process that is at
    work on it. `course`: whether whoever serves answers. `ports`: what each of its probes said, empty when that was
    good; None when nobody has asked now. `quarantine`: of its old primary, which is kept paused.
    `end`: why its standby, which is to serve, does not run. `drills`: its rehearsals. `spare`: who
    takes over where the secondary fails on which it serves; None while its primary does, or without one.
    `no_place`: that its standby is where the plan has no place for it, and the way out; empty where it has.
    """

    name: str
    at: float
    plan: PlanView
    state: ServiceState
    reading: DomainReading
    verdict: Verdict
    standby: StandbyView
    names: tuple[NameView, ...] = ()
    has_address: bool | None = None
    last: Episode | None = None
    done: Episode | None = None
    holder: str = ""
    course: Course = _NOT_ASKED
    ports: Mapping[str, str] | None = None
    quarantine: Quarantine | None = None
    end: StandbyEnd | None = None
    drills: DrillsOf = NO_DRILLS
    spare: SpareView | None = None
    no_place: tuple[str, str] | tuple[()] = ()

    @property
    def suspension(self) -> Suspension | None:
        """The suspension that holds now."""
        return self.state.suspension_at(self.at)

    @property
    def held_since(self) -> float | None:
        """Since when the old primary has been held paused, which it still is."""
        return self.quarantine.held_at if self.quarantine is not None and self.reading.power is Power.PAUSED else None

    @property
    def cools_until(self) -> float | None:
        """Until when it is not failed over automatically again; None when it would be."""
        cool_down = self.plan.cool_down
        return self.state.cools_until(cool_down) if self.state.cools(cool_down, self.at) else None

    @property
    def protected(self) -> bool:
        """Whether the primary serves, so that the standby is to be ready."""
        return self.state.side is Side.PRIMARY

    @property
    def serves_unknown_at(self) -> int | None:
        """The epoch at which its standby serves although its primary does by the journal, which is behind that."""
        at = self.standby.serves_at
        behind = self.protected and self.state.open_episode is None and at is not None and at > self.state.epoch
        return at if behind else None

    @property
    def goes_on_in_its_vm(self) -> bool:
        """Whether its standby stands by although it serves by the journal, which is behind that."""
        return self.state.side is Side.STANDBY and self.state.open_episode is None and self.standby.has_gone_back

    @property
    def too_old(self) -> bool:
        age = self.standby.age
        return age is not None and age > self.plan.max_staleness

    @property
    def drill_overdue(self) -> bool:
        """Whether a drill should have passed by now. Not while the standby serves: then none can be made."""
        return self.protected and is_overdue(self.plan.drill_every, self.drills.good, self.at)
