"""What is outside, simulated: VMs on their hypervisors, containers on their secondary, names, addresses.

Nothing here is of the product. The promises are looked at here, from outside: whoever breaks one fails the test.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from simulated.cloud import SimulatedCloud
from simulated.scheduler import START, Scheduler
from simulated.secondary_vm import SecondaryVm
from vcrecovery.core.power import OFF, Power
from vcrecovery.drivers.lxd.instances import FROZEN, RUNNING, STOPPED
from vcrecovery.operations.vm_orders import Given, Report
from vcrecovery.primary.answers import ELSEWHERE, PRIMARY, RANK, STANDBY
from vcrecovery.primary.receivers import Answer, newest
from vcrecovery.transfer.failback_orders import order_in

#: Of each mode: seconds until a start is over, and how much of a boot is left before the ports open.
MODES: Mapping[str, tuple[float, float]] = {
    "cold": (0.5, 1.0),
    "warm": (0.2, 0.3),
    "frozen": (0.05, 0.1),
    "hot": (0.02, 0.1),
}
#: Seconds for which a fence holds (the policy's `fence_valid_for`), and by which a start may come later than it could.
FENCE_HOLDS = 60.0 + 10.0
#: What a VM does, by what its heartbeats depend on.
_BEATS = frozenset({"disk_is_elsewhere", "power", "cpu", "network_cut", "syncs", "superseded", "clock_ahead"})
#: On which of them it depends whether the primary serves, or anything answers, as seen from here.
_SEEN = frozenset({"power", "cpu", "network_cut", "superseded", "primary_ports_open", "address_answers"})
_SEEN |= {"hypervisor_answers", "libvirtd_hangs"}


@dataclass
class Container:
    """A standby as LXD has it."""

    status: str = STOPPED
    config: dict[str, str] = field(default_factory=dict)
    #: By the wall clock, as LXD tells it.
    started_at: float = 0.0
    #: By the steady clock: since when its services start, and how much of a boot that is.
    serves_since: float = 0.0
    left: float = 1.0
    #: Seconds of CPU that it has used since that start of it, up to that steady time.
    cpu_used: float = 0.0
    cpu_at: float = 0.0
    cpu_since: float = 0.0

    @property
    def etag(self) -> str:
        """Of the configuration, in which LXD notes a start and forgets it with the stop."""
        started_at = 0.0 if self.status == STOPPED else self.started_at
        return f"{sorted(self.config.items())} {started_at!r}"


@dataclass
class Service:
    """The outside of one service. Scenarios set these by name."""

    name: str
    scheduler: Scheduler
    uuid: str = ""
    address: str = "10.10.0.10"
    standby_address: str = "10.20.0.10"
    secondary: str = "sec1"
    host: str = "hv1"
    site: str = "main"
    mode: str = "cold"
    power: Power = Power.RUNNING
    reason: str = ""
    #: Whether the VM starts with its hypervisor.
    autostart: bool = False
    #: Whether its hypervisor forgets it when it ends (`virsh undefine`).
    undefined: bool = False
    #: Its memory is on the disk of its hypervisor (`virsh managedsave`): a start goes on from there, and boots nothing.
    saved: bool = False
    #: Whether it was paused by us.
    quarantined: bool = False
    #: Per cent of the primary's CPU.
    cpu: float = 5.0
    #: Of the two cores of its secondary, what its standby uses while it runs, and what others there do.
    standby_uses: float = 0.0
    others_use: float = 0.0
    primary_ports_open: bool = True
    #: It accepts connections, and whoever asks for a page gets an error.
    answers_wrongly: bool = False
    #: Something at the primary's address answers, whoever it is.
    address_answers: bool = False
    #: Whether what the primary writes arrives.
    syncs: bool = True
    #: The disk of its standby, on a secondary on demand, is not where files arrive.
    disk_is_elsewhere: bool = False
    #: Seconds by which the clock of its VM is ahead of the controller's.
    clock_ahead: float = 0.0
    #: Seconds by which the clock of its secondary is ahead, by which LXD tells starts.
    lxd_ahead: float = 0.0
    #: Seconds from its power button to its end; None: it does not heed it.
    shuts_down_within: float | None = 3.0
    #: Its role `primary` is of this version: it tells its boot, and sends its last files when it shuts down.
    sends_last_files: bool = True
    #: How often it has booted, and what its newest heartbeat says of that; whether that was its last act.
    boots_so_far: int = 1
    #: Whether it asks at its boot who serves; and whether the standby did then: it starts no service.
    asks_at_boot: bool = True
    superseded: bool = False
    #: Seconds for each pass of a failback; None: it cannot fetch. What it has fetched is all that its standby wrote.
    fetches_within: float | None = 2.0
    has_everything: bool = True
    #: Whether its VM was seen to answer since it was told to serve.
    vm_answered: bool = True
    #: What it has said to the receiver, which leaves that beside its standby.
    report: Report | None = None
    told_boot: int = 1
    final: bool = False
    heartbeat: float | None = START
    standby_ports_open_after: float = 1.0
    #: Seconds for which the ports then open and close again.
    standby_flaps_for: float = 0.0
    #: Seconds after each start of its container after which that ends by itself; None: it does not.
    standby_ends_after: float | None = None
    #: What systemd says of the unit behind its port; empty where it is active.
    unit_state: str = ""
    #: What the plan names as a reference answers.
    reference_answers: bool = True
    #: This part of all probes gets no answer, as where packets are lost; and those of it never end.
    probes_lost: float = 0.0
    probes_hang: bool = False
    #: Its container runs, and the service in it has ended.
    standby_service_ended: bool = False
    virtual_ip: str | None = None
    virtual_ip_is_here: bool = False
    virtual_ip_elsewhere: bool = False
    hypervisor_answers: bool = True
    #: The hypervisor takes connections, and libvirtd on it never answers.
    libvirtd_hangs: bool = False
    #: Nothing of the primary's side is reached from here, however well it is.
    network_cut: bool = False
    fence_command: bool = False
    fence_command_works: bool = True
    fence_command_hangs: bool = False
    fence_command_is_killed: bool = False
    #: It ends well, and the hypervisor goes on; and when that was said last of a primary that ran.
    fence_command_lies: bool = False
    lied_at: float | None = None
    #: Seconds after which a fence that has failed acts all the same; None: it never does.
    fence_acts_late: float | None = None
    lxd_answers: bool = True
    #: ns1, which takes the updates.
    dns_answers: bool = True
    dns_hangs: bool = False
    dns_key_good: bool = True
    #: What is wrong with ns2; None where there is none.
    ns2: str | None = None
    disk_full: bool = False
    restore_points: tuple[str, ...] = ()
    #: What is in the standby's tree: what was synced, a restore point, or half of one.
    tree: str = "synced"
    #: Whether nothing has come into it since the standby served, and of which snapshots that was so.
    untouched: bool = False
    kept_untouched: set[str] = field(default_factory=set)
    #: Bytes in its pool.
    pool_free: float = 1e12
    #: What the operator's commands do, and the facts that each got.
    hooks_hang: bool = False
    hooks_fail: bool = False
    hooks_ran: list[dict[str, Any]] = field(default_factory=list)
    container: Container = field(default_factory=Container)
    #: The other place of its container.
    other: Service | None = None
    #: Of that place: whether a container is there; whether its machine is off; whether somebody said so who was wrong.
    is_there: bool = True
    #: By a copy that goes on.
    is_filled: bool = False
    machine_is_off: bool = False
    said_to_be_off: bool = False
    #: Of that place: whether the primary's sync reaches it, and the secondary that the heartbeat there vouches for.
    receiver_is_down: bool = False
    vouches_for: str = "sec1"
    #: The secondaries that the VM knows; the one that it sends to, and from when on it has compared everything there.
    knows: tuple[str, ...] = ("sec1", "sec2")
    synced_to: str = "sec1"
    compared_at: float = 0.0
    compares_for: float = 2.0
    #: How much has been written there, and how much of it a copy has.
    written: int = 0
    #: The epochs at which all ports of the standby were seen open since it was started.
    answered: set[int] = field(default_factory=set)
    starts: int = 0
    #: The epoch at which it began to serve.
    took_over_at: int = 0
    restores: int = 0
    #: Its names, each with its records by their server: type -> values.
    names: dict[str, dict[str, dict[str, set[str]]]] = field(default_factory=dict)
    #: Seconds, of its addresses.
    ttl: int = 30
    switches: int = 0
    #: The operator says that the primary is down, or has started it beside a standby that serves.
    operators_word: bool = False
    #: That word is only that it was started after its fence: it counts for as long as nobody need have seen it.
    by_hand: bool = False
    #: Since when it runs, and libvirt says so to whoever asks.
    seen_to_run_since: float | None = 0.0
    #: Since when the primary serves and nothing speaks against it, and since when anything answers at its address.
    well_since: float | None = 0.0
    answers_since: float | None = 0.0
    #: When anything has last answered there, of one that does not answer now.
    answered_until: float = -math.inf
    #: By the steady clock: when its last heartbeat was made, and for how long it has been off since.
    beaten_at: float | None = 0.0
    #: By how much its clock was ahead then.
    beaten_ahead: float = 0.0
    off_for: float = 0.0
    _off_since: float | None = None
    #: What is called before somebody ends the primary; by destroy, or by power-off, and when that was begun.
    on_end: Callable[[Service, str, float], None] = lambda _service, _by, _begun: None
    on_start: Callable[[Service], None] = lambda _service: None
    violated: Callable[[str], None] = lambda _what: None
    told: Callable[[str], None] = lambda _what: None
    #: What LXD tells those who listen: what became of the container, and who asked for that.
    lxd_tells: Callable[[str, str], None] = lambda _what, _by: None
    _ready: bool = False
    #: For a quarter of an hour, of all that it has, before anybody looked.
    _cpu_time: float = 900e9
    _cpu_until: float = 0.0

    def __post_init__(self) -> None:
        self._ready = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _BEATS and self.__dict__.get("_ready"):
            self.beat()
            self.uses()
            if name == "power" and value in OFF:
                self._cpu_time = 0.0
        super().__setattr__(name, value)
        if name in _SEEN and self.__dict__.get("_ready"):
            self._note()
        if name in ("power", "operators_word") and self.__dict__.get("_ready"):
            self.look_for_two()

    # -- the primary -------------------------------------------------------------------------------------------

    def beat(self) -> None:
        """Up to now it has sent heartbeats, if it could."""
        has_stopped = self.final and self.told_boot == self.boots_so_far
        sends = self.syncs and not self.network_cut and not self.superseded and not has_stopped
        to = self.sends_to()
        sends = sends and to is not None and "user.vcrecovery.keeping" not in to.container.config
        sends = sends and not self.disk_is_elsewhere
        if to is not None and self.power is Power.RUNNING and 0 < self.cpu < 99 and sends:
            to.heartbeat, to.vouches_for = self.scheduler.wall + self.clock_ahead, to.secondary
            to.beaten_at, to.off_for, to.beaten_ahead = self.scheduler.time, 0.0, self.clock_ahead
            self.told_boot, self.final = self.boots_so_far, False
            if self.container.config.get("user.vcrecovery.role") == "standby":
                self.untouched = False

    def who_serves(self) -> str:
        """What its VM makes of what the secondaries say; empty while none does."""
        answers = [place.says() for place in (self, self.other) if place is not None and place.is_there]
        found = newest([answer for answer in answers if answer is not None])
        return "" if found is None else found.words[0]

    def says(self) -> Answer | None:
        """As the receiver there."""
        if self.machine_is_off:
            return None
        config = self.container.config
        match config.get("user.vcrecovery.role"):
            case "standby":
                words = [PRIMARY]
            case "active":
                words = [STANDBY]
            case _:
                words = [ELSEWHERE] if config.get("user.vcrecovery.waits-on") else [STANDBY, ELSEWHERE]
        return Answer(self.secondary, [*words, f"{RANK}{self.rank}"])

    def sends_to(self) -> Service | None:
        """The place that takes its files, as its sync finds it; None while that is not compared yet, or not reached."""
        places = [place for place in (self, self.other) if place is not None and place.takes_files]
        reached = [place for place in places if not (place.machine_is_off or place.receiver_is_down)]
        if self.other is None or not places:
            return self
        if not reached:
            return None
        to = max(reached, key=lambda place: place.rank)
        if to.secondary != self.synced_to:
            self.synced_to, self.compared_at = to.secondary, self.scheduler.time + self.compares_for
        return to if self.scheduler.time >= self.compared_at else None

    @property
    def takes_files(self) -> bool:
        return self.is_there and self.container.config.get("user.vcrecovery.role") == "standby"

    @property
    def rank(self) -> int:
        taken_back = self.container.config.get("user.vcrecovery.taken-back")
        return 2 * self.epoch + (self.epoch > 0 and taken_back == str(self.epoch))

    def _note(self) -> None:
        now = self.scheduler.time
        well = (
            self.power is Power.RUNNING
            and self.primary_ports_open
            and not self.superseded
            and self.libvirt_answers
            and self.cpu == 5.0
        )
        seen = self.power is Power.RUNNING and not self.superseded and self.libvirt_answers
        self.seen_to_run_since = (now if self.seen_to_run_since is None else self.seen_to_run_since) if seen else None
        self.well_since = (now if self.well_since is None else self.well_since) if well else None
        if self.answers_since is not None and not self.open_ports:
            self.answered_until = now
        self.answers_since = (now if self.answers_since is None else self.answers_since) if self.open_ports else None
        if self.power in OFF:
            self._off_since = now if self._off_since is None else self._off_since
        elif self._off_since is not None:
            self.off_for, self._off_since = self.off_for + now - self._off_since, None

    @property
    def off_up_to_now(self) -> float:
        """Seconds since its last heartbeat in which it was off."""
        return self.off_for + (0.0 if self._off_since is None else self.scheduler.time - self._off_since)

    def ended(self, by: str, begun: float) -> None:
        """Somebody is about to end it, by what was begun then."""
        if self.power is Power.RUNNING and not self.superseded:
            self.on_end(self, by, begun)

    def uses(self) -> int:
        """CPU time up to now, in nanoseconds."""
        now = self.scheduler.time
        if self.power is Power.RUNNING:
            self._cpu_time += (now - self._cpu_until) * self.cpu * 1e7
        self._cpu_until = now
        return int(self._cpu_time)

    @property
    def _units(self) -> dict[str, str]:
        return {"nginx.service": self.unit_state} if self.unit_state else {}

    @property
    def heartbeat_file(self) -> bytes | None:
        self.beat()
        if self.heartbeat is None:
            return None
        boot = {"boot": f"b007-{self.told_boot}", "final": self.final} if self.sends_last_files else {}
        vouches = {"receiver": self.vouches_for, "knows": list(self.knows)} if self.other is not None else {}
        return json.dumps({"at": self.heartbeat, "units": self._units, **boot, **vouches}).encode()

    def shuts_down(self) -> None:
        """Its services have stopped, and their last files are sent."""
        self.beat()
        takes_files = self.container.config.get("user.vcrecovery.role") == "standby" and not self.disk_is_elsewhere
        if self.sends_last_files and self.syncs and not self.network_cut and takes_files:
            self.heartbeat, self.final = self.scheduler.wall + self.clock_ahead, True

    @property
    def lxd_now(self) -> float:
        """By the clock of its secondary."""
        return self.scheduler.wall + self.lxd_ahead

    @property
    def order(self) -> Given | None:
        """The open one for its VM."""
        return order_in(self.container.config)

    @property
    def is_known(self) -> bool:
        """To its hypervisor."""
        return not (self.undefined and self.power in OFF)

    @property
    def libvirt_answers(self) -> bool:
        return self.hypervisor_answers and not self.libvirtd_hangs and not self.network_cut

    @property
    def open_ports(self) -> bool:
        """Of the primary, as seen from here."""
        serves = self.power is Power.RUNNING and self.primary_ports_open and not self.superseded
        return (serves or self.address_answers) and not self.network_cut

    # -- its way back ------------------------------------------------------------------------------------------

    def asks_who_serves(self) -> None:
        """It boots."""
        self.superseded = self.asks_at_boot and self.who_serves() == STANDBY

    def is_told_to_serve(self) -> None:
        """If it waits for that, and its standby stands by."""
        if not self.superseded or self.power is not Power.RUNNING:
            return
        if self.who_serves() != PRIMARY:
            return
        if not self.has_everything:
            self.violated(f"the VM of {self.name} serves without what its standby wrote last")
        self.superseded, self.vm_answered = False, False
        self.told("the VM starts its services")

    # -- the standby -------------------------------------------------------------------------------------------

    @property
    def serves(self) -> bool:
        """Whether its standby is up as the one that serves."""
        return self.container.status == RUNNING and self.container.config.get("user.vcrecovery.role") == "active"

    def look_for_two(self) -> None:
        excused = self.operators_word or self.lied_at is not None
        other = self.other
        if other is not None and self.serves and other.serves and not (self.said_to_be_off or other.said_to_be_off):
            self.violated(f"two standbys of {self.name} serve")
        if other is not None and other.serves and not self.serves:
            other.look_for_two_here(excused)
        self.look_for_two_here(excused)

    def look_for_two_that_wait(self) -> None:
        """But for one whose machine or LXD was away when the other one was told to."""
        other = self.other
        if other is None or not (self.takes_files and other.takes_files) or self.rank != other.rank:
            return
        self.violated(f"two standbys of {self.name} wait, and nobody knows for which its VM is to vouch")

    def look_for_two_here(self, excused: bool) -> None:
        if self.serves and self.power is Power.RUNNING and not self.superseded and not excused:
            self.violated(f"two live copies of {self.name}")

    def may_start(self) -> None:
        """Its primary is off, or came back after its fence and was paused by us."""
        gone = self.power in OFF or self.superseded or (self.power is Power.PAUSED and self.quarantined)
        if gone:
            return
        if self.operators_word:
            since = self.seen_to_run_since
            if self.by_hand and since is not None and self.scheduler.time - since > FENCE_HOLDS:
                self.violated(f"the standby of {self.name} starts long after its primary was started by hand")
            # From here on there are two, whose operator knows.
            self.home.by_hand = False
            return
        if self.lied_at is None:
            self.violated(f"the standby of {self.name} starts while its primary may live")
        elif self.answers_since is not None and self.answers_since <= self.lied_at:
            self.violated(f"the standby of {self.name} starts while its primary answers, since a fence command lies")

    @property
    def home(self) -> Service:
        """What has its VM's words."""
        return self

    def is_started_by_hand(self) -> None:
        """Beside its standby, or one that will serve."""
        if not self.operators_word:
            self.by_hand = not (self.serves or (self.other is not None and self.other.serves))
        self.operators_word = True

    def boots(self, left: float) -> None:
        """Its services start now; `left`: how much of a boot that is."""
        container = self.container
        container.status = RUNNING
        container.serves_since, container.left = self.scheduler.time, left
        self.standby_service_ended = False
        self.answered.clear()
        if container.config.get("user.vcrecovery.role") == "active":
            self.takes_over()
        if self.standby_ends_after is not None:
            since = self.scheduler.time
            self.scheduler.at(since + self.standby_ends_after, lambda: self.ends_by_itself(since))

    def takes_over(self) -> None:
        """What runs in it serves from now on."""
        self.may_start()
        if self.tree == "half":
            self.violated(f"the standby of {self.name} starts from half a restore point")
        self.starts += 1
        self.written += 1
        self.took_over_at = self.epoch
        self.untouched = True
        self.has_everything = False
        self.on_start(self)

    def ends_by_itself(self, since: float) -> None:
        """What was started then."""
        if self.container.status == RUNNING and self.container.serves_since == since:
            self.told(f"the container of {self.name} ends")
            self.container_becomes(STOPPED)

    def container_becomes(self, status: str, by: str = "") -> None:
        """Its state, for whoever has asked for that."""
        self.container.status = status
        if status == STOPPED:
            self.answered.clear()
        self.lxd_tells({STOPPED: "ended", FROZEN: "frozen", RUNNING: "started"}[status], by)

    def serves_inside_again(self) -> None:
        """What has ended in the container is started."""
        self.standby_service_ended = False
        self.container.serves_since, self.container.left = self.scheduler.time, 0.1

    @property
    def standby_answers(self) -> bool:
        container = self.container
        if container.status not in (RUNNING, FROZEN) or self.standby_service_ended:
            return False
        opens_at = container.serves_since + self.standby_ports_open_after * container.left
        since = self.scheduler.time - opens_at
        if 0 <= since < self.standby_flaps_for:
            return since % 0.5 < 0.25
        return since >= 0

    @property
    def epoch(self) -> int:
        return int(self.container.config.get("user.vcrecovery.epoch") or 0)

    # -- names -------------------------------------------------------------------------------------------------

    @property
    def records(self) -> dict[str, dict[str, set[str]]]:
        """Of its first name."""
        return next(iter(self.names.values()))

    @property
    def all_records(self) -> list[dict[str, set[str]]]:
        """Of all its names, on all servers."""
        return [records for by_server in self.names.values() for records in by_server.values()]

    @property
    def dns_address(self) -> str:
        """Where all its names lead to."""
        found = {self.leads_to(name) for name in self.names}
        return found.pop() if len(found) == 1 else "several places"

    @property
    def dns_epoch(self) -> int:
        """The newest of its names'."""
        return max(self.epoch_of(name) for name in self.names)

    def leads_to(self, name: str) -> str:
        known = {self.address: "primary", self.standby_address: "standby"}
        if self.other is not None:
            known[self.other.standby_address] = "spare"
        return known.get(next(iter(self.names[name]["ns1"]["A"]), ""), "nowhere")

    def epoch_of(self, name: str) -> int:
        marker = next(iter(self.names[name]["ns1"]["TXT"]), '"epoch=0"')
        return int(marker.strip('"').removeprefix("epoch="))


