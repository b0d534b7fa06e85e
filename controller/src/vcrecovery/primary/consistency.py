"""A tree whose files belong together: as it is, between an operator's commands, or from a snapshot."""

from __future__ import annotations

import contextlib
from typing import Iterator

from .assembled import assembled
from .hooks import between, release_what_is_held
from .programs import ProgramError, Run
from .settings import Settings
from .snapshots import check_not_full, remove_leftovers, snapshots
from .stopping import deferred_stop


@contextlib.contextmanager
def consistent_tree(settings: Settings, run: Run) -> Iterator[str]:
    """The path of the tree to send; ProgramError if it cannot be had, with everything undone."""
    if not settings.consistency.belongs_together:
        yield settings.source
        return
    with deferred_stop() as stop:
        release_what_is_held(settings.run_dir)
        remove_leftovers(settings, run)
        tree = _from_snapshots if settings.consistency.kind == "snapshot" else _held
        with tree(settings, run) as path, stop.ends_this():
            yield path


@contextlib.contextmanager
def _held(settings: Settings, run: Run) -> Iterator[str]:
    """The service is held until all is sent."""
    with _hook(settings):
        yield settings.source


@contextlib.contextmanager
def _from_snapshots(settings: Settings, run: Run) -> Iterator[str]:
    """The service is held while the snapshots are made."""
    with contextlib.ExitStack() as stack:
        with _hook(settings):
            taken = stack.enter_context(snapshots(settings, run))
        try:
            with assembled(settings.source, settings.run_dir, taken) as tree:
                yield tree
        except ProgramError:
            # The cause of what rsync could not read, perhaps.
            check_not_full(taken)
            raise
        check_not_full(taken)


def _hook(settings: Settings) -> "contextlib.AbstractContextManager[None]":
    hook = settings.consistency.hook
    return between(hook, settings.run_dir) if hook is not None else contextlib.nullcontext()
