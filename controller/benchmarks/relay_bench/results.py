"""All that one benchmark found out, and what was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from exclude_bench.target import Target

from .scale import Scale
from .stage_notifications import Latency
from .stage_polling import PollingCost, Values

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
        *(target for values in polling.values for target in _of_values(values)),
        *(
            Target(f"notification to Zabbix, {x.what}: median", x.median, LATENCY_MS, "ms", at_most=True)
            for x in latencies
        ),
    ]


def _of_values(values: Values) -> list[Target]:
    """A value that is missing may be the machine's fault. A wrong one is not, and would do harm: overload, hangs."""
    share = values.right / values.expected * 100 if values.expected else None
    wrong = float(values.came - values.right) if values.came else None
    of = f"of {values.kind}"
    return [
        Target(f"polls {of} with a right value", share, RIGHT, "%", at_most=False, void_because="no poll was seen"),
        Target(f"wrong values {of}", wrong, 0.0, "", at_most=True, void_because="no value came", must=True),
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
    sections.append(verdicts(results.targets))
    return "\n".join(sections)


def section(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table under its title."""
    lines = [heads, *rows] if any(heads) else list(rows)
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    body = ["  " + "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([title, *body, ""])


def verdicts(targets: Iterable[Target], title: str = "Targets") -> str:
    """Each figure beside its limit."""
    rows = [(x.name, x.shown, x.limit_shown, x.verdict) for x in targets]
    return section(title, ("target", "measured", "limit", ""), rows)
