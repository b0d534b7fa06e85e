"""`python -m relief_bench.plot RESULTS.json FILE.svg`: what each service answered over time, as a plot."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from .results import rate

#: The same bytes whenever they are made of the same figures; text stays text.
_SETTINGS: Any = {"svg.hashsalt": "vcrecovery", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9}
_LINES = ("-", "--", "-.", ":")
#: Seconds of a point.
_STEP = 2.0


def drawn(found: Any, file: Path) -> None:
    """`found`: as `--json` writes it."""
    with mpl.rc_context(_SETTINGS):
        canvas = Figure(figsize=(7.0, 3.2), facecolor="white")
        axes = canvas.add_subplot()
        times = [n * _STEP for n in range(int(found["until"] / _STEP))]
        for line, (name, answers) in zip(_LINES, found["answers"].items(), strict=False):
            went = "goes to sec2" if name in found["moved"] else "stays"
            rates = [rate(answers, at, at + _STEP) for at in times]
            axes.plot(
                [at + _STEP / 2 for at in times], rates, line, color="black", linewidth=1, label=f"{name}: {went}"
            )
        axes.axvspan(found["asked"], found["ended"], color="#dddddd", label="vcrecovery rebalance")
        axes.set_xlabel("seconds")
        axes.set_ylabel("answers in a second")
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
        canvas.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    file.write_text("\n".join(line.rstrip() for line in file.read_text().splitlines()) + "\n")


if __name__ == "__main__":
    drawn(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
