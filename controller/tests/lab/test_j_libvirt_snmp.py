"""libvirt-snmp itself, and the unit that runs it.

The real program is in no distribution: with VCRECOVERY_LIBVIRT_SNMP the folder of its source, it is built and tested.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest

from relay_bench.agents import AUTH, PRIVACY, USER, client_environment
from relay_bench.program import SERVICE_UUID, Program, plan_of
from relay_bench.recorder import Recorder
from vcrecovery.plan.monitoring import COPY_LIVES
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.private_libvirt import PrivateLibvirt
from vcrecovery_lab.run import run

from .waiting import wait_for

pytestmark = pytest.mark.lab

SOURCE = os.environ.get("VCRECOVERY_LIBVIRT_SNMP", "")
HYPERVISOR = "127.0.2.1"
SLOW = 120.0
STATE, CPU = f"vcr.state[{SERVICE_UUID}]", f"vcr.cpu[{SERVICE_UUID}]"


@pytest.fixture(scope="module")
def libvirt() -> Iterator[PrivateLibvirt]:
    daemon = PrivateLibvirt()
    try:
        daemon.start()
        daemon.make("web-vm", SERVICE_UUID)
        yield daemon
    finally:
        daemon.close()


def start_of_the_unit(*argv: str) -> list[str]:
    """The command of the unit, as systemd would run it."""
    template = jinja2.Template((CHECKOUT / "templates/vcrecovery-libvirt-snmp.service.j2").read_text())
    unit = template.render(hypervisor_libvirt_snmp_argv=argv)
    (line,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    shell, option, rest = line.removeprefix("ExecStart=").split(" ", 2)
    script, words = rest.removeprefix("'").split("' ", 1)
    return [shell, option, script.replace("$$", "$"), *words.split()]


class Unit:
    """What the unit runs, started again whenever it ends."""

    def __init__(self, libvirt: PrivateLibvirt, *argv: str, env: dict[str, str] | None = None) -> None:
        self._argv = start_of_the_unit(*argv)
        self._env = {**os.environ, "LIBVIRT_DEFAULT_URI": libvirt.uri, **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._argv, env=self._env, start_new_session=True, stdout=subprocess.DEVNULL)

    def has_virsh(self) -> bool:
        assert self._process is not None
        words = ["pgrep", "-g", str(self._process.pid), "virsh"]
        return run(words, timeout=10, check=False).returncode == 0

    def wait(self) -> int:
        assert self._process is not None
        return self._process.wait(timeout=SLOW)

    def stop(self) -> None:
        """All of its control group, as systemd does."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def test_the_unit_ends_what_has_lost_its_libvirt(libvirt: PrivateLibvirt) -> None:
    unit = Unit(libvirt, "/bin/sleep", "1000")
    unit.start()
    try:
        wait_for(unit.has_virsh, "virsh")
        libvirt.kill()
        assert unit.wait() == -signal.SIGKILL
        unit.start()
        assert unit.wait() == -signal.SIGKILL, "without libvirt it is tried again"
    finally:
        unit.stop()
        libvirt.start()


# -- the real program --------------------------------------------------------------------------------------------------

