"""`python -m detect_bench`: measures everything and prints it; see --help."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from exclude_bench.command import Benchmark
from vcrecovery_lab.detection.chain import Chain, chain
from vcrecovery_lab.private_libvirt import PrivateLibvirt
from vcrecovery_lab.progress import stderr_progress
from vcrecovery_lab.zabbix import zabbix

from .results import Results, targets, text
from .scale import FULL, QUICK, Scale
from .site import UUID, VM, Door, Site, empty_lxd, plan_of, watched
from .stage_alarms import Alarm, measure_alarms
from .stage_hangs import measure_hangs, measure_hangs_by_zabbix, measure_overload
from .stage_kills import Delays, measure_own, measure_zabbix

#: As the plan's default.
POLL = "5s"


@contextmanager
def _libvirt() -> Iterator[PrivateLibvirt]:
    daemon = PrivateLibvirt()
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.close()


@contextmanager
def _chained(
    folder: Path, version: str, libvirt: PrivateLibvirt, door: Door, lxd: Path, scale: Scale
) -> Iterator[Chain]:
    # `nobody` has to reach it, and the names of its sockets must be short.
    folder.mkdir(mode=0o755)
    window = {"cpu_zero_for": f"{scale.window:g}s", "cpu_high_for": f"{scale.window:g}s"}
    plan = plan_of(door.port, lxd, embedded=False, **window)
    with zabbix(version, folder / "zabbix", progress=stderr_progress) as stack:
        (folder / "chain").mkdir(mode=0o755)
        with chain(stack, folder / "chain", libvirt.uri, plan, POLL) as made:
            yield made


def _measured(folder: Path, quick: bool, _seed: int) -> Results:
    scale = QUICK if quick else FULL
    load = os.getloadavg()[0]
    window = f"{scale.window:g}s"
    folder.chmod(0o755)
    doubts: list[Delays] = []
    alarms: list[Alarm] = []
    with ExitStack() as ends:
        libvirt = ends.enter_context(_libvirt())
        door = Door()
        ends.callback(door.close)
        lxd = ends.enter_context(empty_lxd(folder / "lxd.socket"))
        for name in ("own", "hang"):
            (folder / name).mkdir()
        with stderr_progress("own watcher"):
            kills = [measure_own(folder / "own", libvirt, scale.kills, scale.window)]
        with stderr_progress("hangs"):
            doubts.append(measure_hangs(folder / "hang", libvirt, scale.hangs, scale.window))
        libvirt.make(VM, UUID)
        for version in ("6.0", "7.0"):
            with _chained(folder / version, version, libvirt, door, lxd, scale) as made:
                site = Site(libvirt, made.state_dir)
                with stderr_progress(f"Zabbix {version}"):
                    kills.append(measure_zabbix(site, made, scale.kills))
                if version == "7.0":
                    other = ends.enter_context(_libvirt())
                    with stderr_progress("hangs by Zabbix"):
                        doubts.append(measure_hangs_by_zabbix(site, made, scale.hangs))
                    plan = plan_of(door.port, lxd, cpu_zero_for=window, cpu_high_for=window)
                    with (
                        stderr_progress("idle guest, operators, restarts"),
                        watched(folder / "alarms", libvirt, plan) as own,
                    ):
                        alarms = measure_alarms(site, made, own, other, scale.idle)
                    with stderr_progress("overload"):
                        doubts.append(measure_overload(site, made, door))
    return Results(scale, load, kills, doubts, alarms, targets(kills, alarms))


def main() -> int:
    return Benchmark(
        name="detect_bench",
        about="How soon a failover begins, and what is taken for a failure wrongly.",
        seed_of="nothing: nothing is drawn by lot here",
        measure=_measured,
        text=text,
        work_help="for Zabbix's files",
    ).main()


if __name__ == "__main__":
    sys.exit(main())
