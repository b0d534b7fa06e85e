"""Charts of a report as SVG, drawn by matplotlib where that is installed.

Nothing in them is told by colour alone: markers, dashes, hatches and labels tell it too. Their ink is the text's colour
of the page, so that they are right in the dark and on paper. The same values give the same bytes.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

from vcrecovery.report.periodic.document import Bars, Chart, Front, Lines, Points

#: Stand-ins in what is drawn, and what the page makes of them.
_INK = "#010203"
_SHADES = ("#010211", "#010212", "#010213", "#010214")
COLOURS: Mapping[str, str] = {
    _INK: "currentColor",
    **{shade: f"var(--shade-{n})" for n, shade in enumerate(_SHADES)},
}
_MARKERS, _DASHES = ("o", "s", "^", "D", "v", "P"), ("-", "--", ":", "-.")
_KINDS = {"failover": "o", "switchover": "s", "failback": "^", "drill": "D"}
_HATCHES = ("", "///", "...", "xx", "\\\\\\")
_TIMES = {
    0.1: "0.1 s", 0.2: "0.2 s", 0.5: "0.5 s", 1: "1 s", 2: "2 s", 5: "5 s", 10: "10 s", 20: "20 s", 60: "1 min",
    120: "2 min", 300: "5 min", 600: "10 min", 1800: "30 min", 3600: "1 h", 7200: "2 h", 18000: "5 h", 43200: "12 h",
    86400: "1 d", 259200: "3 d", 864000: "10 d", 8640000: "100 d",
}  # fmt: skip
#: Days that are written below a curve.
_TICKS = 6
#: Inches: as wide as a phone, whose text then has its own size; the page lets it grow a little.
_WIDTH = 4.6
_SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "vcrecovery",
    # Text stays text: it can be found, read aloud, and is small.
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "hatch.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def is_available() -> bool:
    """Whether matplotlib is there: it is not needed for anything else, so not every controller has it."""
    try:
        import matplotlib.backends.backend_svg  # noqa: F401
    except ImportError:
        return False
    return True


def svg(chart: Chart) -> str:
    """The picture as an SVG document. Only where it `is_available`."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    draw: Callable[[Any, Any], float] = _DRAWN[type(chart)]
    with mpl.rc_context({**mpl.rcParamsDefault, **_SETTINGS, "backend": "svg"}):
        figure = Figure(figsize=(_WIDTH, 2.8), layout="constrained")
        height = draw(figure.add_subplot(), chart)
        figure.set_size_inches(_WIDTH, height)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return text.getvalue()


