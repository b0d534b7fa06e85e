"""The LXD of a secondary of the simulated world, behind the interface of the real driver."""

from __future__ import annotations

import errno
import queue
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from simulated import fetching_vm
from simulated.scheduler import Scheduler, SimulatedInbox, SimulatedRuntime
from simulated.world import MODES, Container, Service, World
from vcrecovery.balance.load import ContainerReading, Reading
from vcrecovery.drivers.lxd import Instance, LxdServer, TryAgainError
from vcrecovery.drivers.lxd.copies import INCOMPLETE_KEY, Copies
from vcrecovery.drivers.lxd.instances import FROZEN, RUNNING, STOPPED
from vcrecovery.drivers.lxd.lifecycle import Happening, Happenings
from vcrecovery.drivers.lxd.resources import TELLS_ORDERS, Kernel, Size
from vcrecovery.errors import ExternalError
from vcrecovery.standby.container import EPOCH_KEY, ROLE_KEY, STANDBY
from vcrecovery.transfer.failback_orders import ORDER_KEY, REPORT
from vcrecovery.transfer.heartbeat_copy import HEARTBEAT, TEMPLATE

TAKES = 0.01
_GIB = 2**30
#: What LXD will not do, and what it says then.
_OBJECTIONS = {
    ("start", RUNNING): "The instance is already running",
    ("start", FROZEN): "The instance is already running",
    ("stop", STOPPED): "The instance is already stopped",
    ("freeze", STOPPED): "The container isn't running",
    ("freeze", FROZEN): "The container is already frozen",
    ("unfreeze", STOPPED): "The container isn't running",
    ("unfreeze", RUNNING): "The container is already running",
}


_TOLD = {"start": "started", "unfreeze": "started", "freeze": "frozen", "stop": "ended"}


def socket_of(folder: Path, secondary: str) -> Path:
    return folder / ("lxd" if secondary == "sec1" else secondary) / "unix.socket"


class _Listening:
    """What it tells is lost when it is away."""

    def __init__(self, server: SimulatedLxd, scheduler: Scheduler) -> None:
        self._server = server
        self._inbox: SimulatedInbox = SimulatedInbox(scheduler)

    def report(self, name: str, what: str, by: str) -> None:
        if self._server.has(name):
            self._inbox.put(Happening(name, what, by))

    def next(self, timeout: float) -> Happening | None:
        with suppress(queue.Empty):
            found: Happening = self._inbox.get(timeout=timeout)
            return found
        self._server.must_answer(noted=True)
        return None


