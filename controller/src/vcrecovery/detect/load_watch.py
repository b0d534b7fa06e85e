"""Looks at how loaded the secondaries are; says what would be moved off one that is overloaded, or moves it."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from vcrecovery.balance.choice import Choice, Move, told
from vcrecovery.balance.load import Load, Reading, load_between
from vcrecovery.balance.overload import Course, after
from vcrecovery.core.move import BALANCE
from vcrecovery.detect.rounds import Rounds
from vcrecovery.drivers.runtime import Event
from vcrecovery.errors import BusyError, ExternalError, VCRecoveryError
from vcrecovery.keeping import SayOnce, go_on
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover import ProgressReporter
from vcrecovery.operations.rebalance import carry_out, give_up, limits_of, proposed, read_load
from vcrecovery.operations.serving import failing_over
from vcrecovery.store.load_book import LoadBook, Seen

log = logging.getLogger("vcrecovery.watch")

#: Seconds between two looks.
EVERY = 15.0
TASK = "look at the loads of the secondaries"


class LoadWatch:
    """All secondaries of a plan. `env` is its own."""

    def __init__(self, env: Environment, reporter: ProgressReporter, rounds: Rounds) -> None:
        self._env, self._reporter, self._rounds = env, reporter, rounds
        self._steady, self._now = env.clock.steady, env.clock.now
        self._limits = limits_of(env.plan.balance)
        self._book = LoadBook(env.plan.state_dir)
        self._courses = {name: Course() for name in env.plan.secondaries}
        #: As many as cover `high_for`.
        self._readings: dict[str, deque[Reading]] = {name: deque() for name in env.plan.secondaries}
        self._trouble: dict[str, str] = {}
        #: Since when it was overloaded, and which services were said to be moved.
        self._told: dict[str, tuple[float | None, tuple[str, ...]]] = {}
        #: When one was moved from or to each, by itself.
        self._moved_at: dict[str, float] = {}
        self._moving: set[str] = set()

    def turn(self) -> None:
        """One look at each. Raises ExternalError when the journal or the folder cannot be used."""
        loads = {}
        for name in self._env.plan.secondaries:
            self._rounds.begin(TASK)
            before = self._courses[name]
            newest = self._read(name)
            self._courses[name] = after(before, newest, self._limits, self._steady())
            if (load := self._over_all(name)) is not None and newest is not None:
                loads[name] = load
            if before.since is not None and self._courses[name].since is None:
                log.info("secondary %s is not overloaded any more", name)
        overloaded = [name for name, course in self._courses.items() if course.since is not None and name in loads]
        choice = proposed(self._env, loads, overloaded) if overloaded else Choice()
        for name in overloaded:
            self._tell(name, choice)
        self._write(loads, choice)
        if self._env.plan.balance.do == "move":
            self._begin(choice)

    def _read(self, name: str) -> Load | None:
        """The load since the last look."""
        readings = self._readings[name]
        try:
            reading = read_load(self._env, name)
        except ExternalError as error:
            self._trouble[name] = str(error)
            readings.clear()
            return None
        self._trouble.pop(name, None)
        load = load_between(readings[-1], reading) if readings else None
        if load is None:
            readings.clear()
        readings.append(reading)
        while len(readings) > 2 and reading.at - readings[1].at >= self._limits.high_for:
            readings.popleft()
        return load

    def _over_all(self, name: str) -> Load | None:
        """The load of the last `high_for` seconds: one moment is no reason to move anything."""
        readings = self._readings[name]
        return load_between(readings[0], readings[-1]) if len(readings) > 1 else None

    def _tell(self, name: str, choice: Choice) -> None:
        """Once for as long as it would move the same services: its figures change all the time."""
        lines = _proposal(name, choice)
        about = self._courses[name].since, tuple(move.container for move in choice.moves if move.source == name)
        if self._told.get(name) == about:
            return
        self._told[name] = about
        what = "; ".join(lines) or f"nothing can be moved: {_why_nothing(name, choice)}"
        hint = "; `vcrecovery rebalance` does it" if lines and self._env.plan.balance.do == "propose" else ""
        log.warning("secondary %s is overloaded (%s): %s%s", name, self._courses[name].why, what, hint)

    def _write(self, loads: Mapping[str, Load], choice: Choice) -> None:
        now, steady = self._now(), self._steady()
        self._book.write(
            {
                name: Seen(
                    now,
                    loads.get(name),
                    None if course.since is None else now - (steady - course.since),
                    course.why,
                    self._trouble.get(name, ""),
                    tuple(_proposal(name, choice)),
                )
                for name, course in self._courses.items()
            }
        )

    # -- do: move ----------------------------------------------------------------------------------------------

    def _begin(self, choice: Choice) -> None:
        for move in choice.moves:
            pair = {move.source, move.to}
            if pair & self._moving or any(not self._is_calm(name) for name in pair) or failing_over(self._env):
                continue
            self._moving |= pair
            self._env.runtime.spawn(partial(self._carry_out, move), f"move {move.container}")

    def _is_calm(self, name: str) -> bool:
        moved_at = self._moved_at.get(name)
        return moved_at is None or self._steady() - moved_at >= self._env.plan.balance.again_after

    def _carry_out(self, move: Move) -> None:
        env = self._env.another()
        why = f"secondary {move.source} is overloaded ({self._courses[move.source].why})"
        try:
            episode = carry_out(env, move.container, move.to, why, BALANCE, self._reporter)
            if episode is not None:
                log.info("%s: epoch %d: %s: %s", move.container, episode.epoch, episode.outcome, episode.reason)
        except VCRecoveryError as error:
            log.error("%s: it is not moved to %s: %s", move.container, move.to, error)
            self._give_up(env, move.container, str(error))
        finally:
            for name in (move.source, move.to):
                # What was read before says nothing of where it is now.
                self._readings[name].clear()
                self._moved_at[name] = self._steady()
                self._moving.discard(name)

    def give_up_all(self) -> None:
        """What an earlier watcher has begun, and nothing came of. Raises ExternalError."""
        for episode in self._env.journal.open_episodes():
            if episode.request.by == BALANCE:
                self._give_up(self._env, episode.service, "the watcher that began it has ended")

    def _give_up(self, env: Environment, service: str, why: str) -> None:
        # Who is at work on it goes on with it.
        with suppress(BusyError):
            give_up(env, service, why)


def _proposal(name: str, choice: Choice) -> list[str]:
    return [told(move) for move in choice.moves if move.source == name]


def _why_nothing(name: str, choice: Choice) -> str:
    return "; ".join(f"{one}: {why}" for one, why in choice.kept.items()) or choice.short.get(
        name, "nothing serves there"
    )


def keep_looking_at_loads(watch: LoadWatch, stop: Event) -> None:
    """Returns when `stop` is set."""
    say, is_first = SayOnce(log), True

    def turn() -> None:
        nonlocal is_first
        if is_first:
            watch.give_up_all()
            is_first = False
        watch.turn()
        say.well("loads")
        stop.wait(EVERY)

    trouble = "how loaded the secondaries are is not known: {}; going on".format
    go_on(turn, stop=stop, say=say, about="loads", trouble=trouble, again_after=EVERY)
