"""What a probe has to do within its time, and what it does not like in an answer."""

from __future__ import annotations

import time


class BadAnswerError(Exception):
    """What answers is not what it should be; the message says why."""


def seconds_left(deadline: float) -> float:
    """Seconds up to `deadline`. Raises TimeoutError when there are none."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds
