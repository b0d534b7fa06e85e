"""What is a failure and what is not, on real VMs: hangs, load, suspension, a hypervisor that is silent."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from vcrecovery.core.domain import DomainUsage
from vcrecovery.core.episode import Episode, Symptom
from vcrecovery.detect import host_watch, watch
from vcrecovery.detect.watch import Watch
from vcrecovery.errors import RefusedError
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.load import load_plan
from vcrecovery.store.journal import Journal
from vcrecovery_lab import domain, libvirt, machine
from vcrecovery_lab.stand_still import stand_still

from .conftest import BLANK, BLANK_UUID, Lab
from .test_d_watch import Watcher, episodes, virsh
from .waiting import wait_for

pytestmark = pytest.mark.lab

#: Boot sectors: one that loops, and one that sleeps until the next tick of the timer, as an idle system does.
SPINS, IDLES = b"\xeb\xfe", b"\xfb\xf4\xeb\xfc"
log = logging.getLogger(__name__)


@dataclass
class Recorder:
    """In the place of the failover: remembers what it was called for."""

    calls: list[tuple[str, Symptom, float]] = field(default_factory=list)

    def __call__(
        self,
        service: str,
        cause: str,
        detected_at: float,
        symptom: Symptom = Symptom.NONE,
        *,
        began_at: float | None = None,
        to: str | None = None,
    ) -> Episode:
        self.calls.append((cause, symptom, time.monotonic()))
        raise RefusedError(f"{service} is not failed over in this test")

    def at_work(self, _service: str) -> bool:
        return False


class Watching:
    """The watcher's own code with real libvirt, asking more often; `rounds` counts the answers."""

    def __init__(self, plan: Path) -> None:
        self.env = Environment(load_plan(plan))
        self.recover = Recorder()
        self.rounds = 0
        host = self.env.hosts["hv1"]
        ask = host.usage

        def usage(uuids: Sequence[str]) -> dict[str, DomainUsage]:
            found = ask(uuids)
            self.rounds += 1
            return found

        host.usage = usage  # type: ignore[method-assign]
        self.watch = Watch(self.env, self.recover)

    def wait_rounds(self, number: int) -> None:
        until = self.rounds + number
        wait_for(lambda: self.rounds >= until, f"{number} readings", 120)


@contextmanager
def watching(plan: Path) -> Iterator[Watching]:
    here = Watching(plan)
    stop = threading.Event()
    thread = threading.Thread(target=here.watch.run, args=(stop,))
    thread.start()
    try:
        here.wait_rounds(2)
        yield here
    finally:
        stop.set()
        thread.join(30)
        assert not thread.is_alive()


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_watch, "ASK_EVERY", 0.25)


