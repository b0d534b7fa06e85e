"""Columns of text under each other."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], right: Sequence[int] = (1, 2)) -> list[str]:
    """Columns under each other; those of `right` end under each other."""
    if not rows:
        return []
    widths = {n: max(len(row[n]) for row in rows) for n in range(len(rows[0]))}
    lines = []
    for row in rows:
        cells = [f"{cell:>{widths[n]}}" if n in right else f"{cell:<{widths[n]}}" for n, cell in enumerate(row)]
        lines.append("  ".join(cells).rstrip())
    return lines
