"""There and back again: by a switchover or after a crash, with a client that writes all the time."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery_lab import rows
from vcrecovery_lab.demo import controller
from vcrecovery_lab.image import DEFAULT_CACHE, Image, ensure_image
from vcrecovery_lab.layout import SERVICE, Layout
from vcrecovery_lab.machine import qemu_pid, ssh
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.progress import stderr_progress
from vcrecovery_lab.run import LabError

#: Rows that each side has to take before it loses its service, and seconds for whatever is waited for.
_ROWS, _PATIENCE = 50, 600.0


@dataclass(frozen=True)
class Move:
    """One way. `gap`: seconds from the last row of the old side to the first of the new one. `steps`: seconds of each.

    `lost`: rows that were acknowledged and are not there; of a crash some may be.
    """

    verb: str
    gap: float
    steps: dict[str, float]
    lost: int


@dataclass(frozen=True)
class Bench:
    """The lab, as it was left by `make lab-up`."""

    layout: Layout
    image: Image

    def inside_vm(self, command: str) -> str:
        return ssh(self.layout.primary(), self.image, self.layout.machines, ["sh", "-c", command], timeout=120).stdout

    @property
    def rows_of_the_standby(self) -> set[int]:
        rootfs = LxdServer("sec1", self.layout.lxd_socket, SystemClock()).rootfs(self.layout.pool, SERVICE)
        try:
            # Beside those that rsync is just writing.
            return {int(row.name) for row in (rootfs / "srv/rows").iterdir() if row.name.isdigit()}
        except FileNotFoundError:
            return set()  # none has arrived yet

    def newest(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(controller(self.layout, "history", SERVICE, "--limit", "1", "--json"))
        return dict(found["episodes"][-1])

    def status(self) -> dict[str, Any]:
        (entry,) = json.loads(controller(self.layout, "status", "--json"))["services"]
        return dict(entry)


def the_bench(layout: Layout) -> Bench:
    bench = Bench(layout, ensure_image(DEFAULT_CACHE, stderr_progress))
    if bench.status()["serves"] != "primary":
        raise LabError("the lab's service is not served by its VM: `make lab-down lab-up`")
    return bench


def wait_for(condition: Callable[[], object], what: str) -> None:
    wait_until(condition, what, _PATIENCE, poll=0.2)


def is_protected(bench: Bench) -> bool:
    entry = bench.status()
    age = entry["standby"]["age"]
    return entry["serves"] == "primary" and entry["verdict"] == "healthy" and age is not None and age < 30


def rounds(bench: Bench, count: int, crashes: int) -> list[Move]:
    """`count` rounds, of which the first `crashes` begin with SIGKILL to QEMU."""
    found: list[Move] = []
    bench.inside_vm(rows.INSTALL)
    try:
        for number in range(count):
            wait_for(lambda: is_protected(bench), "a protected service")
            with stderr_progress(f"round {number + 1} of {count}, there"):
                found.append(_there(bench, crash=number < crashes))
            with stderr_progress(f"round {number + 1} of {count}, back"):
                found.append(_back(bench))
    finally:
        bench.inside_vm(rows.REMOVE)
    return found


def _there(bench: Bench, *, crash: bool) -> Move:
    vm = bench.layout.primary()
    with rows.Client(bench.layout) as client:
        wait_for(lambda: len(client.by(vm.name)) > _ROWS, "rows in the VM")
        if crash:
            pid = qemu_pid(vm)
            if pid is None:
                raise LabError("the VM does not run")
            os.kill(pid, signal.SIGKILL)
        else:
            controller(bench.layout, "switchover", SERVICE, timeout=_PATIENCE)
        wait_for(lambda: len(client.by(SERVICE)) > _ROWS, "rows in the standby")
        wait_for(lambda: bench.newest()["outcome"] == "done", "the end of the failover")
    lost = len(client.acknowledged.keys() - bench.rows_of_the_standby)
    return _move("failover" if crash else "switchover", bench, client.first[SERVICE] - client.last[vm.name], lost)


def _back(bench: Bench) -> Move:
    vm = bench.layout.primary()
    with rows.Client(bench.layout) as client:
        wait_for(lambda: len(client.by(SERVICE)) > _ROWS, "rows in the standby")
        controller(bench.layout, "failback", SERVICE, timeout=_PATIENCE)
        wait_for(lambda: len(client.by(vm.name)) > _ROWS, "rows in the VM")
    there = {int(name) for name in bench.inside_vm("ls /srv/rows").split()}
    return _move(
        "failback", bench, client.first[vm.name] - client.last[SERVICE], len(client.acknowledged.keys() - there)
    )


def _move(verb: str, bench: Bench, gap: float, lost: int) -> Move:
    steps: dict[str, float] = {}
    for step in bench.newest()["steps"]:
        if step["ok"]:
            steps[step["step"]] = step["ended_at"] - step["begun_at"]
    return Move(verb, gap, steps, lost)
