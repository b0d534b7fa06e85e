"""Who asks while a key is replaced: a thief over a connection that is open already; whoever never stops asking."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from vcrecovery_lab.pair.receiver import Receiver

from .meanwhile import all_along
from .waiting import wait_for


@contextmanager
def ended_with_its_key(receiver: Receiver, words: Sequence[str]) -> Iterator[None]:
    """It is open at first, needing no key for its next session, and has ended after what is done meanwhile.

    `words`: ssh's, behind those that keep it open.
    """
    command = ["ssh", "-M", "-N", "-o", "ControlPath=none", *words]
    stolen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: len(receiver.sessions()) > 0, "the connection")
        yield
        assert stolen.wait(30) == 255
    finally:
        stolen.kill()
        stolen.wait(30)


@contextmanager
def asked_all_along(ask: Callable[[], str]) -> Iterator[list[str]]:
    """What whoever never stops asking is answered, one after the other. The first answer is there at once."""
    heard = [ask()]
    with all_along(lambda: heard.append(ask())):
        yield heard
