"""A stop from outside that waits until what was done is undone."""

from __future__ import annotations

import contextlib
import signal
import threading
from types import FrameType
from typing import Iterator, Optional

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Stop:
    """Whether a signal has come, and whether it may end what is being done."""

    def __init__(self) -> None:
        self._came: Optional[int] = None
        self._may_end = False

    @contextlib.contextmanager
    def ends_this(self) -> Iterator[None]:
        """Within, the first signal raises SystemExit; elsewhere it waits for the next such place, or for the end."""
        self._may_end = True
        try:
            if self._came is not None:
                raise SystemExit(128 + self._came)
            yield
        finally:
            self._may_end = False

    def _on_signal(self, number: int, frame: Optional[FrameType]) -> None:
        self._came = number
        if self._may_end:
            self._may_end = False
            raise SystemExit(128 + number)


@contextlib.contextmanager
def deferred_stop() -> Iterator[Stop]:
    """A signal that came within takes its usual effect at the end. Only the main thread gets signals."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    # One that is ignored (nohup) stays so.
    heeded = [number for number in _SIGNALS if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, stop._on_signal) for number in heeded}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if stop._came is not None:
            signal.raise_signal(stop._came)
