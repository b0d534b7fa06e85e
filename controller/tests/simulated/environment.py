"""The shipped environment with the drivers of a simulated world, for one process."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from simulated.cloud import SimulatedCloud
from simulated.dns import SimulatedZone
from simulated.libvirt import SimulatedHost
from simulated.lxd import SimulatedLxd
from simulated.scheduler import SimulatedRuntime
from simulated.secondary_vm import DISK
from simulated.world import Service, World
from vcrecovery.core.episode import Episode, Step
from vcrecovery.core.evidence import Evidence
from vcrecovery.core.lease import Lease
from vcrecovery.core.power import OFF, Power
from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.dns import Key, Server
from vcrecovery.drivers.notify import TIMEOUT as NOTIFY_TIMEOUT
from vcrecovery.drivers.probe import Probes, Result, label_of
from vcrecovery.drivers.virtual_ip import VirtualIp
from vcrecovery.errors import ExternalError
from vcrecovery.operations.environment import Environment, Servers, with_own_places
from vcrecovery.plan.elastic import Elastic
from vcrecovery.plan.model import Plan
from vcrecovery.plan.probes import Port
from vcrecovery.store.journal import Journal

#: Something at the primaries' site that the plan may name.
REFERENCE = "10.10.0.1"
#: Seconds for a probe of what answers or refuses. What is not there takes all the time that it is given.
ANSWERS = 0.005
FENCE_TAKES = 2.0


class SimulatedProbes(Probes):
    def __init__(self, runtime: SimulatedRuntime, world: World) -> None:
        super().__init__(runtime, runtime)
        self._scheduler = runtime.scheduler
        self._world = world

    def ask(self, address: str, port: Port, timeout: float, _patience: float = 0.0) -> Result:
        label = label_of(address, port)
        if address == REFERENCE:
            there = all(service.reference_answers for service in self._world.services.values())
            self._scheduler.takes(ANSWERS if there else timeout)
            said = "connection refused" if there else f"no answer within {timeout:g} s"
            return Result(label, said, reached=False, refused=there)
        found = self._world.by_address(address)
        assert found is not None, address
        service, of_primary = found
        if service.probes_hang:
            self._scheduler.sleep(1e6)
        random = self._scheduler.random
        if service.probes_lost and random is not None and random.random() < service.probes_lost:
            self._scheduler.sleep(timeout)
            return Result(label, f"no answer within {timeout:g} s", reached=False)
        gone = (service.network_cut or service.power in OFF) and not service.address_answers
        if of_primary and gone:
            self._scheduler.sleep(timeout)
            return Result(label, f"no answer within {timeout:g} s", reached=False)
        self._scheduler.takes(ANSWERS)
        good = service.open_ports if of_primary else service.standby_answers
        if not good:
            return Result(label, "connection refused", reached=False, refused=True)
        if port.http and of_primary and service.answers_wrongly:
            return Result(label, "status 503, not 200 to 399", reached=True)
        if of_primary:
            service.vm_answered = True
        if not of_primary and service.serves:
            service.answered.add(service.epoch)
        return Result(label, "", reached=True)


class SimulatedVirtualIps:
    def __init__(self, runtime: SimulatedRuntime, world: World) -> None:
        self._scheduler = runtime.scheduler
        self._world = world

    def _of(self, wanted: VirtualIp) -> Service:
        return next(s for s in self._world.services.values() if s.virtual_ip == str(wanted.ip))

    def holds(self, wanted: VirtualIp, standby: str) -> bool:
        self._scheduler.step_aside()
        return self._of(wanted).virtual_ip_is_here

    def take(self, wanted: VirtualIp, standby: str, clock: Clock) -> bool:
        self._scheduler.takes(0.01)
        service = self._of(wanted)
        if service.virtual_ip_is_here:
            return False
        if service.virtual_ip_elsewhere:
            raise ExternalError(f"52:54:00:00:00:01 still has {wanted.ip}", "take it away there")
        if service.epoch not in service.answered:
            service.violated(f"the address of {service.name} moves to ports that were not seen open at this epoch")
        service.virtual_ip_is_here = True
        service.told(f"this machine has {wanted.ip}")
        return True

    def give_up(self, wanted: VirtualIp) -> None:
        self._scheduler.step_aside()
        self._of(wanted).virtual_ip_is_here = False


class SimulatedNotify:
    """Whatever Apprise knows, behind files of one URL each: what they are told is in the world's `told`."""

    def __init__(self, runtime: SimulatedRuntime, world: World) -> None:
        self._scheduler, self._world = runtime.scheduler, world

    def missing(self) -> str:
        return ""

    def count(self, url_file: Path) -> int:
        return 1

    def send(self, url_file: Path, url: int, title: str, body: str) -> None:
        if url_file.name in self._world.ways_that_hang:
            self._scheduler.sleep(NOTIFY_TIMEOUT)
            raise ExternalError(f"no answer within {NOTIFY_TIMEOUT:g} s")
        self._scheduler.takes(0.7)
        if url_file.name in self._world.ways_that_fail:
            raise ExternalError("it answered with status 503")
        self._world.told.append((url_file.name, title, body))
        self._scheduler.may_be_lost()


