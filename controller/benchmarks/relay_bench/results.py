"""All that one benchmark found out, and what was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from exclude_bench.targets import Target

from .scale import Scale
from .stage_notifications import Latency
from .stage_polling import PollingCost

CORES, LATENCY_MS, RIGHT = 0.5, 10.0, 100.0


@dataclass(frozen=True)
class Results:
    scale: Scale
    load: float
    """Of the machine at the start: processes that wanted to run."""
    polling: PollingCost
    latencies: list[Latency]
    targets: list[Target]


def targets(scale: Scale, polling: PollingCost, latencies: Sequence[Latency]) -> list[Target]:
    what = f"{polling.guests:,} guests on {scale.hypervisors} hypervisors, every {scale.poll:g} s"
    return [
        Target(f"{what}: CPU", polling.cores, CORES, "cores", at_most=True),
        *(
            Target(f"polls of {x.kind} with a right value", x.right / x.expected * 100, RIGHT, "%", at_most=False)
            for x in polling.values
        ),
        *(
            Target(f"notification to Zabbix, {x.what}: median", x.median, LATENCY_MS, "ms", at_most=True)
            for x in latencies
        ),
    ]


def text(results: Results) -> str:
    """Everything that was measured, and a verdict for each target."""
    polling = results.polling
    rows = [
        ("CPU, cores", f"{polling.cores:.3f}"),
        ("memory, PSS MB", f"{polling.memory.pss / 1e6:.0f}"),
        *(
            (f"values of utilisation, {x.kind}", f"{x.came:,} of {x.expected:,}, {x.right:,} of them right")
            for x in polling.values
        ),
        ("longest time between two of a guest, s", f"{polling.longest_gap:.2f}"),
    ]
    title = (
        f"{polling.guests:,} guests on {results.scale.hypervisors} hypervisors (net-snmp's snmpd, SNMPv3; every second "
        f"one as libvirt-snmp), read every {results.scale.poll:g} s, libvirt-snmp every 6 s at most, for "
        f"{polling.seconds:.0f} s (load of the machine before: {results.load:.1f})"
    )
    sections = [section(title, ("", ""), rows)]
    rows_of_latency = [
        (
            x.what,
            str(x.count),
            f"{x.median:.1f}",
            f"{x.p99:.1f}",
            f"{x.high:.1f}",
            f"{x.cores:.3f}",
            f"{x.pss / 1e6:.0f}",
        )
        for x in results.latencies
    ]
    heads = ("", "notifications", "median ms", "p99 ms", "max ms", "relay's cores", "PSS MB")
    sections.append(section("Notification sent to value at Zabbix", heads, rows_of_latency))
    verdicts = [
        (x.name, x.shown, f"{'<=' if x.at_most else '>='} {x.limit:g} {x.unit}", x.verdict) for x in results.targets
    ]
    sections.append(section("Targets", ("target", "measured", "limit", ""), verdicts))
    return "\n".join(sections)


def section(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table under its title."""
    lines = [heads, *rows] if any(heads) else list(rows)
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    body = ["  " + "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([title, *body, ""])
