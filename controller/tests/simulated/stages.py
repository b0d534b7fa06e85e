"""The stages of `contracts` in a simulated world: one site with one service, for one case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from simulated.dns import NAME, name_of
from simulated.environment import SimulatedEnvironment
from simulated.libvirt import SimulatedHost
from simulated.scheduler import SimulatedRuntime
from simulated.site import Site
from vcrecovery.core.power import Power
from vcrecovery.drivers.dns import Zone
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.drivers.probe import Probes
from vcrecovery.plan.probes import Port

PATIENCE = 600.0


class SimulatedStage:
    """Service web on hypervisor hv1; its standby on secondary sec1; its names on ns1 and ns2."""

    def __init__(self, folder: Path, seed: int | None = None) -> None:
        self.site = Site(folder, {"web": {"ns2": "", "fence_command": True}}, seed=seed)
        self.service = self.site.world.services["web"]
        self.process, self.env = self.site.process("contract")
        self._broken: list[BaseException] = []
        self._knows_what_broke = False

    def play(self, case: Callable[[Any], None]) -> None:
        """In a task of its own, as all that a controller does."""
        raised: list[Exception] = []
        scheduler = self.site.scheduler

        def work() -> None:
            try:
                case(self)
            except Exception as error:  # noqa: BLE001  raised below
                raised.append(error)

        task = scheduler.spawn(self.process, work, "contract")
        while task.is_alive():
            try:
                self.site.run(PATIENCE, lambda: not task.is_alive() or scheduler.broken is not None)
            except BaseException as error:  # noqa: BLE001  what another task has raised
                self._broken.append(error)
                scheduler.broken = None
            else:
                assert not task.is_alive(), "the case waits for ever"
        for trouble in (*raised, *(() if self._knows_what_broke else self._broken)):
            raise trouble

    def broken(self) -> Sequence[BaseException]:
        self._knows_what_broke = True
        return self._broken

    def change(self, **values: Any) -> None:
        self.site.change(["web"], values)

    def eventually(self, condition: Callable[[], object], what: str) -> None:
        end = self.site.scheduler.time + PATIENCE / 2
        while not condition():
            assert self.site.scheduler.time < end, f"{what} has not come"
            self.site.scheduler.sleep(0.05)

    @property
    def runtime(self) -> SimulatedRuntime:
        return self.env.simulated

    @property
    def clock(self) -> SimulatedRuntime:
        return self.env.simulated


class SimulatedHypervisor(SimulatedStage):
    def __init__(self, folder: Path, seed: int | None = None) -> None:
        super().__init__(folder, seed)
        self.host = SimulatedHost("hv1", self.site.scheduler, self.site.world, 1.0)
        self.uri, self.uuid, self.name = "test:///default", self.service.uuid, self.service.name
        self.site.world.becomes(self.service, Power.SHUTOFF)

    def _becomes(self, power: Power, reason: str = "") -> None:
        self.site.world.becomes(self.service, power, reason)

    def start(self) -> None:
        self._becomes(Power.RUNNING)

    def shut_down(self) -> None:
        self._becomes(Power.SHUTOFF, "shutdown")

    def crash(self) -> None:
        self.site.crash("web")

    def start_with_host(self) -> None:
        self.change(autostart=True)

    def forget(self) -> None:
        self.change(reason="")

    def hang(self) -> None:
        self.change(libvirtd_hangs=True)

    def go_on(self) -> None:
        self.change(libvirtd_hangs=False)

    def end(self) -> None:
        self.change(hypervisor_answers=False)

    def begin(self) -> None:
        self.change(hypervisor_answers=True)


class SimulatedServer(SimulatedStage):
    """What a controller sees of the primary."""

    def __init__(self, folder: Path, seed: int | None = None) -> None:
        super().__init__(folder, seed)
        self.address = self.service.address
        self.tcp: Port = TypeAdapter(Port).validate_python(80)
        self.http: Port = TypeAdapter(Port).validate_python({"http": {"port": 80}})

    @property
    def probes(self) -> Probes:
        return self.env.probes

    def close(self) -> None:
        self.change(primary_ports_open=False)

    def go_away(self) -> None:
        self.change(network_cut=True)

    def answer_wrongly(self) -> None:
        self.change(answers_wrongly=True)


class SimulatedBmc(SimulatedStage):
    env: SimulatedEnvironment

    def power_off(self, timeout: float) -> str:
        return self.env.power_off("hv1", ["power-off", "hv1"], timeout)

    def fail(self) -> None:
        self.change(fence_command_works=False)

    def hang(self) -> None:
        self.change(fence_command_hangs=True)

    def be_killed(self) -> None:
        self.change(fence_command_is_killed=True)

    def is_off(self) -> bool:
        return self.service.power is Power.SHUTOFF


class SimulatedSecondary(SimulatedStage):
    product, client = "LXD", "lxc"

    def __init__(self, folder: Path, seed: int | None = None) -> None:
        super().__init__(folder, seed)
        self.lxd: LxdServer = self.env.lxd["sec1"]
        self.name = self.service.name
        # What may be started when is for others to say.
        self.service.operators_word = True

    def take_restore_point(self, name: str) -> None:
        self.change(restore_points=(*self.service.restore_points, name))

    def kill_init(self) -> None:
        self.change(standby_running=False)

    def end(self) -> None:
        self.change(lxd_answers=False)

    def begin(self) -> None:
        self.change(lxd_answers=True)


class SimulatedNameServers(SimulatedStage):
    def __init__(self, folder: Path, seed: int | None = None) -> None:
        super().__init__(folder, seed)
        self.zone: Zone = self.env.zones[NAME]
        self.name, self.primary, self.standby = name_of("web"), self.service.address, self.service.standby_address
        # What may be switched when is for others to say.
        self.service.operators_word, self.service.answered = True, set(range(100))

    def others_write(self, kind: str, *values: str) -> None:
        records = self.service.records["ns1"]
        if kind == "CNAME":
            records["A"] = set()
        records[kind] = set(values)

    def others_switch(self, epoch: int, address: str) -> None:
        self.others_write("A", address)
        self.others_write("TXT", f'"epoch={epoch}"')

    def with_another_key(self) -> Zone:
        self.change(dns_key_good=False)
        return self.zone

    def hang(self) -> None:
        self.change(dns_hangs=True)

    def go_on(self) -> None:
        self.change(dns_hangs=False)

    def end(self) -> None:
        self.change(dns_answers=False)

    def begin(self) -> None:
        self.change(dns_answers=True)

    def end_second(self) -> None:
        self.change(ns2="does not answer: [Errno 111] Connection refused")
