"""Markdown, as every page here writes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import fill

WIDTH = 120


def head(title: str, sources: str, about: str = "") -> str:
    """The beginning of a page. `sources` says what it is made of."""
    paragraphs = [f"# {title}", fill(f"Generated from {sources} by `make docs`. Do not edit it.", WIDTH)]
    return "\n\n".join([*paragraphs, *([fill(about, WIDTH)] if about else [])]) + "\n"


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are one line each; a bar in one does not end it."""
    lines = [_row(titles), "|" + "---|" * len(titles), *map(_row, rows)]
    return "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def anchor(title: str) -> str:
    """The fragment by which GitHub reaches a heading."""
    kept = [letter for letter in title.lower() if letter.isalnum() or letter in "-_ "]
    return "#" + "".join(kept).replace(" ", "-")