#: What a service's other place has no word of its own for.
_OF_THE_VM = frozenset(
    {
        "power",
        "superseded",
        "quarantined",
        "operators_word",
        "by_hand",
        "seen_to_run_since",
        "lied_at",
        "answers_since",
        "mode",
        "final",
        "told_boot",
    }
    | {"boots_so_far", "address_answers", "network_cut", "probes_hang", "probes_lost", "names", "answers_wrongly"}
    | {"knows", "sends_last_files", "_units"}
    | {"primary_ports_open", "standby_ports_open_after", "standby_flaps_for", "open_ports", "pool_free", "disk_full"}
)


class OnTheSpare(Service):
    """Where a service's container goes on when the secondary fails on which it serves, or is moved from it."""

    def beat(self) -> None:
        """Its VM's heartbeats come from its home's."""
        if (home := object.__getattribute__(self, "__dict__").get("other")) is not None:
            home.beat()

    @property
    def home(self) -> Service:
        return self if self.other is None else self.other

    def __getattribute__(self, name: str) -> Any:
        if name in _OF_THE_VM and (of := object.__getattribute__(self, "__dict__").get("other")) is not None:
            return getattr(of, name)
        return super().__getattribute__(name)


def with_a_spare(service: Service, secondary: str, address: str) -> None:
    other = OnTheSpare(service.name, service.scheduler, service.uuid, service.address, address, secondary)
    other.violated, other.told = service.violated, service.told
    other.on_end, other.on_start = service.on_end, service.on_start
    other.is_there = False
    service.other, other.other = other, service


@dataclass
class World:
    """All services, and who listens to which hypervisor."""

    scheduler: Scheduler
    services: dict[str, Service] = field(default_factory=dict)
    #: Secondary, and what is called with what its LXD tells: instance, what became of it, who asked for that.
    listening_to_lxd: list[tuple[str, Callable[[str, str, str], None]]] = field(default_factory=list)
    #: Hypervisor -> what is called with each event of it (UUID, event, why), and when it is lost.
    listeners: dict[str, list[tuple[Callable[[str, str, str], None], Callable[[], None]]]] = field(default_factory=dict)

    #: What people were told: the file of the way to them, title and body. Files of ways that hang or fail.
    told: list[tuple[str, str, str]] = field(default_factory=list)
    #: When something could not be written into the journal the last time.
    unwritten_at: float = float("-inf")
    #: Who makes secondaries.
    cloud: SimulatedCloud = field(default_factory=SimulatedCloud)
    #: Seconds that a copy of a container to another secondary takes.
    copy_takes: float = 2.0
    ways_that_hang: set[str] = field(default_factory=set)
    ways_that_fail: set[str] = field(default_factory=set)

    #: Of secondaries on demand.
    secondary_vms: dict[str, SecondaryVm] = field(default_factory=dict)

    def lxd_tells(self, place: Service, what: str, by: str) -> None:
        for secondary, report in list(self.listening_to_lxd):
            if secondary == place.secondary:
                report(place.name, what, by)

    @property
    def places(self) -> list[Service]:
        """Of the services' containers: where each stands by, and where it has a spare."""
        found = list(self.services.values())
        return [*found, *(service.other for service in found if service.other is not None)]

    def in_lxd(self, secondary: str) -> list[Service]:
        return [place for place in self.places if place.secondary == secondary]

    def machine_ends(self, secondary: str) -> None:
        """It has lost its power: LXD does not answer, and no container runs."""
        for place in self.in_lxd(secondary):
            place.machine_is_off = True
            place.container.status = STOPPED

    def machine_is_back(self, secondary: str, starts_after: float = 0.0) -> None:
        """With what LXD starts by itself, and how long that takes from when it answers."""
        for place in self.in_lxd(secondary):
            place.machine_is_off = False
        if starts_after:
            self.scheduler.at(self.scheduler.time + starts_after, lambda: self._lxd_starts_its_own(secondary))
        else:
            self._lxd_starts_its_own(secondary)

    def _lxd_starts_its_own(self, secondary: str) -> None:
        for place in self.in_lxd(secondary):
            container = place.container
            if place.is_there and container.config.get("boot.autostart") == "true" and container.status == STOPPED:
                container.started_at = place.lxd_now
                place.boots(1.0)
            place.look_for_two()

    def on(self, host: str) -> list[Service]:
        return [service for service in self.services.values() if service.host == host]

    def answers(self, host: str) -> bool:
        return all(service.libvirt_answers for service in self.on(host))

    def by_uuid(self, uuid: str) -> Service | None:
        return next((service for service in self.services.values() if service.uuid == uuid), None)

    def by_address(self, address: str) -> tuple[Service, bool] | None:
        """The service, and whether it is its primary's."""
        for service in self.places:
            if address in (service.address, service.standby_address):
                return service, address == service.address
        return None

    def becomes(self, service: Service, power: Power, reason: str = "") -> None:
        """The VM changes its state, and libvirt reports that to whoever listens and can hear it."""
        if service.power in OFF and power is Power.RUNNING:
            service.boots_so_far += 1
        before, service.power, service.reason = service.power, power, reason
        # Whoever pauses one that ran in between is somebody else.
        service.quarantined = service.quarantined and power is Power.PAUSED
        if power in OFF:
            service.superseded, service.lied_at = False, None
        elif power is Power.RUNNING:
            self.scheduler.at(self.scheduler.time + 0.3, service.is_told_to_serve)
        if before is power or not self.answers(service.host):
            return
        for event, why in _events(before, power, reason):
            self._report(service, event, why)

    def _report(self, service: Service, event: str, why: str) -> None:
        for report, _lost in list(self.listeners.get(service.host, ())):
            report(service.uuid, event, why)

    def migrate(self, service: Service, host: str) -> None:
        """It runs on, there; its old hypervisor does not know it any more."""
        if self.answers(service.host):
            self._report(service, "stopped", "migrated")
        service.host = host
        if self.answers(host):
            self._report(service, "started", "migrated")
            self._report(service, "resumed", "migrated")

    def notice_lost_connections(self) -> None:
        """After hypervisors have ceased to answer: those who listen learn that their connection is gone."""
        for host, listening in self.listeners.items():
            if any(not service.hypervisor_answers for service in self.on(host)):
                for _report, lost in list(listening):
                    lost()
                listening.clear()


def _events(before: Power, power: Power, reason: str) -> list[tuple[str, str]]:
    """What libvirt reports, in its words, which are not always those of the state."""
    match power, reason:
        case Power.RUNNING, _:
            resumed = ("resumed", "unpaused")
            return [resumed] if before is Power.PAUSED else [resumed, ("started", "booted")]
        case Power.PAUSED, _:
            return [("suspended", reason or "paused")]
        case Power.CRASHED, _:
            return [("crashed", "panicked")]
        case _, "shutdown":
            return [("shutdown", "guest"), ("stopped", "shutdown")]
        case _, "destroyed":
            return [("shutdown", "host"), ("stopped", "destroyed")]
        case _, "crashed":
            return [("stopped", "failed")]
        case _:
            return [("stopped", reason)]
