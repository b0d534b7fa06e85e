"""Jobs that go on for as long as the program runs: done again and again, and what stands in their way is said once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from vcrecovery.drivers.runtime import Event
from vcrecovery.errors import BootingError, BusyError, in_words


class SayOnce:
    """Logs each sentence about a thing once, until something else is to be said of it, or it is well again."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said: dict[str, str] = {}

    def __call__(self, about: str, sentence: str, level: int = logging.WARNING, **extra: str) -> None:
        if self._said.get(about) != sentence:
            self._said[about] = sentence
            self._log.log(level, "%s", sentence, extra=extra)

    def well(self, about: str) -> None:
        self._said.pop(about, None)


def spaced(act: Callable[[], None], every: float, steady: Callable[[], float]) -> Callable[[], None]:
    """Does `act` when so many seconds have passed since it was made, or since the last time; else nothing."""
    last = steady()

    def now_and_then() -> None:
        nonlocal last
        if steady() - last >= every:
            last = steady()
            act()

    return now_and_then


def go_on(
    turn: Callable[[], None],
    *,
    stop: Event,
    say: SayOnce,
    about: str,
    trouble: Callable[[str], str],
    again_after: float,
) -> None:
    """Calls `turn` until `stop` is set. One that raises is followed by the next: a task that ends goes unnoticed.

    `trouble`: what an error means, for the log; said once `about` this. `again_after` seconds it goes on.
    """
    while not stop.is_set():
        try:
            turn()
        except BootingError:
            stop.wait(again_after)
        except Exception as error:  # noqa: BLE001  see above
            say(about, trouble(in_words(error)), logging.ERROR)
            stop.wait(again_after)


def take_turns(
    turn: Callable[[], None], *, every: float, stop: Event, log: logging.Logger, about: str, trouble: str
) -> None:
    """Calls `turn` every so many seconds until `stop` is set, as `go_on` does. `trouble`: with {} for the error."""
    say = SayOnce(log)

    def one() -> None:
        turn()
        say.well(about)
        stop.wait(every)

    go_on(one, stop=stop, say=say, about=about, trouble=trouble.format, again_after=every)


def keep(
    names: Iterable[str],
    job: Callable[[str], None],
    *,
    every: float,
    stop: Event,
    say: SayOnce,
    trouble: str,
    level: int = logging.WARNING,
    first_after: float | None = None,
) -> None:
    """Does `job` for each of the names every so many seconds until `stop` is set.

    A job that raises is done again at the next round: a task that ends goes unnoticed. BusyError means that a failover
    is at work, which sees to that service itself, and BootingError that its secondary is not up yet. `trouble`: what
    an error means, for the log.
    """
    pause = every if first_after is None else first_after
    known = list(names)
    while known and not stop.wait(pause):
        pause = every
        for name in known:
            try:
                job(name)
            except (BusyError, BootingError):
                continue
            except Exception as error:  # noqa: BLE001  see above
                say(name, f"{name}: {trouble}: {in_words(error)}", level)
            else:
                say.well(name)
