"""What goes on beside a test, again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def all_along(do: Callable[[], object], pause: float = 0.0) -> Iterator[None]:
    """`do` is called until the end of the block, which waits for the last call. `pause`: seconds before each."""
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(pause):
            do()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