needs_source = pytest.mark.skipif(
    not SOURCE, reason="VCRECOVERY_LIBVIRT_SNMP names no checkout of libvirt-snmp's source"
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("libvirt-snmp") / "source"
    shutil.copytree(SOURCE, folder)
    if not (folder / "src/libvirtMib_subagent").exists():
        (folder / "build-aux").mkdir(exist_ok=True)
        for name in ("ChangeLog", "AUTHORS"):
            (folder / name).touch()
        run(["sh", "-ec", 'cd "$0"; autoreconf -if; ./configure; make', folder], timeout=300)
    return folder / "src/libvirtMib_subagent"


class RealAgent:
    """snmpd with the role's configuration, and libvirt-snmp as the role's unit runs it."""

    name, address, kind = "hv1", HYPERVISOR, "libvirt-snmp"

    def __init__(
        self, folder: Path, program: Path, libvirt: PrivateLibvirt, destinations: list[tuple[str, int]]
    ) -> None:
        folder.mkdir()
        self.port = free_port(HYPERVISOR)
        template = (CHECKOUT / "roles/hypervisor/templates/snmpd.conf.j2").read_text()
        configuration = jinja2.Template(template, undefined=jinja2.StrictUndefined, trim_blocks=True).render(
            ansible_managed="",
            hypervisor_snmp_listen=f"udp:{HYPERVISOR}:{self.port}",
            hypervisor_snmp_base=".1.3.6.1.4.1.36957.1",
            hypervisor_snmp_user=USER,
            hypervisor_snmp_next_user=f"{USER}next",
            hypervisor_snmp_sender=USER,
            hypervisor_snmp_auth=AUTH,
            hypervisor_snmp_privacy=PRIVACY,
            hypervisor_snmp_agent="libvirt-snmp",
            hypervisor_snmp_destinations=[{"address": address, "port": port} for address, port in destinations],
        )
        user = f'createUser {USER} SHA-256 "{AUTH}" AES "{PRIVACY}"'
        more = f"agentXSocket {folder}/agentx\n[snmp] clientaddr {HYPERVISOR}\n{user}\n"
        (folder / "snmpd.conf").write_text(configuration + more)
        self._env = client_environment(folder / "agent")
        self._command = [
            "snmpd",
            "-f",
            "-C",
            "-c",
            str(folder / "snmpd.conf"),
            "-Lf",
            str(folder / "log"),
            "-I",
            "-smux",
        ]
        self.unit = Unit(libvirt, str(program), "-f", "-L", "-x", f"{folder}/agentx", env=self._env)

    def start(self) -> None:
        self._snmpd = subprocess.Popen(self._command, env=self._env)
        self.unit.start()

    def stop(self) -> None:
        self.unit.stop()
        self._snmpd.terminate()
        self._snmpd.wait(timeout=30)


@needs_source
def test_the_real_libvirt_snmp(libvirt: PrivateLibvirt, program: Path, tmp_path: Path) -> None:
    """Values at each poll, notifications at once while another relay is away, and its way back after libvirtd's end."""
    recorder = Recorder("127.0.1.8", free_port("127.0.1.8"))
    relay_port = free_port("127.0.1.9")
    agent = RealAgent(tmp_path / "agent", program, libvirt, [("127.0.1.9", 9), ("127.0.1.9", relay_port)])
    plan = plan_of(tmp_path, [agent], recorder, 5.0, v2c=False)  # type: ignore[list-item]
    plan["snmp"]["traps"]["port"] = relay_port
    relay = Program(tmp_path, plan)
    recorder.start()
    agent.start()
    relay.start()
    try:

        def beats() -> int:
            return len(recorder.values("hv1", "vcr.heartbeat"))

        recorder.wait_for(lambda: recorder.values("hv1", STATE), "the table")
        begun = beats()
        truth = [(time.time(), cpu_time(libvirt))]
        while beats() < begun + 6:
            truth.append((time.time(), cpu_time(libvirt)))
            time.sleep(0.05)
        values = recorder.values("hv1", CPU)[-4:]
        clocks = [value.clock for value in recorder.values("hv1", "vcr.heartbeat")][-5:]
        assert len(values) == 4
        for value, since in zip(values, clocks, strict=False):
            assert float(value.text) == pytest.approx(load(truth, since, value.clock), abs=3)
            assert value.clock - since > COPY_LIVES
        for word, state in (("suspend", "paused"), ("resume", "running")) * 2:
            count, asked = len(recorder.values("hv1", STATE)), time.time()
            libvirt.virsh(word, "web-vm")
            recorder.wait_for(lambda: len(recorder.values("hv1", STATE)) > count, state)  # noqa: B023
            assert recorder.values("hv1", STATE)[-1].text == state
            assert recorder.values("hv1", STATE)[-1].clock - asked < 2
        libvirt.kill()
        agent.unit.wait()
        wait_for(lambda: "has lost libvirt" in relay.log.read_text(), "its silence", SLOW)
        silent = beats()
        libvirt.start()
        agent.unit.start()
        recorder.wait_for(lambda: beats() > silent, "its return")
        assert recorder.values("hv1", STATE)[-1].text == "running"
        relay.stop()
        rejected = {reason: count for reason, count in relay.counters().items() if count}
        assert rejected.keys() <= {"taken", "again", "of_snmpd", "engine"}
    finally:
        relay.stop()
        agent.stop()
        recorder.stop()


def cpu_time(libvirt: PrivateLibvirt) -> int:
    found = libvirt.virsh("domstats", "--cpu-total", SERVICE_UUID)
    return int(found.split("cpu.time=")[1].split()[0])


def load(truth: list[tuple[float, int]], begin: float, end: float) -> float:
    """Per cent between two times, from the nearest looks."""
    first, last = (min(truth, key=lambda look: abs(look[0] - at)) for at in (begin, end))
    return (last[1] - first[1]) / 1e7 / (last[0] - first[0])
