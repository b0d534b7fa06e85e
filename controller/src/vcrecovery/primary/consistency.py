"""A tree whose files belong together: as it is, between an operator's commands, or from a snapshot."""

from __future__ import annotations

import contextlib
from typing import Iterator

from .programs import ProgramError, Run
from .settings import Hook, Settings


@contextlib.contextmanager
def consistent_tree(settings: Settings, run: Run) -> Iterator[str]:
    """The path of the tree to send; ProgramError if it cannot be had, with everything undone."""
    if settings.consistency.kind == "hook" and settings.consistency.hook is not None:
        with _between(settings.consistency.hook, run):
            yield settings.source
        return
    yield settings.source


@contextlib.contextmanager
def _between(hook: Hook, run: Run) -> Iterator[None]:
    """`after` runs in any case, even when `before` has failed half-way."""
    failed = True
    try:
        run(["sh", "-c", hook.before], hook.timeout)
        yield
        failed = False
    finally:
        try:
            run(["sh", "-c", hook.after], hook.timeout)
        except ProgramError:
            if not failed:
                raise
