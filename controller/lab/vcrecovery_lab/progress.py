"""One line on stderr for each step that takes long."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

Progress = Callable[[str], AbstractContextManager[None]]
"""`with progress("image: debootstrap (about 30 s)"): ...` reports the step and, at its end, how long it took."""

_lock = threading.Lock()


@contextmanager
def stderr_progress(text: str) -> Iterator[None]:
    """Report to stderr; on a terminal the elapsed seconds count up in place."""
    started = time.monotonic()
    done = threading.Event()

    def tick() -> None:
        while not done.wait(1):
            _write(f"\r{text} ... {time.monotonic() - started:.0f} s")

    _write(f"{text} ...")
    ticker = threading.Thread(target=tick, daemon=True)
    terminal = sys.stderr.isatty()
    if terminal:
        ticker.start()
    outcome = " failed after"
    try:
        yield
        outcome = ""
    finally:
        done.set()
        if terminal:
            ticker.join()
            _write(f"\r{text} ...")
        _write(f"{outcome} {time.monotonic() - started:.1f} s\n")


@contextmanager
def silent_progress(text: str) -> Iterator[None]:
    """Report nothing."""
    yield


def _write(text: str) -> None:
    with _lock:
        sys.stderr.write(text)
        sys.stderr.flush()