class SimulatedLxd(LxdServer):
    """Answers as LXD on secondary `name` would."""

    def __init__(
        self,
        name: str,
        folder: Path,
        runtime: SimulatedRuntime,
        world: World,
        starts: int,
        middle: Callable[[str], None],
    ) -> None:
        super().__init__(name, socket_of(folder, name), runtime)
        self._scheduler = runtime.scheduler
        self._world = world
        #: Of an act: a place to be killed.
        self._in_the_middle = middle
        self._size = Size(max(1, starts // 2), max(1, starts) * _GIB)

    def _asked(self, takes: float = TAKES, *, noted: bool = False) -> None:
        """`noted`: also one that is off answers, from its note."""
        self._scheduler.takes(takes)
        self.must_answer(noted=noted)

    def connect(self) -> None:
        self.must_answer()

    def must_answer(self, *, noted: bool = False) -> None:
        vm = self._world.secondary_vms.get(self.name)
        if vm is not None and vm.mounted:
            if not noted:
                raise ExternalError(f"secondary {self.name} is off (power: on-demand)")
            return
        if vm is not None and not vm.lxd_up:
            raise self._unreachable(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"))
        if any(place.machine_is_off or not place.lxd_answers for place in self._world.in_lxd(self.name)):
            raise self._unreachable(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"))

    def _says(self, text: str) -> ExternalError:
        """What the driver makes of LXD's words."""
        return ExternalError(f"LXD on secondary {self.name}: {text}")

    def _of(self, name: str) -> tuple[Service, Container]:
        service = self._there(name)
        if service is None:
            raise self._says("Instance not found")
        return service, service.container

    def answers_soon(self, pool: str) -> bool:
        self._asked()
        return True

    def to_note(self, pool: str) -> dict[str, Any]:
        self._asked()
        for place in self._world.in_lxd(self.name):
            if place.container.status != STOPPED:
                raise ExternalError(f"{place.name} runs on secondary {self.name}")
        there = [place for place in self._world.in_lxd(self.name) if place.is_there]
        return {"instances": {place.name: {"expanded_config": dict(place.container.config)} for place in there}}

    def has(self, name: str) -> bool:
        return self._there(name) is not None

    def _there(self, name: str) -> Service | None:
        places = (place for place in self._world.in_lxd(self.name) if place.is_there)
        return next((place for place in places if place.name == name), None)

    # -- instances ---------------------------------------------------------------------------------------------

    def get(self, instance: str) -> Instance | None:
        self._asked(noted=True)
        if self._there(instance) is None:
            return None
        _, container = self._of(instance)
        return Instance(
            instance,
            container.status == RUNNING,
            container.status,
            dict(container.config),
            {"root": {"pool": "default"}},
            container.etag,
            container.started_at,
        )

    def all(self) -> list[Instance]:
        names = [place.name for place in self._world.in_lxd(self.name) if place.is_there]
        return [self.must_get(name) for name in names]

    def configure(
        self,
        instance: Instance,
        config: Mapping[str, str],
        devices: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._asked()
        service, container = self._of(instance.name)
        service.beat()
        if instance.etag != container.etag:
            raise TryAgainError(f"container {instance.name} was just changed by another client", "run it again")
        changed, order = {**container.config, **config}, container.config.get(ORDER_KEY)
        container.config = {key: value for key, value in changed.items() if value}
        service.beat()
        service.look_for_two()
        service.look_for_two_that_wait()
        if container.config.get(ORDER_KEY) != order:
            fetching_vm.is_ordered(self._scheduler, service)
        self._scheduler.at(self._scheduler.time + 0.3, service.is_told_to_serve)
        self._scheduler.may_be_lost()

    def _set_state(
        self,
        instance: str,
        action: str,
        timeout: float,
        doing: str,
        *,
        force: bool = False,
        patience: float = 0,
        stateful: bool = False,
    ) -> None:
        assert not stateful, "the simulation has no CRIU"
        takes, _ = MODES["cold" if action == "start" else "frozen"]
        self._asked(takes)
        service, container = self._of(instance)
        if (objection := _OBJECTIONS.get((action, container.status))) is not None:
            raise self._says(f"{doing}: {objection}")
        match action:
            case "start":
                container.started_at = service.lxd_now
                # What a restore has left there for its identity: else its files were looked for there.
                shutil.rmtree(self.rootfs("default", instance), ignore_errors=True)
                service.boots(1.0)
            case "unfreeze":
                service.boots(MODES["frozen"][1])
            case "freeze":
                container.status = FROZEN
            case "stop":
                container.status = STOPPED
                service.answered.clear()
        service.lxd_tells(_TOLD[action], "root over unix")
        self._scheduler.may_be_lost()

    def status_of(self, instance: str, command: Sequence[str], timeout: float) -> int:
        return self.ask(instance, command, timeout)[0]

    def ask(self, instance: str, command: Sequence[str], timeout: float, *, errors: bool = False) -> tuple[int, str]:
        """All are the scripts of `standby.container_units`; what they do to the tree is not seen from here."""
        self._asked(MODES["hot"][0])
        service, container = self._of(instance)
        if container.status != RUNNING:
            raise self._says(f"Instance is {'frozen' if container.status == FROZEN else 'not running'}")
        said = (0, f"now {int(service.lxd_now)}\n")
        if "promote" in command and service.mode in ("warm", "hot"):
            service.boots(MODES[service.mode][1])
        elif "promote" in command and service.took_over_at != service.epoch:
            # It ran by chance, with all of its services.
            service.takes_over()
        if "start" in command and service.standby_service_ended:
            service.serves_inside_again()
            said = (0, "started nginx.service")
        self._scheduler.may_be_lost()
        return said

    @contextmanager
    def lifecycle(self) -> Iterator[Happenings]:
        self._asked(noted=True)
        listening = _Listening(self, self._scheduler)
        entry = (self.name, listening.report)
        self._world.listening_to_lxd.append(entry)
        try:
            yield listening
        finally:
            self._world.listening_to_lxd.remove(entry)

    def last_words(self, instance: str) -> str:
        self._asked()
        return "init: out of memory" if self.has(instance) else ""

    # -- copies ------------------------------------------------------------------------------------------------

    def filled_by(self, instance: str) -> Mapping[str, Any] | None:
        """One whose controller was killed ends with it here."""
        self._asked()
        return {"id": "c0ffee"} if self._place_of(instance).is_filled else None

    def _place_of(self, instance: str) -> Service:
        return next(place for place in self._world.in_lxd(self.name) if place.name == instance)

    def pull(
        self,
        source: Copies,
        instance: str,
        config: Mapping[str, str],
        devices: Mapping[str, Mapping[str, str]],
        timeout: float,
        *,
        paused: bool = False,
        takes_memory: bool = False,
        tell: Callable[[str], None] = lambda _text: None,
        look: Callable[[], None] = lambda: None,
        check: Callable[[Instance], Instance] = lambda found: found,
    ) -> None:
        """What the source writes meanwhile is not in it."""
        self._asked()
        assert isinstance(source, SimulatedLxd)
        here = self._place_of(instance)
        here.is_there = True
        check(self.must_get(instance))
        if here.container.status != STOPPED:
            raise self._says("Instance is running")
        there, _ = source._of(instance)
        # None that the source offers is among them, and it offers none.
        here.restore_points = ()
        here.container.config = {key: value for key, value in {**here.container.config, **config}.items() if value}
        here.container.config[INCOMPLETE_KEY] = "true"
        written, ran = there.written, there.container.status == RUNNING
        there.beat()
        has = {key: getattr(there, key) for key in ("heartbeat", "vouches_for", "beaten_at", "off_for", "beaten_ahead")}
        here.is_filled = True
        try:
            self._scheduler.sleep(self._world.copy_takes / 2)
            self._in_the_middle("copy")
            look()
            self._scheduler.sleep(self._world.copy_takes / 2)
            self._asked()
            source._asked()
        finally:
            here.is_filled = False
        check(self.must_get(instance))
        here.written, here.tree = written, there.tree
        for key, value in has.items():
            setattr(here, key, value)
        if ran:
            there.written += 1
        del here.container.config[INCOMPLETE_KEY]
        here.container.config.update({key: value for key, value in config.items() if value})
        self._scheduler.may_be_lost()

    def network_exists(self, network: str) -> bool:
        self._asked()
        return True

    def write_file(self, instance: str, path: str, content: bytes) -> None:
        self._asked()

    # -- files -------------------------------------------------------------------------------------------------

    def snapshots(self, instance: str) -> list[str]:
        self._asked(noted=True)
        return list(self._of(instance)[0].restore_points) if self.has(instance) else []

    def take_snapshot(self, instance: str, snapshot: str, timeout: float) -> None:
        self._asked(1.0)
        service, _ = self._of(instance)
        service.restore_points = (*service.restore_points, snapshot)
        service.beat()
        if service.untouched:
            service.kept_untouched.add(snapshot)
        self._in_the_middle("snapshot")
        self._scheduler.may_be_lost()

    def rename_snapshot(self, instance: str, snapshot: str, name: str) -> None:
        self._asked()
        service, _ = self._of(instance)
        self._must_have(service, snapshot, f"the renaming of snapshot {snapshot} of {instance}")
        service.restore_points = tuple(name if point == snapshot else point for point in service.restore_points)
        is_kept = name.endswith("-before-failback") and not name.startswith("vcr-new-")
        if is_kept and snapshot not in service.kept_untouched:
            service.violated(f"what is kept of {instance} is not what its standby was")
        self._in_the_middle("renaming")
        self._scheduler.may_be_lost()

    def delete_snapshot(self, instance: str, snapshot: str, timeout: float) -> None:
        self._asked(0.5)
        service, _ = self._of(instance)
        self._must_have(service, snapshot, f"the removal of snapshot {snapshot} of {instance}")
        service.restore_points = tuple(point for point in service.restore_points if point != snapshot)
        self._scheduler.may_be_lost()

    def pool_driver(self, pool: str) -> str | None:
        self._asked(noted=True)
        return "dir"

    def pool_space(self, pool: str) -> tuple[int, int]:
        self._asked(noted=True)
        free = int(min(service.pool_free for service in self._world.in_lxd(self.name)))
        return free, max(free, 100_000_000_000)

    def _must_have(self, service: Service, snapshot: str, doing: str) -> None:
        if snapshot not in service.restore_points:
            raise self._says(f"{doing}: Snapshot {service.name}/{snapshot} does not exist")

    def restore(self, instance: str, snapshot: str, timeout: float) -> None:
        self._asked()
        service, container = self._of(instance)
        self._must_have(service, snapshot, f"the restore of {instance} from snapshot {snapshot}")
        service.may_start()
        if container.status != STOPPED:
            # LXD would stop it, and start it again afterwards.
            service.violated(f"a restore throws away what the standby of {instance} has written")
        service.tree = "half"
        self._scheduler.sleep(1.0)
        self._in_the_middle("restore")
        service.tree = snapshot
        self.rootfs("default", instance).mkdir(parents=True, exist_ok=True)
        service.restores += 1
        # It is the one of then, when no failover had claimed it.
        then = {**container.config, ROLE_KEY: STANDBY}
        container.config = {key: value for key, value in then.items() if key not in (EPOCH_KEY, "boot.autostart")}
        self._scheduler.may_be_lost()

    def file(self, instance: str, path: str) -> bytes | None:
        self._asked(noted=True)
        service = self._there(instance)
        return service.heartbeat_file if service is not None and path == HEARTBEAT else None

    def names_in(self, instance: str, folder: str) -> list[str]:
        """Of each VM the unit is there by which it asks who serves."""
        self._asked(noted=True)
        return ["vcrecovery-who-serves.service"] if self.has(instance) and "basic.target" in folder else []

    def receiver_can(self, what: str) -> bool:
        self._asked()
        return what == TELLS_ORDERS

    def tell_of_receiver(self, can: str) -> bool:
        self._asked()
        return False

    def kernel(self) -> Kernel:
        self._asked()
        return Kernel("6.1.0", "x86_64", maps_owners=True)

    def template(self, instance: str, name: str) -> bytes | None:
        if name == REPORT:
            self._asked(noted=True)
            service = self._there(instance)
            return None if service is None else fetching_vm.left_by(service)
        return self.file(instance, HEARTBEAT if name == TEMPLATE else name)

    def size(self) -> Size:
        self._asked(noted=True)
        return self._size

    def reading(self, pool: str) -> Reading:
        """Of a machine with two cores."""
        free, total = self.pool_space(pool)
        now, containers = self._clock.steady(), {}
        for service in self._world.in_lxd(self.name):
            container = service.container
            if container.status == RUNNING:
                if container.cpu_since != container.started_at:
                    container.cpu_used, container.cpu_at, container.cpu_since = 0.0, now, container.started_at
                container.cpu_used += service.standby_uses * (now - container.cpu_at)
                container.cpu_at = now
                containers[service.name] = ContainerReading(container.cpu_used, 1 << 20, 0, container.started_at)
            containers["others"] = ContainerReading(service.others_use * now, 1 << 20)
        return Reading(now, 2, self._size.memory, 1 << 30, total, free, containers)


def losing_one_answer(method: str) -> Callable[..., Any]:
    """In the place of that method of a SimulatedLxd: what is asked for first is done, and nobody hears that it is."""
    does = getattr(SimulatedLxd, method)
    lost: list[str] = []

    def answers(lxd: SimulatedLxd, *asked: Any, **how: Any) -> Any:
        said = does(lxd, *asked, **how)
        if not lost:
            lost.append(method)
            raise ExternalError("its answer was lost")
        return said

    return answers
