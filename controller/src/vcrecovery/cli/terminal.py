"""What kind of terminal the output goes to, if any."""

from __future__ import annotations

import shutil
import sys

import click

from vcrecovery.cli.options import colour


def width() -> int | None:
    """Columns; None where the output is no terminal: a pipe gets whole lines."""
    return max(20, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None


def height() -> int:
    return max(3, shutil.get_terminal_size().lines)


def paint(text: str, name: str) -> str:
    """`bold` is a colour here."""
    if name != "bold":
        return colour(text, name)
    return click.style(text, bold=True) if colour("", "red") else text
