"""What is outside of one service, simulated, and whoever acts on it in virtual time.

The promises are checked at every act: whoever breaks one fails the test at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vcrecovery.core.fence_tries import may_power_off, must_look_again
from vcrecovery.core.power import OFF, Power
from vcrecovery.core.sighting import OffTime
from vcrecovery.core.states import Episode, Policy, Step, Symptom
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.operations.host_fence import PROVEN_FOR
from vcrecovery.operations.outside import ages_of
from vcrecovery.standby.restore_points import RestorePoint, find
from vcrecovery.transfer.freshness import Freshness
from virtual_time import VirtualClock

if TYPE_CHECKING:
    from simulated_fleet import Fleet

#: Of each mode: seconds until START is over, what it says it did, and how much of a boot is left before the ports open.
MODES: Mapping[str, tuple[float, str, float]] = {
    "cold": (0.5, "booted", 1.0),
    "warm": (0.2, "was running; its services started", 0.3),
    "frozen": (0.05, "thawed", 0.1),
    "hot": (0.02, "was running", 0.1),
}


@dataclass
class SimulatedWorld:
    """The outside of one service."""

    host: str = "hv1"
    site: str = "main"
    power: Power = Power.RUNNING
    reason: str = ""
    #: Whether the VM starts with its hypervisor.
    autostart: bool = False
    hypervisor_answers: bool = True
    #: The hypervisor takes connections, and libvirtd on it never answers.
    libvirtd_hangs: bool = False
    #: Nothing of the primary's side is reached from here, however well it is.
    network_cut: bool = False
    #: Per cent of the primary's CPUs, and since when.
    cpu: float = 5.0
    cpu_since: float = 0.0
    silent_since: float | None = None
    fence_command: bool = False
    fence_command_works: bool = True
    #: Seconds after which a fence that has failed acts all the same; None: it never does.
    fence_acts_late: float | None = None
    neighbours: tuple[str, ...] = ()
    primary_ports_open: bool = True
    #: Something at the primary's address answers, whoever it is.
    address_answers: bool = False
    standby_exists: bool = True
    standby_running: bool = False
    standby_ports_open_after: float = 1.0
    #: Seconds for which the ports then open and close again.
    standby_flaps_for: float = 0.0
    mode: str = "cold"
    container_epoch: int = 0
    lxd_answers: bool = True
    #: ns1, which takes the updates.
    dns_answers: bool = True
    #: What is wrong with ns2; None where there is none.
    ns2: str | None = None
    virtual_ip: str | None = None
    virtual_ip_is_here: bool = False
    virtual_ip_elsewhere: bool = False
    dns_key_good: bool = True
    dns_address: str = "primary"
    dns_epoch: int = 0
    heartbeat_at: float | None = 0.0
    #: Whether what the primary writes arrives.
    syncs: bool = True
    started_at: float = -1.0
    probed_epoch: int = 0
    starts: int = 0
    switches: int = 0
    operators_word: bool = False
    restore_points: tuple[str, ...] = ()
    #: What is in the standby's tree: what was synced, a restore point, or half of one.
    tree: str = "synced"
    restores: int = 0
    disk_full: bool = False
    steps: list[str] = field(default_factory=list)

    @property
    def libvirt_answers(self) -> bool:
        return self.hypervisor_answers and not self.libvirtd_hangs and not self.network_cut

    @property
    def reading(self) -> tuple[Power, str]:
        return (self.power, self.reason) if self.libvirt_answers else (Power.UNREACHABLE, "")

    @property
    def open_ports(self) -> list[str]:
        """As seen from here."""
        serves = (self.power is Power.RUNNING and self.primary_ports_open) or self.address_answers
        return ["primary:80"] if serves and not self.network_cut else []

    @property
    def may_start(self) -> bool:
        return self.power in OFF or self.operators_word


class SimulatedActuator:
    """Acts on a SimulatedWorld; each act takes a little time."""

    def __init__(
        self,
        env: SimulatedWorld,
        clock: VirtualClock,
        boundary: Callable[[str], None],
        policy: Policy,
        name: str = "web",
        fleet: Fleet | None = None,
    ) -> None:
        self.name = name
        self.fleet = fleet
        self.tell: Callable[[str], None] = lambda _text: None
        self.off_times: Callable[[], Sequence[OffTime]] = list
        self.policy = policy
        self.env = env
        self.clock = clock
        self.boundary = boundary

    def epoch_elsewhere(self) -> int:
        env = self.env
        return max(
            env.dns_epoch if env.dns_answers else 0,
            env.container_epoch if env.lxd_answers else 0,
        )

    def carry_out(self, step: Step, episode: Episode) -> Mapping[str, Any]:
        self.boundary(f"before {step}")
        evidence: Mapping[str, Any] = getattr(self, f"_{step}")(episode)
        self.env.steps.append(step.value)
        self.boundary(f"after {step}")
        return evidence

    def _confirm(self, episode: Episode) -> Mapping[str, Any]:
        self._ask_libvirt(0.2)
        power, reason = self.env.reading
        open_ports = self.env.open_ports
        doubtful = episode.request.symptom in (Symptom.CPU_ZERO, Symptom.CPU_HIGH)
        stamped = self.env.heartbeat_at
        began_at = episode.request.began_at
        if began_at is None:
            began_at = episode.opened_at - self.policy.noticed_after(episode.request.symptom)
        fresh = Freshness(stamped, "no heartbeat has arrived" if stamped is None else "", stamped)
        ages = ages_of(
            fresh, began_at=began_at, noticed_at=episode.opened_at, now=self.clock.now(), off=self.off_times()
        )
        return {
            "power": power.value,
            "reason": reason,
            "detail": self._silence() if power is Power.UNREACHABLE else "",
            "starts_by_itself": "autostart" if self.env.autostart and (power, reason) == (Power.SHUTOFF, "") else "",
            "open_ports": open_ports,
            "freshness": ages.files,
            "freshness_detail": ages.detail,
            "heard": ages.heard,
            "cpu": self.env.cpu if doubtful and power is Power.RUNNING else None,
            "fence_command": self.env.fence_command,
            "neighbours": self._neighbours() if power is Power.UNREACHABLE else [],
            "restore_asked": episode.request.restore_point,
            "restore_problem": self.restore_problem(episode),
            "summary": f"{power}{f' ({reason})' if reason else ''}, ports {'open' if open_ports else 'closed'}",
        }

    def _ask_libvirt(self, seconds: float) -> None:
        self.clock.sleep(seconds)
        if self.env.libvirtd_hangs:
            self.clock.wait_for(lambda: not self.env.libvirtd_hangs, 5.0)

    def _on_the_same_host(self) -> dict[str, SimulatedWorld]:
        others = {} if self.fleet is None else {name: sim.env for name, sim in self.fleet.sims.items()}
        return {name: env for name, env in others.items() if name != self.name and env.host == self.env.host}

    def _neighbours(self) -> list[str]:
        return [
            *self.env.neighbours,
            *(name for name, other in self._on_the_same_host().items() if other.open_ports),
        ]

    def _silence(self) -> str:
        return f"hypervisor {self.env.host} does not answer" + (" within 5 s" if self.env.libvirtd_hangs else "")

    def _fence(self, episode: Episode) -> Mapping[str, Any]:
        if episode.request.primary_is_down:
            self.clock.sleep(0.1)
            self.env.operators_word = True
            return {"summary": "on the operator's word"}
        self._ask_libvirt(0.1)
        if self.env.reading[0] is Power.RUNNING and must_look_again(episode):
            raise ExternalError(f"hypervisor {self.env.host} answers again, and says that the primary is running")
        if not self.env.libvirt_answers and self.env.fence_command and self._may_power_off(episode):
            return self._power_off(episode)
        if not self.env.libvirt_answers:
            self._acts_late("destroyed", [self.env])
            raise ExternalError(self._silence())
        if self.env.power not in OFF:
            self.env.power, self.env.reason = Power.SHUTOFF, "destroyed"
        return {"summary": f"{self.env.power}"}

    def _may_power_off(self, episode: Episode) -> bool:
        return may_power_off(episode, self.clock.now(), self.policy.host_silent_for, self._neighbours)

    def _acts_late(self, reason: str, worlds: Sequence[SimulatedWorld]) -> None:
        """What was asked of libvirtd, or of a BMC, is done later, although nobody heard that it would be."""
        after = self.env.fence_acts_late
        if after is None:
            return

        def act() -> None:
            for env in worlds:
                if env.power not in OFF:
                    env.power, env.reason = Power.SHUTOFF, reason
                    self.tell(f"world: the fence acts late: shutoff ({reason})")

        self.clock.changes.append((self.clock.time + after, act))

    def _power_off(self, episode: Episode) -> Mapping[str, Any]:
        """Once for all services of the hypervisor, as `operations.host_fence` does."""
        host, fencing = self.env.host, set() if self.fleet is None else self.fleet.fencing
        known = {} if self.fleet is None else self.fleet.fenced
        waits_since = self.clock.now()
        if host in fencing:
            self.clock.wait_for(lambda: host not in fencing, 60.0)
        at, ok = known.get(host, (0.0, False))
        if ok and at >= episode.opened_at and 0 <= self.clock.now() - at < PROVEN_FOR:
            return {"summary": f"{host} is off: Chassis Power is off (for all its services)"}
        failed = f"hypervisor {host} was not fenced: power-off failed with status 1: no route to the BMC"
        if not ok and host in known and at >= waits_since:
            raise ExternalError(failed)
        fencing.add(host)
        try:
            self.clock.sleep(2.0)
        finally:
            fencing.discard(host)
        known[host] = (self.clock.now(), self.env.fence_command_works)
        worlds = (self.env, *self._on_the_same_host().values())
        if not self.env.fence_command_works:
            self._acts_late("crashed", worlds)
            raise ExternalError(failed)
        for env in worlds:
            if env.power not in OFF:
                env.power, env.reason = Power.SHUTOFF, "crashed"
        return {"summary": f"{host} is off: Chassis Power is off"}

    def _wanted(self, episode: Episode) -> RestorePoint:
        points = [RestorePoint(float(number), name) for number, name in enumerate(self.env.restore_points)]
        return find(points, self.name, episode.request.restore_point or "")

    def restore_problem(self, episode: Episode) -> str:
        if episode.request.restore_point is None:
            return ""
        try:
            self._wanted(episode)
        except RefusedError as error:
            return error.message
        return ""

    def _restore(self, episode: Episode) -> Mapping[str, Any]:
        point = self._wanted(episode)
        if not self.env.lxd_answers:
            raise ExternalError("LXD on secondary sec1 does not answer")
        assert self.env.may_start, "a standby is restored while its primary may live"
        if self.env.standby_running:
            raise ExternalError(f"container {self.name} is running: a restore would throw away what it has written")
        # One that only waited is stopped for that, and boots.
        self.env.mode = "cold"
        self.env.tree = "half"
        self.clock.sleep(1.0)
        self.boundary("in the middle of restore")
        self.env.tree = point.name
        self.env.restores += 1
        return {"summary": f"to {point.name}", "asked": episode.request.restore_point, "restore_point": point.name}

    def _start(self, episode: Episode) -> Mapping[str, Any]:
        takes, how, _ = MODES[self.env.mode]
        self.clock.sleep(takes)
        assert self.env.tree != "half", "a standby starts from half a restore point"
        if episode.request.restore_point is not None:
            assert self.env.tree == self._wanted(episode).name, "a standby starts from what was not asked for"
        if not self.env.lxd_answers:
            raise ExternalError("LXD on secondary sec1 does not answer")
        if not self.env.standby_exists:
            raise ExternalError(f"secondary sec1 has no container {self.name}")
        if self.env.container_epoch > episode.epoch:
            raise RefusedError(
                f"container {self.name} belongs to epoch {self.env.container_epoch}; "
                f"this controller is at {episode.epoch}"
            )
        assert self.env.may_start, "a standby starts while its primary may live"
        self.env.container_epoch = episode.epoch
        self._run_standby()
        return {"summary": f"container {self.name} on sec1: {how}"}

    def _run_standby(self) -> None:
        if self.env.standby_running:
            return
        self.env.standby_running = True
        self.env.started_at = self.clock.time
        self.env.starts += 1

    def _probe(self, episode: Episode) -> Mapping[str, Any]:
        env, left = self.env, MODES[self.env.mode][2]
        if not env.standby_running:
            if not env.lxd_answers:
                raise ExternalError("LXD on secondary sec1 does not answer")
            assert env.may_start, "a standby is started beside its primary"
            left = 1.0
            self._run_standby()
        opens_at = env.started_at + env.standby_ports_open_after * left
        good_at = opens_at + env.standby_flaps_for
        if good_at > self.clock.time + 60:
            self.clock.sleep(60)
            flaps = opens_at < self.clock.time and env.standby_flaps_for > 0
            said = "; it answered and ceased to again and again" if flaps else ""
            raise ExternalError(f"the standby of {self.name} does not answer on port 80{said}")
        self.clock.sleep(max(0.0, good_at - self.clock.time))
        env.probed_epoch = episode.epoch
        return {"summary": "port 80"}

    def _switch(self, episode: Episode) -> Mapping[str, Any]:
        self.clock.sleep(0.01)
        env = self.env
        assert env.probed_epoch == episode.epoch, "DNS moves to ports that were not seen open at this epoch"
        try:
            self._switch_names(episode)
        except ExternalError:
            self._take_address()
            raise
        self._take_address()
        moved = "" if env.virtual_ip is None else f"; {env.virtual_ip} -> standby"
        return {"summary": f"{self._www} -> standby{moved}"}

    @property
    def _www(self) -> str:
        return "www" if self.name == "web" else f"www.{self.name}"

    def _switch_names(self, episode: Episode) -> None:
        env = self.env
        if not env.dns_answers:
            raise ExternalError("DNS server ns1 does not answer")
        if not env.dns_key_good:
            raise ExternalError("DNS server ns1 rejects TSIG key vcr")
        if env.dns_epoch > episode.epoch:
            raise RefusedError(
                f"{self._www} belongs to epoch {env.dns_epoch} by now; this controller is at {episode.epoch}"
            )
        if (env.dns_address, env.dns_epoch) != ("standby", episode.epoch):
            env.dns_address, env.dns_epoch = "standby", episode.epoch
            env.switches += 1

    def _take_address(self) -> None:
        env = self.env
        if env.virtual_ip is None or env.virtual_ip_is_here:
            return
        if env.virtual_ip_elsewhere:
            raise ExternalError(f"52:54:00:00:00:01 still has {env.virtual_ip}")
        env.virtual_ip_is_here = True
        self.tell(f"world: this machine has {env.virtual_ip}")

    def _verify(self, _episode: Episode) -> Mapping[str, Any]:
        self.clock.sleep(0.01)
        self._take_address()
        env = self.env
        if not env.dns_answers:
            raise ExternalError("DNS server ns1 does not answer")
        if env.ns2:
            self.clock.wait_for(lambda: not env.ns2, 10.0)
        if env.ns2:
            raise ExternalError(f"DNS server ns2 {env.ns2}: it may lack {self._www} (ns1 has it)")
        return {"summary": "on ns1" if env.ns2 is None else "on ns1, ns2"}
