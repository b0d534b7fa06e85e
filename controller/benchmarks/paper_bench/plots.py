"""The plots as SVG: the same bytes whenever they are made of the same figures by the same matplotlib."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch

from .figure import Plot, Values

#: Told apart by hatches and greys, so that they can be read without colour.
_LOOKS = (
    ("#1b4965", ""),
    ("#9ec1d9", "///"),
    ("#f2f2f2", "\\\\"),
    ("#6b6b6b", ""),
    ("#d9d9d9", "xxx"),
    ("white", "---"),
)
#: matplotlib has a type for each.
_SETTINGS: Any = {
    "svg.hashsalt": "vcrecovery",
    # Text stays text: small, and it can be searched and read aloud.
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "hatch.linewidth": 0.6,
}
_BAR, _INCH = 0.8, 0.3


def svg(plot: Plot) -> str:
    """On white, with black text: it reads the same on a page that is dark."""
    with mpl.rc_context(_SETTINGS), _canvas(plot) as (canvas, axes):
        series = list(dict.fromkeys(name for group in plot.groups.values() for name in group))
        looks = dict(zip(series, _looks(), strict=False))
        ends, place = [], 0.0
        for group, values in plot.groups.items():
            begin = place
            for name, value in values.items():
                _bar(axes, place, value, *looks[name])
                place += 1
            ends.append((group, (begin + place - 1) / 2))
            place += 0.8
        axes.set_yticks([middle for _, middle in ends], [group for group, _ in ends])
        axes.invert_yaxis()
        axes.set_xlabel(plot.unit)
        axes.set_xlim(left=0)
        axes.set_title(plot.title, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        if plot.line is not None:
            axes.axvline(plot.line, color="black", linewidth=0.8, linestyle="--")
            axes.set_xlim(right=max(axes.get_xlim()[1], plot.line * 1.1))
        handles = [
            Patch(facecolor=looks[name][0], hatch=looks[name][1], edgecolor="black", label=name.replace("`", ""))
            for name in series
        ]
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
        buffer = io.StringIO()
        canvas.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    # Editors and git would both take white space at a line's end for a mistake.
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


@contextmanager
def _canvas(plot: Plot) -> Iterator[tuple[Canvas, Axes]]:
    bars = sum(len(values) + 0.8 for values in plot.groups.values())
    canvas = Canvas(figsize=(6.5, 1.0 + _INCH * 0.75 * bars), facecolor="white")
    yield canvas, canvas.add_subplot()


def _looks() -> Iterator[tuple[str, str]]:
    while True:
        yield from _LOOKS


def _bar(axes: Axes, place: float, value: Values | None, colour: str, hatch: str) -> None:
    if value is None:
        axes.text(0, place, " no figure", va="center", style="italic")
        return
    spread = [[value.median - value.low], [value.high - value.median]]
    axes.barh(
        [place],
        [value.median],
        height=_BAR,
        color=colour,
        hatch=hatch,
        edgecolor="black",
        linewidth=0.6,
        xerr=spread if value.low != value.high else None,
        error_kw={"elinewidth": 1.0, "capsize": 2.5},
    )
    axes.text(
        value.high, place, f"  {value.median:,.3g}" if value.median < 1000 else f"  {value.median:,.0f}", va="center"
    )
