"""Keeps the exclude list current: after each package run, and now and then, since anybody may add a file."""

from __future__ import annotations

import contextlib
import os
from typing import Callable, List

from ..excludes.list_file import AnyPath, would_change, write_if_changed
from ..excludes.service import service_rules
from .settings import Settings

#: There from the first byte of a new list until the sync has been told of it.
UNTOLD = "/run/vcrecovery-list-untold"


def refresh(settings: Settings, tell_sync: Callable[[], None], root: AnyPath = "/", untold: str = UNTOLD) -> List[str]:
    """Makes the list anew and tells the sync if it changed; the files that were written.

    All dialects are computed before the first is written. Raises ExcludeError and leaves the old list where
    anything cannot be read. A call that was killed half-way is finished by the next one.
    """
    rules = service_rules(root, settings.selection, sorted(settings.lists))
    stale = [dialect for dialect in sorted(rules) if would_change(settings.lists[dialect], rules[dialect])]
    if stale:
        os.close(os.open(untold, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for dialect in stale:
        write_if_changed(settings.lists[dialect], rules[dialect])
    if os.path.exists(untold):
        tell_sync()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(untold)
    return [settings.lists[dialect] for dialect in stale]
