"""The lab, brought up once for all its tests and removed at the end."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from vcrecovery.core.service_state import Suspension
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import LxdServer, TryAgainError
from vcrecovery.standby.container import EPOCH_KEY, ROLE_KEY
from vcrecovery.store.journal import Journal
from vcrecovery_lab import libvirt, machine
from vcrecovery_lab.image import Image
from vcrecovery_lab.lab import down, up
from vcrecovery_lab.layout import CHECKOUT, SERVICE, Layout, read_layout
from vcrecovery_lab.private_lxd import PrivateLxd
from vcrecovery_lab.run import run

from .flavours import VARIABLE, chosen
from .loaded_program import LOADED
from .own_standby import Ground, printed_in
from .zabbix_stack import zabbix60, zabbix70, zabbix_each  # noqa: F401 - fixtures

BLANK = "vcrlab-blank"
BLANK_UUID = "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e00ff"
LIBVIRT = Path("/run/libvirt/libvirt-sock")
PROGRAM = CHECKOUT / ".venv/bin/vcrecovery"
#: Several lanes of test_lab.sh have the same files; each runs those of which it made a folder in here.
SHARED_IN = os.environ.get("VCRECOVERY_SHARED_IN") or None


@dataclass
class Lab:
    """What the tests talk to."""

    layout: Layout
    image: Image
    lxd: LxdServer = field(init=False)
    program: Path = PROGRAM

    def __post_init__(self) -> None:
        self.lxd = LxdServer("sec1", self.layout.lxd_socket, SystemClock())

    @property
    def rootfs(self) -> Path:
        return self.lxd.rootfs(self.layout.pool, SERVICE)

    def primary(self, command: str, timeout: float = 120) -> str:
        """What a shell command prints in the primary VM."""
        vm = self.layout.primary()
        return machine.ssh(vm, self.image, self.layout.machines, ["sh", "-c", command], timeout=timeout).stdout

    @property
    def socket(self) -> Path:
        return self.layout.lxd_socket

    @property
    def network(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self.layout.plan["secondaries"]["sec1"]["network"]
        return found

    def lxc(self, *words: str, timeout: float = 120, check: bool = True) -> subprocess.CompletedProcess[str]:
        return run(["lxc", *words], timeout=timeout, check=check)

    def inside(self, *command: str) -> str:
        """What a command prints in the standby."""
        return printed_in(self.lxd, SERVICE, command)

    def dig(self, name: str, kind: str) -> list[str]:
        words = ["dig", f"@{self.layout.name_server}", "+short", "+tcp", "+time=10", "+tries=3", name, kind]
        return run(words, timeout=60).stdout.split()

    def vcrecovery(
        self, *words: str, plan: Path | None = None, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        return LOADED.run([*words, "--plan", str(plan or self.layout.plan_file)], timeout)

    def reset_standby(self) -> None:
        """Puts the standby and DNS back to where they were before any failover."""
        instance = self.lxd.get(SERVICE)
        assert instance is not None
        if instance.running:
            self.lxd.stop(SERVICE, timeout=30)
        # LXD writes keys of its own at times.
        for _ in range(100):
            instance = self.lxd.get(SERVICE)
            assert instance is not None
            with suppress(TryAgainError):
                self.lxd.configure(instance, {ROLE_KEY: "standby", EPOCH_KEY: "", "boot.autostart": "false"})
                break
        else:
            pytest.fail(f"{SERVICE} keeps being changed by another client")
        service = self.layout.plan["services"][SERVICE]
        name, key = self.layout.name, self.layout.root / "bind" / "vcrlab.key"
        script = (
            f"server {self.layout.name_server}\nupdate delete {name} A\n"
            f"update add {name} 5 A {service['primary']['address']}\nupdate delete _vcrecovery.{name} TXT\nsend\n"
        )
        run(["nsupdate", "-k", key], timeout=20, stdin=script)

    def stamp(self, units: dict[str, str] | None = None) -> None:
        """A heartbeat of now in the standby, as its primary would have sent it."""
        folder = self.rootfs / "var/lib/vcrecovery"
        folder.mkdir(exist_ok=True)
        (folder / "heartbeat").write_text(
            json.dumps({"at": SystemClock().now(), "good_until": None, "queue": 0, "units": units})
        )

    def other_plan(self, folder: Path, **service: Any) -> Path:
        """The lab's plan with a blank VM as the primary, a journal of its own, and changes to the service."""
        text = (self.layout.plan_file).read_text()
        plan = yaml.safe_load(text)
        plan["state_dir"] = str(folder / "state")
        # No port of the blank VM answers, so a libvirtd that a test stops would be a hypervisor that has failed.
        plan["detection"] = {"host_silent_for": "10m"}
        entry = plan["services"][SERVICE]
        entry["primary"]["uuid"] = BLANK_UUID
        entry.update(service)
        file = folder / "plan.yml"
        file.write_text(yaml.safe_dump(plan))
        return file


