"""The drivers that a plan names, made once each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from vcrecovery.drivers.clock import Clock, SystemClock
from vcrecovery.drivers.runtime import THREADS, Runtime
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.store.journal import Journal

if TYPE_CHECKING:
    from vcrecovery.balance.load import MachineReading
    from vcrecovery.core.lease import Lease
    from vcrecovery.drivers.dns import Zone
    from vcrecovery.drivers.libvirt import LibvirtHost
    from vcrecovery.drivers.lxd import LxdServer, OverHttps
    from vcrecovery.drivers.lxd.on_demand import Place as PlaceOfDisk
    from vcrecovery.drivers.probe import Probes
    from vcrecovery.drivers.provisioner import Made
    from vcrecovery.drivers.virtual_ip import VirtualIp
    from vcrecovery.operations.neighbours import Neighbours
    from vcrecovery.operations.vm_orders import VmOrders
    from vcrecovery.operations.whereabouts import Whereabouts
    from vcrecovery.plan.elastic import Elastic
    from vcrecovery.plan.leased import LeasedSecondary
    from vcrecovery.plan.model import Plan, Secondary


#: Seconds for a unit that mounts or unmounts.
_DISK_TAKES = 60.0


class VirtualIps(Protocol):
    """What `drivers.virtual_ip` does."""

    def holds(self, wanted: VirtualIp, standby: str) -> bool: ...

    def take(self, wanted: VirtualIp, standby: str, clock: Clock) -> bool: ...

    def give_up(self, wanted: VirtualIp) -> None: ...


class OnDemandLxd(Protocol):
    """What only the LXD of a secondary on demand does."""

    def answers_soon(self, pool: str) -> bool: ...

    def to_note(self, pool: str) -> dict[str, Any]: ...


class Notify(Protocol):
    """What `drivers.notify` does."""

    def missing(self) -> str: ...

    def count(self, url_file: Path) -> int: ...

    def send(self, url_file: Path, url: int, title: str, body: str) -> None: ...


class Provisioner(Protocol):
    """What `drivers.provisioner` does: each says which machines of the lease there are then. Raises ExternalError."""

    def create(self, order: Mapping[str, Any]) -> list[Made]: ...

    def describe(self, order: Mapping[str, Any]) -> list[Made]: ...

    def destroy(self, order: Mapping[str, Any]) -> list[Made]: ...

    def by_hand(self, order: Mapping[str, Any]) -> str:
        """The command by which an operator ends them."""


class Environment:
    """What is outside, as the plan describes it. Nothing is connected to, nor its driver loaded, before it is used.

    The journal, if there is one, says where standbys are. Raises ExternalError.
    """

    def __init__(self, plan: Plan, clock: Clock | None = None, runtime: Runtime = THREADS, disk_unit: str = "") -> None:
        """`disk_unit`: the unit by which systemd mounts disks of secondaries on demand, where this program may not."""
        self.plan = plan
        self.disk_unit = disk_unit
        self.clock: Clock = clock or SystemClock()
        self.runtime = runtime
        #: Services whose standby is where the plan has no place for it, and why that is. Nothing is done to these.
        self.misplaced: dict[str, RefusedError] = {}
        self.place_standbys()

    def place_standbys(self) -> None:
        """Has the plan say where they are now, as the journal does; whoever shares it sees that from then on.

        One for which the plan has no place holds up no other. Raises ExternalError.
        """
        elastic = self.plan.balance.elastic
        spares = any(service.standby.spare is not None for service in self.plan.services.values())
        if not self.has_a_journal():
            return
        # Without these it only tells of a plan that was changed under a standby; whoever needs it says what is wrong.
        with nullcontext() if elastic is not None or spares else suppress(ExternalError):
            self._place_standbys(elastic)

    def _place_standbys(self, elastic: Elastic | None) -> None:
        if elastic is not None:
            from vcrecovery.plan.leased import lend
            from vcrecovery.store.leases import LeaseBook

            lend(
                self.plan,
                {
                    lease.name: leased_secondary(self.plan, lease)
                    for lease in LeaseBook(self.journal).open()
                    if lease.joined_at is not None
                },
            )
        from vcrecovery.plan.places import put

        elsewhere = self.journal.standbys_elsewhere()
        misplaced = {}
        for name in self.plan.services:
            try:
                put(self.plan, name, elsewhere.get(name))
            except RefusedError as error:
                misplaced[name] = error
        self.misplaced = misplaced

    def has_a_journal(self) -> bool:
        """Nobody makes one by looking; who may not read it can do nothing either."""
        try:
            return (self.plan.state_dir / "journal.db").exists()
        except OSError:
            return False

    def another(self) -> Environment:
        """The same, with connections of its own: for whoever must not wait behind others' questions."""
        return Environment(self.plan, self.clock, self.runtime, self.disk_unit)

    def apart(self) -> Environment:
        """As `another`, with a plan of its own: for whoever moves a standby that serves on as ever meanwhile."""
        return Environment(with_own_places(self.plan), self.clock, self.runtime, self.disk_unit)

    @cached_property
    def hosts(self) -> dict[str, LibvirtHost]:
        from vcrecovery.drivers.libvirt import LibvirtHost

        return {
            name: LibvirtHost(name, entry.uri, keeps_off=self.note_that_it_started_with_its_host)
            for name, entry in self.plan.hypervisors.items()
        }

    def note_that_it_started_with_its_host(self, uuid: str) -> None:
        """A failback has the VM start with its host again. Where it cannot be written down, the fence goes on."""
        for name, service in self.plan.services.items():
            if str(service.primary.uuid) == uuid:
                with suppress(ExternalError):
                    self.journal.note_that_it_started_with_its_host(name)

    @cached_property
    def lxd(self) -> dict[str, LxdServer]:
        return Servers(self.plan, self._lxd_of)

    def _lxd_of(self, name: str, secondary: Secondary) -> LxdServer:
        from vcrecovery.drivers.lxd import LxdServer, OnDemandServer, OverHttps
        from vcrecovery.plan.on_demand import is_on_demand

        place = _place(secondary)
        if is_on_demand(secondary) and isinstance(place, OverHttps):
            disk = place_of_disk(self.plan, name)
            return OnDemandServer(name, place, self.clock, disk, secondary.power_on_within)
        return LxdServer(name, place, self.clock)

    def on_demand_lxd(self, secondary: str) -> OnDemandLxd:
        return cast("OnDemandLxd", self.lxd[secondary])

    def is_mounted(self, place: Path) -> bool:
        from vcrecovery.drivers.loop_disk import is_mounted

        return is_mounted(place)

    def mount_disk(self, secondary: str, disk: Path, place: Path) -> None:
        """Mounts the disk of a secondary that is off. Raises ExternalError, also while a VM has it."""
        from vcrecovery.drivers import loop_disk

        if not self._mounts_by_unit("mount", secondary):
            loop_disk.mount(disk, place)

    def unmount_disk(self, secondary: str, disk: Path, place: Path) -> None:
        """Returns once nothing has it any more. Raises ExternalError when something still does."""
        from vcrecovery.drivers import loop_disk

        if not self._mounts_by_unit("unmount", secondary):
            loop_disk.unmount(disk, place, self.clock)

    def _mounts_by_unit(self, verb: str, secondary: str) -> bool:
        if not self.disk_unit:
            return False
        from vcrecovery.drivers.process import run

        run(["systemctl", "start", f"{self.disk_unit}-{verb}@{secondary}.service"], timeout=_DISK_TAKES)
        return True

    def provisioner(self, elastic: Elastic) -> Provisioner:
        """Who makes machines."""
        who = elastic.provisioner
        if who.libvirt is not None:
            from vcrecovery.drivers.libvirt.provisioner import LibvirtProvisioner

            uri = self.plan.hypervisors[who.libvirt.hypervisor].uri
            networks = [str(one) for one in elastic.template.networks]
            return LibvirtProvisioner(uri, who.libvirt, networks, who.timeout)
        from vcrecovery.drivers.provisioner import CommandProvisioner

        return CommandProvisioner(who.command or [], who.timeout)

    def lxd_of(self, lease: Lease) -> LxdServer:
        """Of one that has not joined: where it is may change."""
        from vcrecovery.drivers.lxd import LxdServer

        return LxdServer(lease.name, _place(leased_secondary(self.plan, lease)), self.clock)

    @cached_property
    def neighbours(self) -> Neighbours:
        from vcrecovery.operations.neighbours import Neighbours

        return Neighbours(self.plan, self.clock, self.journal, self.whereabouts, self.probes, self.runtime)

    @cached_property
    def whereabouts(self) -> Whereabouts:
        from vcrecovery.operations.whereabouts import Whereabouts

        return Whereabouts(self.plan, self.clock, self.journal, lambda: self.hosts, self.runtime)

    @cached_property
    def probes(self) -> Probes:
        from vcrecovery.drivers.probe import Probes

        return Probes(self.clock, self.runtime)

    @property
    def virtual_ips(self) -> VirtualIps:
        from vcrecovery.drivers import virtual_ip

        return virtual_ip

    @property
    def notifier(self) -> Notify:
        from vcrecovery.drivers import notify

        return notify

    def machine(self) -> MachineReading | None:
        """Of the one that this runs on; None where it tells nothing. Raises ExternalError."""
        from vcrecovery.drivers.machine import machine_reading

        return machine_reading()

    def power_off(self, host: str, command: Sequence[str], timeout: float) -> str:
        """Runs the fence command of a hypervisor; what it printed. Raises ExternalError when that proves nothing."""
        from vcrecovery.drivers.fence import power_off

        return power_off(host, command, timeout)

    def run_hook(self, command: Sequence[str], facts: Mapping[str, Any], timeout: float) -> str:
        """Why the operator's command failed; empty when it did not. Raises nothing."""
        from vcrecovery.drivers.hook import run_hook

        return run_hook(command, facts, timeout)

    @cached_property
    def vm_orders(self) -> VmOrders:
        from vcrecovery.operations.vm_orders import VmOrders

        return VmOrders(lambda service: self.lxd[self.plan.services[service].standby.secondary], self.clock)

    @cached_property
    def journal(self) -> Journal:
        return Journal(self.plan.state_dir / "journal.db")

    @cached_property
    def zones(self) -> dict[str, Zone]:
        from vcrecovery.drivers.dns import Key, Server, Zone

        servers = {n: Server(n, str(s.address), s.port) for n, s in self.plan.dns.servers.items()}
        keys = {n: Key(k.name, k.algorithm, k.secret_file) for n, k in self.plan.dns.keys.items()}
        return {
            name: Zone(name, [servers[s] for s in zone.servers], keys[zone.key], self.clock, self.runtime)
            for name, zone in self.plan.dns.zones.items()
        }


