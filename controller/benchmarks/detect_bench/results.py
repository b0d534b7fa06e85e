"""All that one benchmark found out, and what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from exclude_bench.target import Target
from relay_bench.results import section, verdicts

from .scale import Scale
from .stage_alarms import Alarm
from .stage_kills import OWN, Delays, spread

#: Seconds from the kill to the failover, by each way.
LIMITS = {OWN: 0.3, "Zabbix 7.0": 0.5, "Zabbix 6.0": 4.0}
#: Seconds from the kill to the right answer through the service's name.
ANSWERED = 1.0


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
    for x in kills:
        if x.answered:
            what = f"QEMU killed, its name leads to the standby, which answers, {x.way}: median"
            found.append(Target(what, median(x.answered), ANSWERED, "s", at_most=True))
    return [*found, *(_false(way, alarms) for way in (OWN, "Zabbix 7.0"))]


def _false(way: str, alarms: Sequence[Alarm]) -> Target:
    """Void without a count: a way at which nobody looked has no false alarms, but no good name either."""
    counts = [alarm.failovers[way] for alarm in alarms if way in alarm.failovers]
    measured = float(sum(counts)) if counts else None
    name = f"failovers of what is no failure, {way}"
    return Target(name, measured, 0.0, "", at_most=True, void_because="nobody has counted", must=True)


def text(results: Results) -> str:
    """Everything that was measured, and a verdict for each target."""
    scale = results.scale
    rows = []
    for delays in results.kills:
        rows.append((delays.way, spread(delays.whole)))
        rows += [(f"  {stage}", spread(values)) for stage, values in delays.stages.items()]
        if delays.answered:
            rows.append(("  to the answer through the name, of a standby that starts at once", spread(delays.answered)))
    title = f"SIGKILL of QEMU, {scale.kills} times each (load of the machine before: {results.load:.1f})"
    sections = [section(title, ("to the failover's first step", "median (lowest to highest)"), rows)]
    doubts = [(delays.way, _listed(delays.whole), _listed(delays.answered)) for delays in results.doubts]
    title = f"Hang and overload, where {scale.window:g} s of it are asked for, seconds"
    sections.append(section(title, ("", "to the failover's first step", "to the answer through the name"), doubts))
    ways = list(results.alarms[0].failovers) if results.alarms else []
    alarms = [(x.what, f"{x.seconds:.0f}", *(str(x.failovers[way]) for way in ways)) for x in results.alarms]
    sections.append(section("What is no failure, and the failovers that it began", ("", "seconds", *ways), alarms))
    sections.append(verdicts(results.targets))
    return "\n".join(sections)


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{seconds:.1f}" for seconds in values)
