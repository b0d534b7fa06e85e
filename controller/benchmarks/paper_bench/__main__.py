"""`python -m paper_bench`: runs what is missing of the paper's experiments, and writes their page; see --help."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from vcrecovery.errors import VCRecoveryError
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.run import LabError

from .benches import BENCHES
from .kept import Folder, Kept
from .measuring import measure, missing
from .page import figures, page
from .plots import svg

PAGE, PLOTS = "benchmarks.md", "benchmarks"


def main(words: Sequence[str] | None = None) -> int:
    """The exit status: 0 although the paper's figures are missed; 1 where a benchmark failed, or a figure is void."""
    parser = argparse.ArgumentParser(prog="paper_bench", description="The paper's experiments, and a page of them.")
    parser.add_argument("--quick", action="store_true", help="everything small: only to see that it runs")
    parser.add_argument(
        "--again", action="append", choices=BENCHES, default=[], metavar="NAME", help="measure this one anew, too"
    )
    parser.add_argument("--page", action="store_true", help="measure nothing: write the page of what is kept")
    parser.add_argument(
        "--kept", type=Path, metavar="FOLDER", default=CHECKOUT / ".cache/paper", help="results (default: .cache/paper)"
    )
    parser.add_argument("--docs", type=Path, metavar="FOLDER", default=CHECKOUT / "docs", help="for the page")
    options = parser.parse_args(words)
    folder = Folder(options.kept)
    try:
        if not options.page:
            measure(folder, missing(folder, options.again, options.quick), options.quick)
        kept = {name: folder.read(name) for name in BENCHES}
        write(kept, options.docs)
    except (VCRecoveryError, LabError, OSError) as error:
        sys.stderr.write(f"paper_bench: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("paper_bench: interrupted; run it again, and it goes on with what is missing\n")
        return 130
    failed = [name for name, entry in kept.items() if entry is None or entry.found is None or entry.run.status]
    sys.stderr.write(f"paper_bench: {options.docs / PAGE} is written\n")
    if failed:
        sys.stderr.write(f"paper_bench: without a figure, or with a void one: {', '.join(failed)}\n")
    return 1 if failed else 0


def write(kept: dict[str, Kept | None], docs: Path) -> None:
    """The page last: whatever it shows is there."""
    made = figures(kept)
    plots = docs / PLOTS
    plots.mkdir(parents=True, exist_ok=True)
    drawn = {f"{figure.plot.name}.svg": svg(figure.plot) for figure in made if figure.plot}
    for name, text in drawn.items():
        (plots / name).write_text(text, encoding="utf-8")
    (docs / PAGE).write_text(page(kept, made, PLOTS), encoding="utf-8")
    for old in plots.glob("figure-*.svg"):
        if old.name not in drawn:
            old.unlink()


if __name__ == "__main__":
    sys.exit(main())
