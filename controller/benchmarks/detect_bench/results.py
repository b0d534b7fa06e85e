"""All that one benchmark found out, and what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exclude_bench.target import Target
from relay_bench.results import section

from .scale import Scale
from .stage_alarms import Alarm
from .stage_kills import Delays, spread

#: Seconds from the kill to the failover, by each way.
LIMITS = {"own watcher": 0.3, "Zabbix 7.0": 0.5, "Zabbix 6.0": 4.0}


@dataclass(frozen=True)
class Results:
    scale: Scale
    load: float
    """Of the machine at the start: processes that wanted to run."""
    kills: list[Delays]
    doubts: list[Delays]
    alarms: list[Alarm]
    targets: list[Target]


def targets(kills: Sequence[Delays], alarms: Sequence[Alarm]) -> list[Target]:
    found = [
        Target(f"QEMU killed, failover begins, {x.way}: median", x.median, LIMITS[x.way], "s", at_most=True)
        for x in kills
    ]
    false = sum(alarm.failovers for alarm in alarms)
    return [*found, Target("failovers of what is no failure", float(false), 0.0, "", at_most=True)]


def text(results: Results) -> str:
    """Everything that was measured, and a verdict for each target."""
    scale = results.scale
    rows = []
    for delays in results.kills:
        rows.append((delays.way, spread(delays.whole)))
        rows += [(f"  {stage}", spread(values)) for stage, values in delays.stages.items()]
    title = f"SIGKILL of QEMU, {scale.kills} times each (load of the machine before: {results.load:.1f})"
    sections = [section(title, ("to the failover's first step", "median (lowest to highest)"), rows)]
    rows = [(delays.way, ", ".join(f"{seconds:.1f}" for seconds in delays.whole)) for delays in results.doubts]
    title = f"Hang and overload, where {scale.window:g} s of it are asked for"
    sections.append(section(title, ("", "seconds"), rows))
    alarms = [(alarm.what, f"{alarm.seconds:.0f}", str(alarm.failovers)) for alarm in results.alarms]
    sections.append(section("What is no failure, through Zabbix 7.0", ("", "seconds", "failovers"), alarms))
    verdicts = [
        (x.name, x.shown, f"{'<=' if x.at_most else '>='} {x.limit:g} {x.unit}", x.verdict) for x in results.targets
    ]
    sections.append(section("Targets", ("target", "measured", "limit", ""), verdicts))
    return "\n".join(sections)