@pytest.hookimpl(tryfirst=True)  # before those that `-m` leaves out are chosen
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "lab" in getattr(item, "fixturenames", ()):
            item.add_marker("of_the_lab")
        elif _stands_on(f"{__package__}.small_site", item.module.__name__, set()):  # type: ignore[attr-defined]
            item.add_marker("of_a_small_site")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """True: somebody else runs it, so nothing is reported of it here."""
    return None if SHARED_IN is None or _is_taken_by_us(item.path.stem) else True


@functools.cache
def _is_taken_by_us(file: str) -> bool:
    assert SHARED_IN is not None
    try:
        Path(SHARED_IN, file).mkdir()
    except FileExistsError:
        return False
    return True


def _stands_on(wanted: str, module: str, seen: set[str]) -> bool:
    """Whether `module` uses classes or functions of `wanted`, itself or by another module of these tests."""
    if module == wanted:
        return True
    seen.add(module)
    origins = {getattr(found, "__module__", None) for found in vars(sys.modules[module]).values()}
    near = {origin for origin in origins if isinstance(origin, str) and origin.rpartition(".")[0] == __package__}
    return any(_stands_on(wanted, origin, seen) for origin in sorted(near - seen - {__name__}))


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    if os.geteuid() != 0:
        pytest.fail("the lab's tests make VMs, containers and bridges: run them as root")
    layout = read_layout()
    down(layout)
    try:
        made = Lab(layout, up(layout))
        yield made
    finally:
        if LIBVIRT.exists():
            machine.destroy_and_undefine_blank(BLANK)
        down(layout)


class OwnGround:
    """LXD or Incus, without anything of the lab."""

    network: Mapping[str, str] = {"bridge": "vcrlab-ground", "address": "10.211.27.1/24"}

    def __init__(self) -> None:
        self.server = PrivateLxd(self.network["bridge"], chosen())

    @property
    def socket(self) -> Path:
        return self.server.socket

    def lxc(self, *words: str, timeout: float = 120, check: bool = True) -> subprocess.CompletedProcess[str]:
        software = self.server.software
        return run([software.client, *words], timeout=timeout, env=self.server.clients_environment(), check=check)


def _of_the_lab(lab: Lab) -> Ground:
    return lab


def _of_its_own() -> Iterator[Ground]:
    made = OwnGround()
    try:
        made.server.start()
        yield made
    finally:
        made.server.close()


#: Where a test's own standbys are made.
ground: Any = pytest.fixture(scope="session")(_of_its_own if VARIABLE in os.environ else _of_the_lab)


@pytest.fixture
def blank(lab: Lab) -> Iterator[int]:
    """A real VM that does nothing, in the place of the primary, which is off; its QEMU's process."""
    # Whatever happens to libvirtd meanwhile: the lab's own watcher fails nothing over.
    journal = Journal(lab.layout.state_dir / "journal.db")
    journal.suspend(SERVICE, Suspension(time.time(), None, "another VM is in its place"))
    run(["virsh", "-c", "qemu:///system", "destroy", lab.layout.primary().name], timeout=60, check=False)
    # Whatever test ran before: this one begins with the primary serving.
    lab.reset_standby()
    if waited_for := os.environ.get("VCRECOVERY_NOTHING_IS_EMULATED"):
        Path(waited_for).touch()
    machine.create_blank(BLANK, BLANK_UUID)
    pid = libvirt.pid(BLANK, BLANK_UUID)
    assert pid is not None
    lab.stamp()
    yield pid
    machine.destroy_and_undefine_blank(BLANK)
    lab.reset_standby()
    journal.suspend(SERVICE, None)