class SimulatedJournal(Journal):
    """The real one, on a disk that may be full, of a process that may be killed before and after each entry."""

    def __init__(
        self, path: Path, runtime: SimulatedRuntime, world: World, at: Callable[[str, Episode | None], None]
    ) -> None:
        self._runtime, self._world, self._at = runtime, world, at
        try:
            super().__init__(path)
        except BaseException:
            self.close_files()
            raise

    def close_files(self) -> None:
        """As the end of its process does."""
        if hasattr(self, "_db"):
            self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        self._runtime.scheduler.check()
        self._runtime.scheduler.step_aside()
        if any(service.disk_full for service in self._world.services.values()):
            self._world.unwritten_at = self._runtime.scheduler.time
            raise self._unusable(sqlite3.OperationalError("database or disk is full"))
        with super().transaction() as db:
            yield db

    def begin(self, episode: Episode, step: Step, at: float, sentence: str = "", on: str | None = None) -> int:
        number = super().begin(episode, step, at, sentence, on)
        self._running = (episode, step)
        self._at(f"journalled {step}", episode)
        self._at(f"before {step}", episode)
        return number

    def end(self, row: int, at: float, *, ok: bool, evidence: Evidence) -> None:
        found = self.rows("SELECT episode, step FROM step WHERE id = ?", row)
        episode, step = self.episode(found[0][0]), found[0][1]
        assert episode is not None
        if ok:
            self._at(f"after {step}", episode)
        super().end(row, at, ok=ok, evidence=evidence)
        if ok:
            self._at(f"ended {step}", episode)


