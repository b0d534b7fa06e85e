"""The results as tables to read."""

from __future__ import annotations

from exclude_bench.measure import Spread
from relay_bench.results import section, verdicts

from .results import Results


def text(results: Results) -> str:
    """Everything that was measured, and a verdict for each target."""
    return "\n".join(
        [_writes(results), _passes(results), _cpu(results), _memory(results), _parts(results), _targets(results)]
    )


def _writes(results: Results) -> str:
    rows = [
        (x.what, f"{x.writes:,}", f"{x.median:.2f}", f"{x.p99:.2f}", f"{x.high:.2f}") for x in results.writes.latencies
    ]
    title = (
        f"Write to visible, {results.scale.rate:g} writes/s in a tree of {results.scale.files:,} files "
        f"in {results.folders:,} folders (load of the machine before: {results.load:.1f})"
    )
    return section(title, ("configuration", "writes", "median s", "p99 s", "max s"), rows)


def _passes(results: Results) -> str:
    rows = [(x.scenario, x.kind, str(x.wall.runs), _spread(x.wall), _spread(x.cpu)) for x in results.passes.costs]
    rows += [(name, "ratio of wall times", str(x.runs), _spread(x), "") for name, x in results.passes.ratios.items()]
    title = (
        f"Passes over a whole tree: first sync of {results.scale.first_files:,} files, "
        f"nothing changed in {results.scale.files:,}"
    )
    return section(title, ("pass", "by", "runs", "wall s", "CPU s in the VM"), rows)


def _cpu(results: Results) -> str:
    rows = [
        (x.what, f"{x.total:.2f}", f"{x.lsyncd:.2f}", f"{x.heartbeat:.2f}", f"{x.ssh_master:.2f}")
        for x in results.writes.cpu
    ]
    heads = ("", "all", "lsyncd, rsync, ssh", "heartbeat", "ssh master")
    return section("CPU seconds in a minute, in the VM", heads, rows)


def _memory(results: Results) -> str:
    rows = [(x.name, f"{x.rss / 1e6:.1f}", f"{x.pss / 1e6:.1f}") for x in [*results.writes.memory, results.passes.peak]]
    return section("Memory in the VM", ("", "RSS MB", "PSS MB"), rows)


def _parts(results: Results) -> str:
    rows = [(x.what, _spread(x.wall)) for x in results.parts]
    return section("What a transfer's time goes into (lsyncd waits for its delay before)", ("", "wall s"), rows)


def _targets(results: Results) -> str:
    return verdicts(results.targets)


def _spread(value: Spread) -> str:
    return f"{value.median:.3f} ({value.low:.3f}..{value.high:.3f})"
