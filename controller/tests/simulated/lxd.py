"""The LXD of a secondary of the simulated world, behind the interface of the real driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from simulated.scheduler import SimulatedRuntime
from simulated.world import MODES, Container, Service, World
from vcrecovery.drivers.lxd import Instance, LxdServer, TryAgainError
from vcrecovery.drivers.lxd.instances import FROZEN, RUNNING, STOPPED
from vcrecovery.drivers.lxd.resources import Size
from vcrecovery.errors import ExternalError
from vcrecovery.transfer.heartbeat_copy import HEARTBEAT

TAKES = 0.01
_GIB = 2**30


class SimulatedLxd(LxdServer):
    """Answers as LXD on secondary `name` would."""

    def __init__(
        self, name: str, folder: Path, runtime: SimulatedRuntime, world: World, starts: int, middle: Callable[[], None]
    ) -> None:
        super().__init__(name, folder / "lxd/unix.socket", runtime)
        self._scheduler = runtime.scheduler
        self._world = world
        #: Of a restore: a place to be killed.
        self._in_the_middle = middle
        self._size = Size(max(1, starts // 2), max(1, starts) * _GIB)

    def _asked(self, takes: float = TAKES) -> None:
        self._scheduler.takes(takes)
        if any(not service.lxd_answers for service in self._world.services.values()):
            raise ExternalError(f"LXD on secondary {self.name} does not answer: no such file", "see that it runs")

    def _of(self, name: str) -> tuple[Service, Container]:
        service = self._world.services[name]
        return service, service.container

    # -- instances ---------------------------------------------------------------------------------------------

    def get(self, instance: str) -> Instance | None:
        self._asked()
        _, container = self._of(instance)
        return Instance(
            instance,
            container.status == RUNNING,
            container.status,
            dict(container.config),
            {},
            str(container.etag),
            container.started_at,
        )

    def configure(
        self,
        instance: Instance,
        config: Mapping[str, str],
        devices: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._asked()
        service, container = self._of(instance.name)
        if instance.etag != str(container.etag):
            raise TryAgainError(f"container {instance.name} was changed at this moment", "run it again")
        container.config |= config
        container.etag += 1
        service.look_for_two()
        self._scheduler.may_be_lost()

    def _set_state(
        self, instance: str, action: str, timeout: float, doing: str, *, force: bool = False, patience: float = 0
    ) -> None:
        service, container = self._of(instance)
        takes, _ = MODES["cold" if action == "start" else "frozen"]
        self._asked(takes)
        match action, container.status:
            case "start", str(status) if status == STOPPED:
                container.started_at = self._scheduler.wall
                service.boots(1.0)
            case "unfreeze", str(status) if status == FROZEN:
                service.boots(MODES["frozen"][1])
            case "freeze", str(status) if status == RUNNING:
                container.status = FROZEN
            case "stop", _:
                container.status = STOPPED
                service.answered.clear()
            case _:
                raise ExternalError(f"{doing} failed: the container is {container.status.lower()}")
        container.etag += 1
        self._scheduler.may_be_lost()

    def status_of(self, instance: str, command: Sequence[str], timeout: float) -> int:
        return self.ask(instance, command, timeout)[0]

    def ask(self, instance: str, command: Sequence[str], timeout: float) -> tuple[int, str]:
        """Both are the scripts of `standby.container_units`; what they do to the tree is not seen from here."""
        self._asked(MODES["hot"][0])
        service, container = self._of(instance)
        if container.status != RUNNING:
            raise ExternalError(f"container {instance} does not run", "start it")
        if "promote" in command and service.mode in ("warm", "hot"):
            service.boots(MODES[service.mode][1])
        return 0, f"now {int(self._scheduler.wall)}\n"

    # -- files -------------------------------------------------------------------------------------------------

    def snapshots(self, instance: str) -> list[str]:
        self._asked()
        return list(self._of(instance)[0].restore_points)

    def restore(self, instance: str, snapshot: str, timeout: float) -> None:
        service, container = self._of(instance)
        self._asked()
        service.may_start()
        if container.status != STOPPED:
            raise ExternalError(f"container {instance} runs", "stop it")
        service.tree = "half"
        self._scheduler.sleep(1.0)
        self._in_the_middle()
        service.tree = snapshot
        self.rootfs("default", instance).mkdir(parents=True, exist_ok=True)
        service.restores += 1
        container.config |= {"user.vcrecovery.role": "standby"}
        container.etag += 1

    def file(self, instance: str, path: str) -> bytes | None:
        self._asked()
        service, _ = self._of(instance)
        return service.heartbeat_file if path == HEARTBEAT else None

    def template(self, instance: str, name: str) -> bytes | None:
        return self.file(instance, HEARTBEAT)

    def size(self) -> Size:
        self._asked()
        return self._size
