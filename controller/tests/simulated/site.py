"""A small site in a simulated world: its plan, the processes that run the shipped program, what operators type."""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import yaml

from simulated.dns import NAME, name_of
from simulated.environment import SimulatedEnvironment
from simulated.lxd import socket_of
from simulated.scheduler import START, KilledError, Process, Scheduler, SimulatedRuntime
from simulated.secondary_vm import HOST, SecondaryVm
from simulated.world import Container, Service, World, with_a_spare
from vcrecovery.cli import recovery
from vcrecovery.cli.watch import watching
from vcrecovery.core.episode import Episode
from vcrecovery.core.power import OFF, Power
from vcrecovery.core.service_state import Suspension
from vcrecovery.detect.event_meaning import EventMeaning
from vcrecovery.drivers.lxd.instances import FROZEN, RUNNING, STOPPED
from vcrecovery.errors import VCRecoveryError
from vcrecovery.operations.environment import place_of_disk
from vcrecovery.operations.unattended import Unattended
from vcrecovery.plan.load import load_plan
from vcrecovery.plan.model import Plan
from vcrecovery.plan.modes import Mode
from vcrecovery.plan.on_demand import is_on_demand
from vcrecovery.standby.modes import ChosenModes, Level
from vcrecovery.store.journal import Journal

UUID = "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e{:04x}"
#: Seconds for which `watch` goes on at most until what was begun is over.
PATIENCE = 600.0


def _network(secondary: str) -> str:
    """Of its standbys, as far as they share it."""
    return f"10.20.{int(secondary.removeprefix('sec')) - 1}"


def _standby_address(number: int, said: Mapping[str, Any]) -> str:
    return f"{_network(said.get('secondary', 'sec1'))}.{number + 10}"


def _spare(number: int, said: Mapping[str, Any]) -> dict[str, Any]:
    secondary = str(said["spare"])
    every = said.get("spare_every", "60s")
    return {"secondary": secondary, "address": f"{_network(secondary)}.{number + 10}", "every": every}


def _on_demand(name: str, more: Mapping[str, Any]) -> dict[str, Any]:
    files = {key: f"/etc/vcrecovery/{key}" for key in ("certificate", "key", "server_certificate")}
    vm = {"hypervisor": HOST, "standbys_disk": "10GiB", "image": "/debian.img", "network": "br0"}
    return {
        "lxd": {"url": f"https://{name}:8443", **files},
        "power": "on-demand",
        "vm": {**vm, "address": f"192.0.2.{19 + int(name.removeprefix('sec'))}/24"},
        **more.get("secondary", {}),
    }


def _names(service: str, said: Mapping[str, Any]) -> list[str]:
    return [name_of(service, first) for first in ("www", "api")[: 1 + bool(said.get("two_names"))]]


def _is_over(process: Process) -> bool:
    return process.is_over


class _Lines(io.StringIO):
    """The terminal of whoever runs now."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell, self._rest = tell, ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._tell(line.rstrip())
        return len(text)


class _Log(logging.Handler):
    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        level = "" if record.levelno < logging.WARNING else f"{record.levelname}: "
        self._tell(level + record.getMessage())


@dataclass(frozen=True)
class _Event:
    """One of Zabbix's."""

    name: str
    tags: Mapping[str, str]
    at: float
    id: str = "4711"
    is_problem: bool = True

    def says(self, _message: str) -> bool:
        return False


