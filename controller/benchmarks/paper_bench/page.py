"""The page of the paper's figures, as Markdown. Pure: it is made of what was kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from exclude_bench.target import Target

from . import containers, costs, excludes, moves, recovery
from .benches import BENCHES, CONTAINERS, EXCLUDES
from .figure import Figure, Head, Row
from .kept import Kept

_HEAD = """\
# The paper's experiments

<!-- Written by `make paper`: change controller/benchmarks/paper_bench instead. -->

The experiments of the paper (section V) with this implementation, in the paper's order. `make paper` runs them again,
and writes this page. Where the paper's text has no figure, only its plot has one. Ours are medians, with the lowest and
the highest in brackets. A ratio is ours by what stands beside it, round by round, so that what else the machine does
meets both sides. Compare ratios with the paper's, not seconds: the machines differ.
"""


def figures(kept: Mapping[str, Kept | None]) -> list[Figure]:
    """In the paper's order."""
    found = {name: entry.found if entry else None for name, entry in kept.items()}

    def of(head: Head, make: Callable[[Any], Figure], results: Any) -> Figure:
        if not any(found[name] for name in head.benches):
            return Figure(head)
        try:
            return make(results)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            again = " ".join(f"--again {name}" for name in head.benches)
            said = f"{type(error).__name__}: {error}"
            return Figure(head, absent=f"The results are another version's ({said}): measure them anew with {again}.")

    return [
        of(recovery.HOT, recovery.hot, found),
        costs.hot(),
        of(recovery.COLD, recovery.cold, found),
        costs.cold(),
        of(excludes.LISTS, excludes.lists, found[EXCLUDES]),
        of(excludes.SYNCS, excludes.syncs, found[EXCLUDES]),
        of(containers.UNIXBENCH_HEAD, containers.unixbench, found[CONTAINERS]),
        of(containers.FIO_HEAD, containers.files, found[CONTAINERS]),
        of(containers.NETWORK_HEAD, containers.network, found[CONTAINERS]),
        of(moves.HEAD, moves.moves, found),
    ]


def page(kept: Mapping[str, Kept | None], made: Sequence[Figure], folder: str) -> str:
    """`folder`: where the plots are, seen from the page."""
    parts = [_HEAD, _summary(kept), _machine(kept), _runs(kept), _limits(kept)]
    parts += [_section(figure, kept, folder) for figure in made]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part)


def _summary(kept: Mapping[str, Kept | None]) -> str:
    """What is not a measurement, before anything else is read."""
    quick = [name for name, entry in kept.items() if entry and entry.found is not None and entry.run.quick]
    without = [name for name, entry in kept.items() if entry is None or entry.found is None]
    lines = []
    if quick:
        lines.append(f"> **Quick runs, no measurements:** {', '.join(quick)}. They only show that it runs.")
    if without:
        lines.append(f"> **No results yet:** {', '.join(without)}. Their figures are missing below.")
    return "\n>\n".join(lines)


def _machine(kept: Mapping[str, Kept | None]) -> str:
    """Of all runs: what differed between them has each value."""
    values: dict[str, dict[str, None]] = {}
    for entry in kept.values():
        if entry:
            for name, value in {**entry.run.machine, **_of_results(entry.found or {})}.items():
                values.setdefault(name, {})[value] = None
    if not values:
        return ""
    return "## The machine\n\n" + table(("", ""), [(name, " and ".join(each)) for name, each in values.items()])


def _of_results(found: Mapping[str, Any]) -> dict[str, str]:
    versions: Mapping[str, str] = found.get("versions", {})
    if "accelerator" not in found:
        return dict(versions)
    said = {"qemu": "none: their CPUs are emulated (QEMU's TCG)", "kvm": "KVM"}
    return {"accelerator of the VMs": said.get(found["accelerator"], found["accelerator"]), **versions}


def _runs(kept: Mapping[str, Kept | None]) -> str:
    rows = []
    for name, bench in BENCHES.items():
        entry = kept[name]
        if entry is None:
            rows.append((f"`{bench.command}`", bench.figures, f"not run yet ({bench.takes})", "", "", ""))
            continue
        load = (entry.found or {}).get("load")
        rows.append(
            (
                f"`{bench.command}`",
                bench.figures,
                _outcome(entry),
                entry.run.day,
                f"`{entry.run.commit}`",
                "" if load is None else f"{load:.1f}",
            )
        )
    heads = ("benchmark", "figures", "outcome", "day", "commit", "load before")
    return "## The runs\n\n" + table(heads, rows)


def _limits(kept: Mapping[str, Kept | None]) -> str:
    """Our own, which are not the paper's: what was missed stands first. A quick run meets none and misses none."""
    names = [each.name for each in fields(Target)]
    rows = []
    for name, entry in kept.items():
        found = entry.found if entry and not entry.run.quick else None
        for written in (found or {}).get("targets", ()):
            # Of another version nothing is said here; its figures say it.
            if written.keys() >= set(names):
                one = Target(**{each: written[each] for each in names})
                rows.append(
                    (one.met, (f"`{BENCHES[name].command}`", one.name, one.shown, one.limit_shown, one.verdict))
                )
    if not rows:
        return ""
    heads = ("benchmark", "what", "measured", "limit", "")
    return "## Our own limits\n\n" + table(heads, [row for _met, row in sorted(rows, key=lambda row: row[0])])


def _outcome(entry: Kept) -> str:
    quick = "**quick**, " if entry.run.quick else ""
    if entry.found is None:
        return f"{quick}**failed**: {entry.run.said}"
    return f"{quick}some figures are void: {entry.run.said}" if entry.run.status else f"{quick}done"


def _section(figure: Figure, kept: Mapping[str, Kept | None], folder: str) -> str:
    blocks = [f"## Figure {figure.head.number}: {figure.head.title}", f"The paper: {figure.head.paper}"]
    blocks += list(_states(figure, kept))
    if figure.absent:
        blocks.append(f"**{figure.absent}**")
    if figure.rows:
        blocks.append(_rows(figure.rows))
    if figure.plot:
        blocks.append(f"![{figure.plot.title}]({folder}/{figure.plot.name}.svg)")
    if figure.void:
        blocks.append("Without a figure:\n\n" + _list(figure.void))
    if figure.differs:
        blocks.append("What differs from the paper:\n\n" + _list(figure.differs))
    return "\n\n".join(block.rstrip("\n") for block in blocks) + "\n"


def _states(figure: Figure, kept: Mapping[str, Kept | None]) -> Iterator[str]:
    for name in figure.head.benches:
        entry, bench = kept[name], BENCHES[name]
        if entry is None:
            yield f"> **Not measured yet:** `{bench.command}` ({bench.takes})."
        elif entry.found is None:
            yield f"> **Failed:** `{bench.command}`: {entry.run.said}"
        elif entry.run.quick:
            yield f"> **Quick, no measurement:** `{bench.command}` ran once or twice, with everything small."


def _rows(rows: Sequence[Row]) -> str:
    heads = ("", "the paper's", "ours", "beside", "ratio", "runs")
    return table(heads, [(row.what, row.paper, row.ours, row.against, row.ratio, row.runs) for row in rows])


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines) + "\n"


def _cell(text: str) -> str:
    """What a program has said may hold anything."""
    return " ".join(text.split()).replace("|", "\\|")


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {' '.join(line.split())}" for line in lines)