class SimulatedEnvironment(Environment):
    """What one process of the site sees; `at` is called at each place where it may be killed."""

    def __init__(
        self,
        plan: Plan,
        runtime: SimulatedRuntime,
        world: World,
        at: Callable[[str, Episode | None], None],
        starts: int,
    ) -> None:
        self.simulated = runtime
        self._world, self._at, self._starts = world, at, starts
        self._others: list[SimulatedEnvironment] = []
        # The journal is read, where standbys have spares.
        super().__init__(plan, runtime, runtime)

    def another(self) -> SimulatedEnvironment:
        self._others.append(SimulatedEnvironment(self.plan, self.simulated, self._world, self._at, self._starts))
        return self._others[-1]

    def apart(self) -> SimulatedEnvironment:
        other = self.another()
        other.plan = with_own_places(self.plan)
        return other

    def machine(self) -> None:
        """It tells nothing beside what LXD does: all secondaries would be one."""

    @cached_property
    def hosts(self) -> dict[str, Any]:
        scheduler = self.simulated.scheduler
        return {
            name: SimulatedHost(name, scheduler, self._world, keeps_off=self.note_that_it_started_with_its_host)
            for name in self.plan.hypervisors
        }

    @cached_property
    def lxd(self) -> dict[str, Any]:
        return Servers(self.plan, lambda name, _entry: self._simulated_lxd(name))

    def provisioner(self, _elastic: Elastic) -> SimulatedCloud:
        """The site has one, which makes the machine on which a service's other place is."""
        return self._world.cloud

    def lxd_of(self, lease: Lease) -> Any:
        return self._simulated_lxd(lease.name)

    def _simulated_lxd(self, name: str) -> Any:
        def middle(act: str) -> None:
            self._at(f"in the middle of {act}", None)

        folder = self.plan.state_dir.parent
        return SimulatedLxd(name, folder, self.simulated, self._world, self._starts, middle)

    def is_mounted(self, place: Path) -> bool:
        return self._world.secondary_vms[place.parent.name].mounted

    def mount_disk(self, secondary: str, disk: Path, place: Path) -> None:
        assert str(disk) == DISK
        self.simulated.scheduler.takes(0.2)
        self._at("in the middle of mount", None)
        if not self._world.secondary_vms[secondary].mount():
            raise ExternalError(f"disk {disk} is in use")
        self._at("mounted", None)

    def unmount_disk(self, secondary: str, disk: Path, place: Path) -> None:
        assert str(disk) == DISK
        self.simulated.scheduler.takes(0.2)
        self._at("in the middle of unmount", None)
        self._world.secondary_vms[secondary].unmount()
        self._at("unmounted", None)

    @cached_property
    def zones(self) -> dict[str, Any]:
        servers = {n: Server(n, str(s.address), s.port) for n, s in self.plan.dns.servers.items()}
        keys = {n: Key(k.name, k.algorithm, k.secret_file) for n, k in self.plan.dns.keys.items()}
        return {
            name: SimulatedZone(
                name, [servers[s] for s in zone.servers], keys[zone.key], self.clock, self.runtime
            ).of_world(self.simulated, self._world)
            for name, zone in self.plan.dns.zones.items()
        }

    @cached_property
    def probes(self) -> SimulatedProbes:
        return SimulatedProbes(self.simulated, self._world)

    @cached_property
    def virtual_ips(self) -> SimulatedVirtualIps:
        return SimulatedVirtualIps(self.simulated, self._world)

    @property
    def notifier(self) -> SimulatedNotify:
        return SimulatedNotify(self.simulated, self._world)

    def close(self) -> None:
        for other in self._others:
            other.close()
        if "journal" in vars(self):
            self.journal.close_files()

    @cached_property
    def journal(self) -> SimulatedJournal:
        return SimulatedJournal(self.plan.state_dir / "journal.db", self.simulated, self._world, self._at)

    def run_hook(self, command: Sequence[str], facts: Mapping[str, Any], timeout: float) -> str:
        """As `drivers.hook` does it. The command's name says what it does."""
        scheduler, service = self.simulated.scheduler, self._world.services[facts["service"]]
        service.hooks_ran.append({**facts, "command": list(command)})
        self._at(f"in the hook {facts['hook']}", None)
        if service.hooks_hang:
            scheduler.sleep(timeout)
            return f"did not finish within {timeout:g} s, and was killed"
        scheduler.takes(0.1)
        if service.hooks_fail:
            return "status 1: not yet"
        return ""

    def power_off(self, host: str, command: Sequence[str], timeout: float) -> str:
        """As `drivers.fence` does it."""
        scheduler, begun = self.simulated.scheduler, self.simulated.scheduler.time
        if host in self.plan.secondaries:
            return self._end_secondary(host)
        there = self._world.on(host)
        if not there:
            # All have left it.
            scheduler.takes(FENCE_TAKES)
            return "Chassis Power is off"
        if there[0].fence_command_hangs:
            scheduler.sleep(timeout)
        else:
            scheduler.takes(FENCE_TAKES)
        if (failure := _failure(command[0], there[0], timeout)) is not None:
            SimulatedHost(host, scheduler, self._world).acts_late(there, "crashed")
            raise ExternalError(
                f"hypervisor {host} was not fenced: {failure}",
                f"see that it works, or power {host} off by hand and say so: "
                "`vcrecovery failover SERVICE --primary-is-down SERVICE`",
            )
        for service in there:
            if service.power not in OFF and there[0].fence_command_lies:
                service.lied_at = scheduler.time
            elif service.power not in OFF:
                service.ended("power-off", begun)
                self._world.becomes(service, Power.SHUTOFF, "crashed")
        scheduler.may_be_lost()
        return "Chassis Power is off"

    def _end_secondary(self, secondary: str) -> str:
        scheduler, there = self.simulated.scheduler, self._world.in_lxd(secondary)
        scheduler.takes(FENCE_TAKES)
        if not all(place.fence_command_works for place in there):
            raise ExternalError(f"hypervisor {secondary} was not fenced: no route to the BMC")
        self._world.machine_ends(secondary)
        scheduler.may_be_lost()
        return "Chassis Power is off"


def _failure(command: str, service: Service, timeout: float) -> str | None:
    """What `drivers.process` says of the command."""
    if service.fence_command_hangs:
        return f"{command} did not finish within {timeout:g} s"
    if service.fence_command_is_killed:
        return f"{command} failed with status -9: it printed nothing"
    return None if service.fence_command_works else f"{command} failed with status 1: no route to the BMC"
