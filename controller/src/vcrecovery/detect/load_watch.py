"""Looks at how loaded the secondaries are; says what would be moved off one that is overloaded, or moves it."""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial

from vcrecovery.balance.choice import Choice, Move, told
from vcrecovery.balance.load import Load, Reading, belongs_to, load_between, load_over
from vcrecovery.balance.overload import Course, after
from vcrecovery.core.move import BALANCE
from vcrecovery.detect.guests import Guests
from vcrecovery.detect.rounds import Rounds
from vcrecovery.drivers.runtime import Event, results
from vcrecovery.errors import BusyError, CalledOffError, ExternalError, VCRecoveryError, bug_in_words
from vcrecovery.keeping import take_turns
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover import ProgressReporter
from vcrecovery.operations.rebalance import CALLED_OFF, carry_out, give_up, limits_of, moves_lately, proposed, read_load
from vcrecovery.operations.serving import failing_over
from vcrecovery.store.load_book import LoadBook, Seen

log = logging.getLogger("vcrecovery.watch")

#: Seconds between two looks.
EVERY = 15.0
#: So many are read at the same time: one that does not answer takes its time.
_AT_ONCE = 32
TASK = "look at the loads of the secondaries"


class LoadWatch:
    """All secondaries of a plan. `env` is its own."""

    def __init__(
        self,
        env: Environment,
        reporter: ProgressReporter,
        rounds: Rounds,
        working_on: Callable[[str], AbstractContextManager[None]] = lambda _service: nullcontext(),
    ) -> None:
        """`working_on`: within what it gives, the rest of the watcher knows who is at work on the service."""
        self._env, self._reporter, self._rounds, self._working_on = env, reporter, rounds, working_on
        self._steady, self._now = env.clock.steady, env.clock.now
        self._limits = limits_of(env.plan.balance)
        self._book = LoadBook(env.plan.state_dir)
        self._courses: dict[str, Course] = defaultdict(Course)
        #: As many as cover `high_for`.
        self._readings: dict[str, deque[Reading]] = defaultdict(deque)
        self._trouble: dict[str, str] = {}
        #: Since when it was overloaded, and which services were said to be moved.
        self._told: dict[str, tuple[float | None, tuple[str, ...]]] = {}
        #: From or to which one is being moved, by itself; and of which what was read says nothing any more.
        self._moving: set[str] = set()
        self._changed: set[str] = set()
        #: The services that this program moves; when a move of each secondary was tried last; the moves seen so far.
        self._movers: set[str] = set()
        self._tried_at: dict[str, float] = {}
        self._seen: set[int] = set()
        self._guests = Guests(env)

    def turn(self) -> None:
        """One look at each. Raises ExternalError when the journal or the folder cannot be used."""
        self._rounds.begin(TASK)
        self._give_up_what_nobody_does()
        lately = moves_lately(self._env)
        self._changed.update(*(places for number, places in lately.items() if number not in self._seen))
        self._seen = set(lately)
        for name in list(self._changed):
            self._changed.discard(name)
            self._readings[name].clear()
        self._env.place_standbys()
        names = list(self._env.plan.secondaries)
        for gone in self._courses.keys() - set(names):
            del self._courses[gone]
        newest = dict(zip(names, results(self._env.runtime, self._read, names, "load", _AT_ONCE), strict=True))
        self._rounds.begin(TASK)
        loads = {}
        for name in names:
            before, self._courses[name] = self._courses[name], self._after(name, newest[name])
            if newest[name] is not None and (load := load_over(self._readings[name])) is not None:
                loads[name] = load
            if before.since is not None and self._courses[name].since is None:
                log.info("secondary %s is not overloaded any more", name)
        overloaded = [name for name, course in self._courses.items() if course.since is not None and name in loads]
        moves_itself = self._env.plan.balance.do == "move"
        choice = proposed(self._env, loads, overloaded, unasked=moves_itself) if overloaded else Choice()
        for name in overloaded:
            self._tell(name, choice)
        if moves_itself and choice.moves:
            self._begin(choice.moves, {place for places in lately.values() for place in places})
        if (elastic := self._env.plan.balance.elastic) is not None and not failing_over(self._env):
            self._guests.look(elastic, loads)
            if moves_itself and choice.short:
                why = "; ".join(f"{name} is overloaded ({self._courses[name].why})" for name in overloaded)
                self._guests.ask(elastic, loads, overloaded, why)
            # Also where nothing is moved: one on which nobody serves is given back.
            homeward = self._guests.homeward(elastic, loads, overloaded)
            # Whoever is sent home has been calm for long: the next one need not wait.
            self._begin(homeward if moves_itself else (), (), calm=False)
        self._write(loads, choice)
        self._rounds.begin(TASK)

    def _after(self, name: str, load: Load | None) -> Course:
        return after(self._courses[name], load, self._limits, self._steady())

    def _read(self, name: str) -> Load | None:
        """The load since the last look."""
        self._rounds.begin(TASK)
        readings = self._readings[name]
        try:
            reading = read_load(self._env, name)
        except ExternalError as error:
            self._trouble[name] = str(error)
            readings.clear()
            return None
        self._trouble.pop(name, None)
        load = load_between(readings[-1], reading) if readings else None
        if readings and not belongs_to(readings[-1], reading):
            readings.clear()
        readings.append(reading)
        while len(readings) > 2 and reading.at - readings[1].at >= self._limits.high_for:
            readings.popleft()
        return load

    def _tell(self, name: str, choice: Choice) -> None:
        """Once for as long as it would move the same services: its figures change all the time."""
        if name in self._moving:
            return
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
                    name in self._moving,
                )
                for name, course in self._courses.items()
            }
        )

    # -- do: move ----------------------------------------------------------------------------------------------

    def _begin(self, moves: Sequence[Move], busy: Collection[str], *, calm: bool = True) -> None:
        """`busy`: from or to which one is moved, or was just now, whoever asked. `calm`: time passes between two."""
        if failing_over(self._env):
            return
        for move in moves:
            pair = {move.source, move.to}
            if pair & {*busy, *self._moving} or (calm and any(self._was_tried(name) for name in pair)):
                continue
            self._moving |= pair
            self._movers.add(move.container)
            try:
                self._env.runtime.spawn(partial(self._carry_out, move), f"move {move.container}")
            except RuntimeError:
                # No thread can be had now: at the next turn, perhaps.
                self._end(move)

    def _was_tried(self, name: str) -> bool:
        at = self._tried_at.get(name)
        return at is not None and self._steady() - at < self._env.plan.balance.again_after

    def _end(self, move: Move) -> None:
        self._movers.discard(move.container)
        self._moving -= {move.source, move.to}

    def _carry_out(self, move: Move) -> None:
        overload = self._courses[move.source].why
        why = f"secondary {move.source} is overloaded ({overload})" if overload else move.why
        try:
            # Everybody else sees it serve where it does, until it does so elsewhere.
            env = self._env.apart()
            with self._working_on(move.container):
                episode = carry_out(env, move.container, move.to, why, BALANCE, self._reporter)
            if episode is not None:
                log.info("%s: epoch %d: %s: %s", move.container, episode.epoch, episode.outcome, episode.reason)
        except Exception as error:  # noqa: BLE001  a thread that ends without a word would hold the two for ever
            said = str(error) if isinstance(error, VCRecoveryError) else bug_in_words(error)
            log.error("%s: it is not moved to %s: %s", move.container, move.to, said)
            if isinstance(error, CalledOffError):
                said = f"{CALLED_OFF}{said}"
            # What cannot be written now is given up at a later turn.
            with suppress(BusyError, ExternalError):
                give_up(self._env, move.container, said)
        finally:
            self._changed |= {move.source, move.to}
            self._tried_at |= dict.fromkeys((move.source, move.to), self._steady())
            self._end(move)

    def _give_up_what_nobody_does(self) -> None:
        """What an earlier watcher has begun, or what could not be given up then. Raises ExternalError."""
        for episode in self._env.journal.open_episodes():
            if episode.request.by == BALANCE and episode.service not in self._movers:
                # Who is at work on it goes on with it.
                with suppress(BusyError):
                    give_up(self._env, episode.service, f"{CALLED_OFF}nobody goes on with it")


def _proposal(name: str, choice: Choice) -> list[str]:
    return [told(move) for move in choice.moves if move.source == name]


def _why_nothing(name: str, choice: Choice) -> str:
    kept = "; ".join(f"{one}: {why}" for one, why in choice.kept_on(name).items())
    return kept or choice.short.get(name, "nothing serves there")


def keep_looking_at_loads(watch: LoadWatch, stop: Event) -> None:
    """Returns when `stop` is set."""
    trouble = "how loaded the secondaries are is not known: {}; going on"
    take_turns(watch.turn, every=EVERY, stop=stop, log=log, about="loads", trouble=trouble)
