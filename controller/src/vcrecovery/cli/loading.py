"""How a verb loads what it needs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Iterator[None]:
    """What is loaded in this block stays.

    To look for garbage in it, meanwhile, later and at the end, would be a third of a short run.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