class Servers(dict[str, "LxdServer"]):
    """Those of a plan; one that is made for a while comes when it is asked for."""

    def __init__(self, plan: Plan, make: Callable[[str, Secondary], LxdServer]) -> None:
        super().__init__({name: make(name, entry) for name, entry in plan.secondaries.items()})
        self._plan, self._make = plan, make

    def __missing__(self, name: str) -> LxdServer:
        made = self[name] = self._make(name, self._plan.secondaries[name])
        return made


def leased_secondary(plan: Plan, lease: Lease) -> LeasedSecondary:
    """As a section of the plan. Its LXD has shown that it is the one whose certificate lies in the state folder."""
    from vcrecovery.plan.leased import LeasedSecondary

    elastic = plan.balance.elastic
    assert elastic is not None  # noqa: S101  it was made by it
    return LeasedSecondary.model_validate(
        {
            "lxd": {
                "url": f"https://{lease.address}:{lease.port}",
                "certificate": elastic.certificate,
                "key": elastic.key,
                "server_certificate": folder_of(plan, lease) / "server.crt",
            },
            "storage_pool": elastic.template.storage_pool,
            "network": {"bridge": elastic.template.bridge, "address": lease.network},
            "receiver": {"address": lease.address},
            "cost": elastic.template.cost,
            "addresses": lease.addresses,
        }
    )


def folder_of(plan: Plan, lease: Lease) -> Path:
    """Of its certificate; and of its key, until it has joined."""
    return plan.state_dir / "elastic" / lease.name


def with_own_places(plan: Plan) -> Plan:
    """A plan in which standbys can be put elsewhere, and nobody else sees that."""
    return plan.model_copy(update={"services": dict(plan.services), "secondaries": dict(plan.secondaries)})


def place_of_disk(plan: Plan, secondary: str) -> PlaceOfDisk:
    """Where its standbys' disk is mounted while it is off."""
    from vcrecovery.drivers.lxd.on_demand import Place

    return Place(plan.state_dir / "secondaries" / secondary)


def _place(secondary: Secondary) -> Path | OverHttps:
    place = secondary.lxd
    if isinstance(place, Path):
        return place
    from vcrecovery.drivers.lxd import OverHttps

    return OverHttps(place.url, place.certificate, place.key, place.server_certificate)