def _lines(axes: Any, chart: Lines) -> float:
    for n, (name, values) in enumerate(chart.series.items()):
        axes.plot(
            [day.toordinal() for day in values],
            [max(value, 0.1) for value in values.values()],
            label=_safe(name),
            color=_SHADES[n % len(_SHADES)],
            marker=_MARKERS[n % len(_MARKERS)],
            linestyle=_DASHES[n % len(_DASHES)],
            markersize=4,
            linewidth=1.2,
        )
    axes.set_yscale("log")
    every = [max(value, 0.1) for values in chart.series.values() for value in values.values()]
    _told_times(axes.yaxis, min(every, default=1), max(every, default=1))
    all_days = sorted({day for values in chart.series.values() for day in values})
    shown = all_days[:: max(1, -(-len(all_days) // _TICKS))]
    axes.set_xticks([day.toordinal() for day in shown], [f"{day:%m-%d}" for day in shown])
    axes.grid(axis="y", color=_INK, alpha=0.2, linewidth=0.5)
    _legend(axes, len(chart.series))
    return 2.9 + 0.16 * ((len(chart.series) + 1) // 2)


def _points(axes: Any, chart: Points) -> float:
    names = list(chart.rows)
    drawn: set[str] = set()
    for row, name in enumerate(names):
        for kind, value in chart.rows[name]:
            n = list(_KINDS).index(kind) if kind in _KINDS else 0
            label = None if kind in drawn else kind
            drawn.add(kind)
            axes.plot(
                max(value, 0.1),
                row,
                _KINDS.get(kind, "o"),
                color=_SHADES[n % len(_SHADES)],
                fillstyle="full" if kind == "failover" else "none",
                label=label,
                linestyle="none",
            )
    targets = [(row, chart.targets[name]) for row, name in enumerate(names) if name in chart.targets]
    if targets:
        axes.plot(
            [target for _, target in targets],
            [row for row, _ in targets],
            "|",
            markersize=18,
            markeredgewidth=2,
            color=_INK,
            label="target",
        )
    axes.set_yticks(range(len(names)), [_safe(_short(name)) for name in names])
    axes.set_ylim(max(1, len(names)) - 0.5, -0.5)
    axes.set_xscale("log")
    every = [max(value, 0.1) for points in chart.rows.values() for _, value in points]
    every += [target for _, target in targets]
    _told_times(axes.xaxis, min(every, default=1), max(every, default=1))
    axes.grid(axis="x", color=_INK, alpha=0.2, linewidth=0.5)
    _legend(axes, len(drawn) + bool(targets))
    return 1.5 + 0.26 * len(names)


def _bars(axes: Any, chart: Bars) -> float:
    names = list(chart.bars)
    for row, name in enumerate(names):
        value, text = chart.bars[name]
        axes.barh(
            row, value, height=0.5, facecolor="none", edgecolor=_SHADES[row % len(_SHADES)],
            hatch=_HATCHES[row % len(_HATCHES)], linewidth=1.2,
        )  # fmt: skip
        # Over its bar, where a name of any length has room.
        axes.text(0, row - 0.32, _safe(f"{name}: {text}"), va="bottom", ha="left")
    axes.set_ylim(max(1, len(names)) - 0.5, -0.9)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_visible(False)
    axes.set_xticks([])
    return 0.3 + 0.5 * len(names)


def _front(axes: Any, chart: Front) -> float:
    amounts, times = [amount for amount, _ in chart.steps], [max(seconds, 0.1) for _, seconds in chart.steps]
    axes.step(amounts, times, where="post", color=_SHADES[0], linestyle="--", linewidth=1.0)
    axes.plot(amounts, times, "o", color=_SHADES[0], markersize=6, linestyle="none", label="worth its price")
    if chart.now is not None:
        amount, seconds = chart.now
        axes.plot(amount, max(seconds, 0.1), "x", color=_INK, markersize=10, markeredgewidth=2, label="this plan")
        amounts, times = [*amounts, amount], [*times, max(seconds, 0.1)]
    axes.set_yscale("log")
    _told_times(axes.yaxis, min(times, default=1), max(times, default=1))
    axes.set_xlim(0, max(amounts, default=1) * 1.1 or 1)
    axes.set_xlabel(_safe(f"{chart.currency} a month"))
    axes.set_ylabel("recovery")
    axes.grid(axis="both", color=_INK, alpha=0.2, linewidth=0.5)
    _legend(axes, 1 + (chart.now is not None))
    return 2.9


_DRAWN: Mapping[type, Callable[..., float]] = {Lines: _lines, Points: _points, Bars: _bars, Front: _front}


def _told_times(axis: Any, low: float, high: float) -> None:
    """Ticks where a person would put them: at a second, a minute, an hour."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    within = {at: word for at, word in _TIMES.items() if low / 1.5 <= at <= high * 1.5}
    round_ones = {at: word for at, word in within.items() if word.startswith("1")}
    shown = round_ones if len(round_ones) > 2 else within
    axis.set_major_locator(FixedLocator(list(shown)))
    axis.set_major_formatter(FixedFormatter(list(shown.values())))
    axis.set_minor_locator(NullLocator())


def _legend(axes: Any, entries: int) -> None:
    if entries:
        axes.legend(
            loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False, borderaxespad=0.2, handlelength=3.0,
        )  # fmt: skip


def _short(name: str) -> str:
    return name if len(name) <= 18 else f"{name[:17]}…"


def _safe(text: str) -> str:
    """A dollar would begin a formula."""
    return text.replace("$", r"\$")