class Site:
    """Services, one watcher, and operators who come and go."""

    #: Those that are not closed: pytest closes what a test leaves.
    left_open: ClassVar[list[Site]] = []

    def __init__(
        self,
        folder: Path,
        services: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        seed: int | None = None,
        world: Mapping[str, Any] | None = None,
        plan: Mapping[str, Any] | None = None,
        groups: Mapping[str, Sequence[str]] | None = None,
        starts_at_once: int = 32,
    ) -> None:
        self.folder = folder
        self.scheduler = Scheduler(seed)
        self.world = World(self.scheduler)
        self.log: list[str] = []
        self.kill_at: int | str | None = None
        self.boundaries = 0
        #: What happens once when a place is reached.
        self.then: dict[str, list[Callable[[], None]]] = {}
        self.starts_at_once = starts_at_once
        self.watcher: Process | None = None
        self._begun: list[Process] = []
        self._environments: list[tuple[Process, SimulatedEnvironment]] = []
        self._reader: SimulatedEnvironment | None = None
        self._others: list[Process] = []
        said = services if services is not None else {"web": {}}
        self.plan = self._plan(said, dict(world or {}), dict(plan or {}), dict(groups or {}))
        for number, (name, values) in enumerate(said.items()):
            self._service(number, name, {**(world or {}), **values})
        self.world.services = {name: self.world.services[name] for name in self.plan.services}
        for name, secondary in self.plan.secondaries.items():
            if is_on_demand(secondary):
                self._secondary_vm(name)
        Site.left_open.append(self)

    def close(self) -> None:
        """Ends all processes, and closes their files."""
        with self.heard():
            for process, _ in self._environments:
                if process.alive:
                    self.scheduler.kill(process)
        for _, env in self._environments:
            env.close()
        self._environments.clear()
        Site.left_open.remove(self)

    # -- what there is -----------------------------------------------------------------------------------------

    def _plan(
        self, services: Mapping[str, Any], world: dict[str, Any], more: dict[str, Any], groups: dict[str, Any]
    ) -> Plan:
        folder = self.folder
        hosts = {s.get("host", "hv1"): s.get("site", "main") for s in services.values()}
        fenced = {h for s in services.values() for h in [s.get("host", "hv1")] if {**world, **s}.get("fence_command")}
        (folder / "secret").write_text("c2VjcmV0IG9mIGEgc2ltdWxhdGlvbg==\n")
        ns = ["ns1", *(["ns2"] if any({**world, **s}.get("ns2") is not None for s in services.values()) else [])]
        addresses = {"ns1": "127.0.0.1", "ns2": "127.0.0.2"}
        all_said = [{**world, **s} for s in services.values()]
        spares = {said["spare"] for said in all_said if said.get("spare")}
        secondaries = sorted({said.get("secondary", "sec1") for said in all_said} | spares)
        fenced_too = set(secondaries) if any(said.get("secondary_fence") for said in all_said) else set()
        entries = {}
        for number, (name, values) in enumerate(services.items()):
            said = {**world, **values}
            entry: dict[str, Any] = {
                "primary": {
                    "hypervisor": said.get("host", "hv1"),
                    "uuid": UUID.format(number + 1),
                    "address": f"10.10.0.{number + 10}",
                },
                "standby": {
                    "secondary": said.get("secondary", "sec1"),
                    "address": _standby_address(number, said),
                    **({"spare": _spare(number, said)} if said.get("spare") else {}),
                },
                "ports": [80],
                "dns": [{"name": text, "zone": NAME} for text in _names(name, said)],
                "mode": said.get("mode", "cold"),
                "max_staleness": "1m",
                "needs": list(values.get("needs", [])),
                **more.get("service", {}),
            }
            if said.get("virtual_ip"):
                entry["virtual_ip"] = {"address": f"{said['virtual_ip']}/24", "interface": "eth0"}
            entries[name] = entry
        text = {
            "version": 1,
            "state_dir": str(folder / "state"),
            "hypervisors": {
                host: {
                    "uri": "test:///default",
                    "site": site,
                    **({"fence": {"command": ["power-off", host]}} if host in fenced else {}),
                }
                for host, site in hosts.items()
            }
            | ({HOST: {"uri": "test:///default"}} if any(said.get("on_demand") for said in all_said) else {}),
            "secondaries": {
                name: {
                    "lxd": str(socket_of(folder, name)),
                    **(_on_demand(name, more) if any(said.get("on_demand") for said in all_said) else {}),
                    "network": {"bridge": "vcr0", "address": f"{_network(name)}.1/24"},
                    "receiver": {"address": "10.10.0.1", "port": 7022 + number},
                    "starts_at_once": self.starts_at_once,
                    **({"fence": {"command": ["power-off", name]}} if name in fenced_too else {}),
                }
                for number, name in enumerate(secondaries)
            },
            "dns": {
                "servers": {name: {"address": addresses[name], "port": 53} for name in ns},
                "keys": {"key1": {"name": "vcr.key", "secret_file": str(folder / "secret")}},
                "zones": {NAME: {"servers": ns, "key": "key1"}},
            },
            "detection": {"hold_returning": False, **more.get("detection", {})},
            **({"balance": more["balance"]} if "balance" in more else {}),
            "services": entries,
            "notify": list(more.get("notify", [])),
            **({"groups": {name: {"services": list(of)} for name, of in groups.items()}} if groups else {}),
        }
        file = folder / "plan.yml"
        file.write_text(yaml.safe_dump(text, sort_keys=False))
        (folder / "state").mkdir(exist_ok=True)
        for name in secondaries:
            socket_of(folder, name).parent.mkdir(exist_ok=True)
            socket_of(folder, name).touch()
        return load_plan(file)

    def _service(self, number: int, name: str, values: Mapping[str, Any]) -> None:
        service = Service(
            name,
            self.scheduler,
            UUID.format(number + 1),
            f"10.10.0.{number + 10}",
            _standby_address(number, values),
        )
        service.violated, service.told = self._violated, lambda text: self.say(f"world: {text}")
        service.lxd_tells = partial(self.world.lxd_tells, service)
        self.world.services[name] = service
        mode = Mode(values.get("mode", "cold"))
        config = {
            "user.vcrecovery.role": "standby",
            "user.vcrecovery.ready": "true",
            "volatile.last_state.idmap": "[]",
        }
        service.container = Container(config=config)
        if mode is not Mode.COLD:
            service.container.status = FROZEN if mode is Mode.FROZEN else RUNNING
            service.container.started_at = START - 600
            level = Level.BASE if mode is Mode.WARM else Level.ALL
            config["user.vcrecovery.settled"] = f"{level} {START - 60!r} {START - 600!r}"
        records = {"A": {service.address}, "TXT": set()}
        service.names = {
            text: {server: {k: set(v) for k, v in records.items()} for server in ("ns1", "ns2")}
            for text in _names(name, values)
        }
        if values.get("spare"):
            with_a_spare(service, values["spare"], _spare(number, values)["address"])
            assert service.other is not None
            service.other.lxd_tells = partial(self.world.lxd_tells, service.other)
        of_the_plan = ("on_demand", "needs", "two_names", "spare", "spare_every", "secondary_fence")
        self.change([name], {key: value for key, value in values.items() if key not in of_the_plan})

    def _secondary_vm(self, name: str) -> None:
        """Off, as the watcher leaves it."""
        there = partial(self.world.in_lxd, name)
        vm = SecondaryVm(name, self.scheduler, there, self._violated, self.say, self.world.machine_is_back)
        vm.uuid = vm.uuid[:-4] + f"{0xFFFF - len(self.world.secondary_vms):04x}"
        vm.mount()
        folder = place_of_disk(self.plan, name)
        folder.folder.mkdir(parents=True)
        folder.takes_files.touch()
        self.world.secondary_vms[name] = vm

    def _violated(self, what: str) -> None:
        self.say(f"VIOLATED: {what}")
        self.scheduler.broken = self.scheduler.broken or AssertionError("\n".join([what, *self.log[-60:]]))

    def change(self, names: Sequence[str], values: Mapping[str, Any]) -> None:
        for name in names:
            service = self.world.services[name]
            for key, value in values.items():
                match key:
                    case "power":
                        self.world.becomes(service, Power(value), values.get("reason", ""))
                    case "reason":
                        service.reason = value
                    case "heartbeat_at":
                        service.syncs = False
                        service.heartbeat = None if value is None else START + value
                    case "dns_epoch":
                        for records in service.all_records:
                            records["TXT"] = {f'"epoch={value}"'}
                    case "container_epoch":
                        service.container.config["user.vcrecovery.epoch"] = str(value)
                    case "standby_running":
                        service.container_becomes(RUNNING if value else STOPPED)
                    case "standby_restarted":
                        service.container.started_at = service.lxd_now
                        service.has_everything = False
                    case "standby_stopped_by":
                        service.container_becomes(STOPPED, value)
                    case "standby_stopping_by":
                        # LXD tells it a while after it has ended.
                        service.container.status = STOPPED
                        later = partial(self.world.lxd_tells, service, "ended", value)
                        self.scheduler.at(self.scheduler.time + 4.9, later)
                    case "standby_frozen_by":
                        service.container_becomes(FROZEN, value)
                    case "restore_points":
                        service.restore_points = tuple(value)
                    case _:
                        assert hasattr(service, key), key
                        setattr(service, key, value)
        self.world.notice_lost_connections()

    # -- the log -----------------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        if "internal error" in text or "this is a bug" in text:
            self.scheduler.broken = self.scheduler.broken or AssertionError("\n".join([text, *self.log[-60:]]))
        text = text.replace(str(self.folder / "state"), "/var/lib/vcrecovery").replace(str(self.folder), "/etc")
        text = re.sub(r"\bprocess \d+\b", "process 4711", text)
        self.log.append(f"{self.scheduler.time:8.2f}  {text}".rstrip())

    def _tell(self, text: str) -> None:
        task = self.scheduler.current
        if task is None or task.process.alive:
            self.say(f"{task.process.name if task is not None else 'test'}: {text}")

    @contextmanager
    def heard(self) -> Iterator[None]:
        """What the program prints and logs goes into our log."""
        logger, handler, stdout = logging.getLogger("vcrecovery"), _Log(self._tell), sys.stdout
        before = logger.level, logger.propagate
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        sys.stdout = _Lines(self._tell)
        try:
            yield
        finally:
            sys.stdout = stdout
            logger.removeHandler(handler)
            logger.setLevel(before[0])
            logger.propagate = before[1]

    # -- processes ---------------------------------------------------------------------------------------------

    def boundary(self, place: str, episode: Episode | None) -> None:
        """A place between two acts, where a controller may be killed."""
        self.boundaries += 1
        for reached in (place, str(self.boundaries)):
            for act in self.then.pop(reached, ()):
                act()
        of = f"{place} of {episode.service}" if episode is not None else place
        if self.kill_at in (self.boundaries, place, of):
            self.kill_at = None
            task = self.scheduler.current
            assert task is not None
            self.say(f"{task.process.name} is killed: {of if len(self.world.services) > 1 else place}")
            self.scheduler.kill(task.process)

    def process(self, name: str) -> tuple[Process, SimulatedEnvironment]:
        process = Process(name)
        runtime = SimulatedRuntime(self.scheduler, process)
        # Each process has read it, and says in its own where standbys are.
        plan = self.plan.model_copy(update={"services": dict(self.plan.services)})
        env = SimulatedEnvironment(plan, runtime, self.world, self.boundary, self.starts_at_once)
        over = [found for found in self._environments if found[0].is_over and found[1] is not self._reader]
        for found in over:
            found[1].close()
            self._environments.remove(found)
        self._environments.append((process, env))
        return process, env

    def _begin(self, name: str, work: Callable[[SimulatedEnvironment], None]) -> Process:
        process, env = self.process(name)
        self.scheduler.spawn(process, lambda: work(env), name)
        self._begun.append(process)
        return process

    @property
    def operators(self) -> list[Process]:
        """Those who have typed something that is not over."""
        self._begun = [process for process in self._begun if not process.is_over]
        return [process for process in self._begun if process not in (self.watcher, *self._others)]

    def start_watcher(self) -> None:
        def work(env: SimulatedEnvironment) -> None:
            watching(env, env.runtime.event())

        self.watcher = self._begin("watch", work)

    def start_another_watcher(self) -> None:
        first = self.watcher
        self.start_watcher()
        assert self.watcher is not None
        self._others.append(self.watcher)
        self.watcher = first

    def kill_other_watchers(self) -> None:
        with self.heard():
            for process in self._others:
                if process.alive:
                    self.scheduler.kill(process)
        self._others.clear()

    @property
    def failing_over(self) -> bool:
        """Whether the watcher is at work on a failover."""
        process = self.watcher
        return process is not None and any(task.name.startswith("failover of") for task in process.tasks)

    def watch(self, seconds: float, *, to_the_end: bool = True, again: bool = True) -> None:
        """The watcher runs for so long, and until what it has begun is over; after that it stands still.

        One that was killed is started again, as systemd does; not so if `again` is False.
        """
        scheduler = self.scheduler
        end = scheduler.time + max(seconds, 1.5)
        last = end + PATIENCE if to_the_end else end
        while scheduler.time < end or (scheduler.time < last and (self.failing_over or self.operators)):
            if self.watcher is None or self.watcher.is_over:
                if self.watcher is not None and not again:
                    break
                self.start_watcher()
            watcher = self.watcher
            assert watcher is not None
            watcher.stopped = False
            if scheduler.time < end:
                self.run(end - scheduler.time, partial(_is_over, watcher))
            else:
                self.run(last - scheduler.time, lambda: not self.failing_over and not self.operators)
        if self.watcher is not None:
            self.watcher.stopped = True

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        with self.heard():
            self.scheduler.run(seconds, until)

    def kill_watcher(self) -> None:
        if self.watcher is not None and self.watcher.alive:
            with self.heard():
                self.scheduler.kill(self.watcher)
        self.watcher = None

    # -- operators ---------------------------------------------------------------------------------------------

    def begin_failover(self, what: str = "service", name: str = "", verb: str = "failover", **words: Any) -> Process:
        """`vcrecovery failover` or `switchover`, in a process of its own."""
        name = name or next(iter(self.world.services))
        if words.get("primary_is_down") is True:
            words["primary_is_down"] = name
        given: dict[str, Any] = {"service": None, "vm": None, "host": None, "site": None, "group": None, what: name}
        asked = {"planned": verb in ("switchover", "move"), "back": verb == "failback", "as_json": False, **words}
        option = name if what == "service" else f"--{what} {name}"
        typed = "".join(
            f" --{key.replace('_', '-')}" + ("" if value is True else f" {value}")
            for key, value in words.items()
            if value
        )

        def work(env: SimulatedEnvironment) -> None:
            self.say(f"operator: vcrecovery {verb} {option}{typed}")
            try:
                recovery.carry_out(env, self.folder / "plan.yml", **given, **asked)
            except VCRecoveryError as error:
                self._tell(f"{type(error).__name__}: {error}")

        process = self._begin("operator", work)
        process.knows_needs = what != "service"
        return process

    def begin_rollback(self, name: str = "", *, word: bool = True) -> Process:
        """`vcrecovery rollback`, in a process of its own."""
        from vcrecovery.cli.undo import roll_back

        name = name or next(iter(self.world.services))

        def act(env: SimulatedEnvironment) -> None:
            roll_back(env, self.folder / "plan.yml", name, name if word else None, as_json=False)

        return self._begin_typed(f"rollback {name}" + (f" --drop-new-writes {name}" if word else ""), act)

    def begin_commit(self, name: str = "") -> Process:
        from vcrecovery.cli.undo import commit_now

        name = name or next(iter(self.world.services))
        return self._begin_typed(f"commit {name}", lambda env: commit_now(env, name))

    def _begin_typed(self, words: str, act: Callable[[SimulatedEnvironment], None]) -> Process:
        def work(env: SimulatedEnvironment) -> None:
            self.say(f"operator: vcrecovery {words}")
            try:
                act(env)
            except VCRecoveryError as error:
                self._tell(f"{type(error).__name__}: {error}")

        return self._begin("operator", work)

    def rollback(self, *, word: bool = True) -> None:
        self.do(self.begin_rollback(word=word))

    def commit(self) -> None:
        self.do(self.begin_commit())

    def switchover(self, what: str = "service", name: str = "") -> None:
        process = self.begin_failover(what, name, "switchover")
        self.run(PATIENCE, lambda: process.is_over)

    def failback(self, what: str = "service", name: str = "") -> None:
        process = self.begin_failover(what, name, "failback")
        self.run(PATIENCE, lambda: process.is_over)

    def failover(self, what: str = "service", name: str = "", **words: Any) -> None:
        process = self.begin_failover(what, name, **words)
        self.run(PATIENCE, lambda: process.is_over)

    def zabbix_event(self, kind: str = "vm") -> Process:
        """What `vcrecovery event` leads to. `kind`: the tag vcr-kind."""
        service = next(iter(self.world.services.values()))
        what = {"vm": "VM has crashed", "host": "hypervisor does not answer"}[kind]

        tags = {"vcr-kind": kind, "vcr-uuid": service.uuid, "vcr-host": service.host}
        event = _Event(what, tags, self.scheduler.wall)

        def work(env: SimulatedEnvironment) -> None:
            from vcrecovery.cli.watch import LogTimeline

            recover = Unattended(env, LogTimeline())
            try:
                answer = EventMeaning(env, recover, lambda _id, text: self._tell(text)).handle(event)
            except VCRecoveryError as error:
                self._tell(str(error))
                return
            for line in answer.text.splitlines():
                self._tell(line)

        return self._begin("Zabbix event 4711", work)

    def do(self, process: Process) -> None:
        self.run(PATIENCE, lambda: process.is_over)

    @property
    def journal(self) -> Journal:
        """For the test to read."""
        if self._reader is None:
            self._reader = self.process("test")[1]
        return self._reader.journal

    def by_hand(self, act: Callable[[SimulatedEnvironment], None]) -> None:
        """Something short that an operator types; a VCRecoveryError is raised here."""
        _, env = self.process("operator")
        act(env)

    def suspend(self, name: str, seconds: float | None) -> None:
        now = self.scheduler.wall
        until = None if seconds is None else now + seconds
        self.by_hand(lambda env: env.journal.suspend(name, Suspension(now, until, "work")))

    def resume(self, name: str) -> None:
        self.by_hand(lambda env: env.journal.suspend(name, None))

    def acknowledge(self, name: str) -> None:
        self.by_hand(lambda env: env.journal.acknowledge(name, env.clock.now()))

    def set_mode(self, name: str, mode: str) -> None:
        ChosenModes(self.plan.state_dir).write(name, Mode(mode))
        self.world.services[name].mode = mode

    # -- the world ---------------------------------------------------------------------------------------------

    def crash(self, name: str) -> None:
        service = self.world.services[name]
        if service.power not in OFF:
            self.world.becomes(service, Power.SHUTOFF, "crashed")

    def stop_primary(self, name: str, reason: str) -> None:
        self.world.becomes(self.world.services[name], Power.SHUTOFF, reason)

    def start_primary(self, name: str) -> None:
        service = self.world.services[name]
        if service.serves or (service.other is not None and service.other.serves):
            # Whoever does this beside a standby that serves has two; what matters is for how long.
            service.is_started_by_hand()
        service.undefined = False
        self.world.becomes(service, Power.RUNNING)

    def point_back(self, name: str) -> None:
        """The operator does so, by hand."""
        service = self.world.services[name]
        for records in service.all_records:
            records["A"] = {service.address}

    def serve_from_primary(self, name: str) -> None:
        """The operator brings everything back, and then types `vcrecovery standby reset`."""
        service = self.world.services[name]
        service.container.status = "Stopped"
        service.container.config |= {"user.vcrecovery.role": "standby"}
        service.virtual_ip_is_here = False
        self.point_back(name)
        if service.power is not Power.PAUSED or not service.quarantined:
            self.start_primary(name)
        service.operators_word = service.by_hand = False
        service.tree = "synced"
        # What the standby has written was copied by hand, or is given up.
        service.has_everything = True
        self.reset(name)

    def reset(self, name: str, secondary_is_down: str | None = None) -> None:
        """`vcrecovery standby reset` alone."""
        from vcrecovery.cli.standby import serve_from_the_primary

        process = self._begin("operator", lambda env: serve_from_the_primary(env, name, secondary_is_down))
        self.do(process)


__all__ = ["KilledError", "Site"]