@pytest.fixture
def door() -> Iterator[socket.socket]:
    """A port in the place of the primary's: bound, and closed until somebody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        yield found


def plan_with(lab: Lab, folder: Path, door: socket.socket, **detection: Any) -> Path:
    plan = lab.other_plan(folder, ports=[door.getsockname()[1]])
    data = yaml.safe_load(plan.read_text())
    data["services"]["web"]["primary"]["address"] = "127.0.0.1"
    data["detection"].update(detection)
    plan.write_text(yaml.safe_dump(data))
    return plan


@contextmanager
def guest(lab: Lab, code: bytes) -> Iterator[None]:
    """A VM that runs `code` and nothing else, in the place of the blank one."""
    lab.layout.machines.mkdir(parents=True, exist_ok=True)
    disk = lab.layout.machines / "boot-sector.img"
    disk.write_bytes(domain.boot_sector(code))
    xml = domain.boot_sector_domain(BLANK, BLANK_UUID, disk)
    machine.destroy_and_undefine_blank(BLANK)
    libvirt.define(domain.signed(xml)[0])
    libvirt.start(BLANK)
    try:
        yield
    finally:
        machine.destroy_and_undefine_blank(BLANK)
        disk.unlink()


def test_a_guest_that_hangs_is_failed_over(lab: Lab, blank: int, tmp_path: Path) -> None:
    plan = lab.other_plan(tmp_path)
    data = yaml.safe_load(plan.read_text())
    data["detection"]["cpu_zero_for"] = "6s"
    plan.write_text(yaml.safe_dump(data))
    watcher = Watcher(lab, plan, tmp_path / "watch.log")
    try:
        wait_for(lambda: watcher.says("web: the primary is running"), "the first look")
        stand_still(blank)
        wait_for(lambda: watcher.says("epoch 1: done: web is served by its standby"), "the failover", 150)
    finally:
        watcher.process.terminate()
        watcher.process.wait(timeout=60)
        if Path(f"/proc/{blank}").exists():
            os.kill(blank, signal.SIGCONT)
    episode = episodes(lab, plan)[-1]
    assert episode["cause"] == "the primary hangs: it uses no CPU, and no port answers"
    assert libvirt.pid(BLANK, BLANK_UUID) is None
    assert lab.dig(lab.layout.name, "A") == ["10.211.2.10"]
    assert "Traceback" not in watcher.log.read_text()


@pytest.mark.usefixtures("often", "blank")
def test_a_suspended_guest_is_no_failure(lab: Lab, door: socket.socket, tmp_path: Path) -> None:
    plan = plan_with(lab, tmp_path, door, cpu_zero_for="2s", cpu_high_for="1h")
    # While it runs it is busy: what an idle one uses is seen every few seconds only.
    with guest(lab, SPINS), watching(plan) as here:
        virsh("suspend", BLANK)
        here.wait_rounds(24)
        virsh("resume", BLANK)
        here.wait_rounds(2)
        assert here.recover.calls == []


@pytest.mark.usefixtures("often", "blank")
def test_an_idle_guest_is_no_failure(lab: Lab, door: socket.socket, tmp_path: Path) -> None:
    """Although no port of it answers: an idle system still uses a little CPU."""
    plan = plan_with(lab, tmp_path, door, cpu_zero_for="10s")
    with guest(lab, IDLES), watching(plan) as here:
        here.wait_rounds(60)
        assert here.recover.calls == []


@pytest.mark.usefixtures("often", "blank")
def test_a_busy_guest_is_a_failure_only_when_no_port_answers(
    lab: Lab, door: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody saw it start, and it has used its CPU for seconds: it may still boot.
    monkeypatch.setattr(watch, "BOOT_GRACE", 1.0)
    # The machine may be busy too, so what counts as high is low here.
    plan = plan_with(lab, tmp_path, door, cpu_high_for="3s", cpu_high=20)
    door.listen(64)
    with guest(lab, SPINS), watching(plan) as here:
        here.wait_rounds(30)
        assert here.recover.calls == []
        door.close()
        wait_for(lambda: here.recover.calls, "the verdict", 120)
        cause, symptom, _ = here.recover.calls[0]
        assert (cause, symptom) == ("the primary hangs: it uses all its CPU, and no port answers", Symptom.CPU_HIGH)


@pytest.mark.usefixtures("often")
def test_killed_guests_are_noticed_at_once(lab: Lab, blank: int, door: socket.socket, tmp_path: Path) -> None:
    took: list[float] = []
    with watching(plan_with(lab, tmp_path, door)) as here:
        for number in range(1, 6):
            pid = libvirt.pid(BLANK, BLANK_UUID)
            assert pid is not None
            killed = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda number=number: len(here.recover.calls) >= number, "the failover's begin")  # type: ignore[misc]
            took.append(here.recover.calls[-1][2] - killed)
            machine.create_blank(BLANK, BLANK_UUID)
            here.wait_rounds(1)
    log.info("SIGKILL to failover: median %.3f s of %s", statistics.median(took), took)
    assert len(here.recover.calls) == 5


def test_a_hypervisor_that_is_silent_is_ended_by_its_fence_command(lab: Lab, blank: int, tmp_path: Path) -> None:
    plan = lab.other_plan(tmp_path)
    runs = tmp_path / "runs"
    script = f"echo run >> {runs}; kill -9 {blank}; echo Chassis Power is off"
    data = yaml.safe_load(plan.read_text())
    data["detection"]["host_silent_for"] = "2s"
    data["hypervisors"]["hv1"] = {
        "uri": f"qemu:///system?socket={tmp_path}/none",
        "fence": {"command": ["sh", "-c", script], "timeout": "30s"},
    }
    plan.write_text(yaml.safe_dump(data))
    Journal(tmp_path / "state/journal.db").saw_running("web", time.time())
    watcher = Watcher(lab, plan, tmp_path / "watch.log")
    try:
        wait_for(lambda: watcher.says("epoch 1: done: web is served by its standby"), "the failover", 120)
    finally:
        watcher.process.terminate()
        watcher.process.wait(timeout=60)
    assert watcher.says("hypervisor hv1 does not answer, and no port of the primary answers")
    shown = lab.vcrecovery("history", "web", plan=plan).stdout
    assert "hv1 is off: Chassis Power is off" in shown
    assert runs.read_text() == "run\n"
    entry = json.loads(lab.vcrecovery("status", "--json", plan=plan).stdout)["services"][0]
    assert entry["cools_until"] is not None


def test_a_silent_hypervisor_without_a_fence_command_is_refused_once(lab: Lab, blank: int, tmp_path: Path) -> None:
    plan = lab.other_plan(tmp_path)
    data = yaml.safe_load(plan.read_text())
    data["detection"]["host_silent_for"] = "2s"
    data["hypervisors"]["hv1"] = {"uri": f"qemu:///system?socket={tmp_path}/none"}
    plan.write_text(yaml.safe_dump(data))
    Journal(tmp_path / "state/journal.db").saw_running("web", time.time())
    watcher = Watcher(lab, plan, tmp_path / "watch.log")
    try:
        wait_for(lambda: watcher.says("web: no failover: web cannot be fenced"), "the refusal")
        until = time.monotonic() + 12
        # That it is not tried again is what is under test, so some time has to pass: two more rounds of questions.
        wait_for(lambda: time.monotonic() >= until, "two rounds")
    finally:
        watcher.process.terminate()
        watcher.process.wait(timeout=60)
    assert len(episodes(lab, plan)) == 1
    assert watcher.says("--primary-is-down web")
    assert Path(f"/proc/{blank}").exists()
