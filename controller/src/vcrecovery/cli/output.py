"""Output that may not be writable: its reader has gone, its disk is full, it was closed from the start."""

from __future__ import annotations

import io
import os
import select
import sys
from pathlib import Path
from typing import Any, TextIO

import click


def prepare() -> None:
    """Before anything is opened, which would take the place of what is closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  until the end
    # What comes from outside may not be printable here.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def say(text: str = "", **how: Any) -> None:
    """For what goes on, whether or not anybody can read how it goes."""
    try:
        click.echo(text, **how)
    except OSError:
        give_up(sys.stderr if how.get("err") else sys.stdout)


def finish() -> None:
    """Writes what is still held back. Raises OSError."""
    sys.stdout.flush()


def is_of_output(error: OSError) -> bool:
    """Whether it came from writing the output, and not from what the verb did."""
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code in (click.echo.__code__, finish.__code__):
            return True
        frame = frame.tb_next
    return False


def broken(stream: TextIO) -> bool:
    """Whether what was written to it does not get through."""
    try:
        stream.flush()
    except OSError:
        return True
    return False


def reader_leaves(stream: TextIO, within: float) -> bool:
    """Waits for so many seconds, or until nobody can read any more what is written to it: then True.

    Who writes only what is new would meet the closed pipe at the next change, which may never come.
    """
    poll = select.poll()
    # Neither waits for room nor for input: what remains is POLLERR, POLLHUP and POLLNVAL.
    poll.register(stream.fileno(), 0)
    return bool(poll.poll(1000 * within))


def give_up(stream: TextIO) -> None:
    """Whatever is still written to it goes nowhere, also what the end of the program would write."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
