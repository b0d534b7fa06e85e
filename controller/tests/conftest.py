"""A small plan that is right, and services of it in trouble. Simulated sites do not outlive their test."""

from __future__ import annotations

import os
import random
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from simulated.scheduler import START as SIMULATED_START
from simulated.site import Site
from vcrecovery_lab.recipe import KEPT_BYTECODE

pytest.register_assert_rewrite("contracts")

# A machine that has too much to do breaks no promise.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
# Hypothesis also draws numbers that stand in whatever code is loaded: after other tests a seed would walk another way.
assert hasattr(providers, "_get_local_constants")
providers._get_local_constants = Constants

# Hundreds of tests start the program: also where no byte code may lie beside it, it is compiled once.
sys.dont_write_bytecode = False
sys.pycache_prefix = str(Path(__file__).resolve().parents[2] / ".cache/bytecode")
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(KEPT_BYTECODE), os.environ.get("PYTHONPATH")]))

#: Where the machine has one, a file system in its memory.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108  a folder of its own is made in it
START = 1_790_000_000.0
PLAN = """\
version: 1
state_dir: {folder}/state
hypervisors:
  hv1: {{uri: "qemu:///system?socket={folder}/no-libvirt"}}
secondaries:
  sec1:
    lxd: {folder}/no-lxd.socket
    network: {{bridge: vcr0, address: 10.20.0.1/24}}
    receiver: {{address: 10.10.0.1}}
dns:
  servers:
    ns1: {{address: 127.0.0.1, port: 9}}
  keys:
    key1: {{name: vcr.key, secret_file: {folder}/secret}}
  zones:
    example.test: {{servers: [ns1], key: key1}}
services:
  web:
    primary: {{hypervisor: hv1, uuid: 6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001, address: 10.10.0.10}}
    standby: {{secondary: sec1, address: 10.20.0.10}}
    ports: [80, {{tcp: 443}}]
    dns:
      - {{name: www.example.test, zone: example.test}}
    max_staleness: 2m
"""


#: Who makes walks anew each time, and the seed of those; all workers have the same.
WALKS = ("test_promises.py", "test_promises_of_a_spare.py")
NEW_SEED = os.environ.setdefault("VCRECOVERY_SEED", str(random.SystemRandom().randrange(2**32)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    ended = [*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")]
    walked = [name for name in WALKS if any(f"{name}::" in report.nodeid for report in ended)]
    if walked:
        said = " and ".join(walked)
        terminalreporter.write_line(f"Some walks of {said} were new: VCRECOVERY_SEED={NEW_SEED} repeats them")
    if any("test_w_report_page.py" in report.nodeid for report in ended):
        kept = Path(__file__).resolve().parents[2] / ".cache/screenshots"
        terminalreporter.write_line(f"The report as a browser shows it: {kept}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of several workers each begins with one of the longest: each gets a run of neighbours."""
    workers: int = getattr(config, "workerinput", {}).get("workercount", 1)
    longest = [item for item in items if "begins_first" in item.keywords]
    others = [item for item in items if "begins_first" not in item.keywords]
    share = len(others) // workers
    found: list[pytest.Item] = []
    for number in range(workers):
        end = len(others) if number == workers - 1 else (number + 1) * share
        found += longest[number::workers] + others[number * share : end]
    items[:] = found


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a user reads has the local time."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture(autouse=True)
def simulated_sites_are_closed() -> Iterator[None]:
    yield
    for site in list(Site.left_open):
        site.close()


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """For what loses no power in the test: a journal there waits for no disk."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    file = tmp_path / "plan.yml"
    file.write_text(PLAN.format(folder=tmp_path))
    return file


@pytest.fixture
def local_plan(plan_file: Path) -> Path:
    """The same plan on the loopback, with ports that nobody has."""
    text = plan_file.read_text().replace("10.10.0.10", "127.0.1.10").replace("10.20.0.", "127.0.0.")
    plan_file.write_text(text.replace("10.10.0.1}", "127.0.2.1}").replace("[80, {tcp: 443}]", "[1, {tcp: 2}]"))
    return plan_file


def _after_a_crash(plan: Path, kill_at: str | None = None) -> None:
    """The plan's journal is that of a watcher that saw its primary crash."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as scratch:
        site = Site(Path(scratch))
        site.scheduler.set_by = START - SIMULATED_START
        site.watch(3)
        site.crash("web")
        site.kill_at = kill_at
        site.watch(3, again=False)
        site.kill_watcher()
        shutil.copytree(Path(scratch) / "state", plan.parent / "state")


@pytest.fixture
def failed_over(local_plan: Path) -> Path:
    _after_a_crash(local_plan)
    return local_plan


@pytest.fixture
def stopped(local_plan: Path) -> Path:
    """A watcher that was killed in the start."""
    _after_a_crash(local_plan, "before start")
    return local_plan


@pytest.fixture
def hanging(local_plan: Path) -> Iterator[Path]:
    """libvirtd, LXD and DNS take connections, and never answer."""
    folder = local_plan.parent
    with (
        socket.socket(socket.AF_UNIX) as libvirtd,
        socket.socket(socket.AF_UNIX) as lxd,
        socket.create_server(("127.0.0.1", 0)) as dns,
    ):
        libvirtd.bind(str(folder / "no-libvirt"))
        lxd.bind(str(folder / "no-lxd.socket"))
        libvirtd.listen(50)
        lxd.listen(50)
        local_plan.write_text(local_plan.read_text().replace("port: 9}", f"port: {dns.getsockname()[1]}}}"))
        yield local_plan
