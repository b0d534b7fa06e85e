"""One run: so many services are asked for a while, then some of them cease to answer."""

from __future__ import annotations

import logging
import os
import random
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from vcrecovery.core.health import Health
from vcrecovery.detect.health_watch import HealthWatch
from vcrecovery.detect.rounds import Rounds
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.load import load_plan

from .answerer import address_of

#: Seconds before anything is measured: all have been asked twice.
WARM = 10.0
#: Seconds for an outage to be noticed at all.
PATIENCE = 30.0
UUID = "6f1c2a54-7c0d-4a7e-9a51-0d3b{:08x}"


@dataclass(frozen=True)
class Scale:
    """Durations are seconds."""

    services: int
    seconds: float
    outages: int
    rounds: int


FULL = Scale(services=1000, seconds=60.0, outages=40, rounds=10)
QUICK = Scale(services=100, seconds=5.0, outages=4, rounds=2)


@dataclass(frozen=True)
class Measured:
    """`cores`: of one processor. `noticed`: seconds from each outage to its verdict."""

    cores: float
    answers_per_second: float
    threads: int
    descriptors: int
    memory_mb: float
    noticed: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.noticed)


def _plan(scale: Scale, port: int, folder: Path) -> Any:
    services = {
        f"s{number}": {
            "primary": {"hypervisor": "hv1", "uuid": UUID.format(number), "address": address_of(number)},
            "standby": {"secondary": "sec1", "address": f"10.8.{number // 250 + 1}.{number % 250 + 1}"},
            "ports": [port],
        }
        for number in range(scale.services)
    }
    network = {"bridge": "br0", "address": "10.8.0.1/16"}
    return {
        "version": 1,
        "state_dir": str(folder / "state"),
        "hypervisors": {"hv1": {"uri": "test:///default"}},
        "secondaries": {"sec1": {"network": network, "receiver": {"address": "10.9.0.1"}}},
        "services": services,
    }


@contextmanager
def _answering(services: int) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-m", "health_bench.answerer", str(services)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


def measure(scale: Scale, folder: Path, seed: int) -> Measured:
    # What it says of each outage is not what is measured.
    logging.getLogger("vcrecovery").addHandler(logging.NullHandler())
    with _answering(scale.services) as answerer:
        assert answerer.stdout is not None  # noqa: S101  it was asked for
        file = folder / "plan.yml"
        file.write_text(yaml.safe_dump(_plan(scale, int(answerer.stdout.readline()), folder)))
        watch, stop = HealthWatch(Environment(load_plan(file)), Rounds()), threading.Event()
        thread = threading.Thread(target=watch.run, args=(stop,))
        thread.start()
        try:
            return _measure(scale, watch, answerer, random.Random(seed))
        finally:
            stop.set()
            thread.join()


def _measure(scale: Scale, watch: HealthWatch, answerer: subprocess.Popen[str], draw: random.Random) -> Measured:
    time.sleep(WARM)
    if not all(course.health is Health.ANSWERS for course in watch.courses.values()):
        raise OSError("not every service answers before anything is measured")
    begun, used, answers = time.monotonic(), _cpu(), _answers(watch)
    threads = descriptors = 0
    while time.monotonic() - begun < scale.seconds:
        time.sleep(0.25)
        threads = max(threads, threading.active_count())
        descriptors = max(descriptors, len(os.listdir("/proc/self/fd")))
    seconds = time.monotonic() - begun
    cores, rate = (_cpu() - used) / seconds, (_answers(watch) - answers) / seconds
    noticed = [_noticed(watch, answerer, number, draw) for number in range(scale.outages)]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Measured(cores, rate, threads, descriptors, memory, noticed)


def _noticed(watch: HealthWatch, answerer: subprocess.Popen[str], number: int, draw: random.Random) -> float:
    assert answerer.stdin is not None  # noqa: S101  it was asked for
    time.sleep(draw.uniform(0.0, 1.0))
    answerer.stdin.write(f"close {number}\n")
    answerer.stdin.flush()
    begun = time.monotonic()
    while watch.courses[f"s{number}"].health is not Health.DOWN:
        if time.monotonic() - begun > PATIENCE:
            raise OSError(f"an outage was not noticed within {PATIENCE:g} s")
        time.sleep(0.01)
    return time.monotonic() - begun


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _answers(watch: HealthWatch) -> int:
    return sum(latencies.count for latencies in watch.latencies.values())
