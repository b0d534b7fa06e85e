"""Asks the ports of whoever serves, all the time: a service is well when it answers, not when its machine runs.

Each service is asked in a task of its own, which may take as long as its probes may, and never twice at once. Nothing
is decided here: what came of it is told, and outages are journalled.
"""

from __future__ import annotations

import contextlib
import logging
import queue
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from vcrecovery.core.episode import Episode
from vcrecovery.core.health import Answers, Course, Health, Latencies, after, not_known
from vcrecovery.core.service_state import Serving, Side
from vcrecovery.core.text import span
from vcrecovery.detect.rounds import Rounds
from vcrecovery.drivers.runtime import Event, Inbox
from vcrecovery.errors import ExternalError, RefusedError, in_words
from vcrecovery.keeping import SayOnce, go_on
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.serving import targets
from vcrecovery.plan.places import put
from vcrecovery.store.outages import OutageBook

log = logging.getLogger("vcrecovery.watch")

#: Seconds after which the journal is asked again who serves.
READ_EVERY = 1.0
#: Seconds between two looks at who is due.
TURN = 0.02
#: So many services are asked at the same time; the others wait for their turn.
AT_ONCE = 256
#: Two questions are apart by so much of `probe_every`, drawn anew each time: hundreds must not ask in one moment.
JITTER = (0.8, 0.95)
#: Seconds that any probe may take, whatever the plan gives it: an outage must not be noticed later than that.
AT_MOST = 5.0
#: Seconds after which a probe hangs, and nothing is known any more: a command may wait for a disk that is gone.
HANGS_AFTER = 20.0
#: Seconds between two turns after which this program itself stood still, which says nothing of its probes.
HELD_UP = 5.0
TASK = "questions to the services"


@dataclass(frozen=True)
class _Asked:
    """What one task found. `answers` is None where this machine could not ask."""

    service: str
    serving: Serving
    answers: Answers | None
    trouble: str = ""


class HealthWatch:
    """All services of a plan. `courses`, `latencies` and `serving` may be read by other threads."""

    def __init__(self, env: Environment, rounds: Rounds) -> None:
        self._env, self._rounds, self._draw = env, rounds, env.runtime.draw
        self._every = env.plan.detection.probe_every
        self._slow_after = env.plan.detection.slow_after
        self._book = OutageBook(env.journal)
        self._inbox: Inbox[_Asked] = env.runtime.inbox()
        #: Those that are asked now, and since when.
        self._asking: dict[str, float] = {}
        self._turned_at = float("-inf")
        #: Services whose standby is where the plan has no place for it: nobody knows where to ask.
        self._nowhere: set[str] = set()
        self._due: dict[str, float] = {}
        self.serving: Mapping[str, Serving] = {}
        self._read_at = float("-inf")
        #: When the next one is to be asked.
        self._next = float("-inf")
        #: What the journal has to learn: it may be on a full disk for a while.
        self._begun: dict[str, tuple[float, str]] = {}
        self._ended: dict[str, float] = {}
        self._failovers: dict[str, tuple[float, float, str]] = {}
        self._say = SayOnce(log)
        self.courses: dict[str, Course] = {name: Course() for name in env.plan.services}
        self.latencies: dict[str, Latencies] = {name: Latencies() for name in env.plan.services}

    def is_current(self) -> bool:
        """Whether `courses` are of now: services are still asked."""
        return self._env.clock.steady() - self._turned_at < HANGS_AFTER

    def run(self, stop: Event) -> None:
        """Returns when `stop` is set."""
        self._take_up()
        steady = self._env.clock.steady
        # Not all of them in the first moment.
        self._due = {name: steady() + self._draw(0.0, self._every) / 2 for name in self.courses}
        while not stop.is_set():
            self._rounds.begin(TASK)
            self._learn(self._what_came(max(0.0, min(READ_EVERY, self._next - steady()))))
            self._write()
            self._read_who_serves(READ_EVERY)
            if steady() >= self._next:
                self._ask_those_due()

    def _take_up(self) -> None:
        """Outages that an earlier watcher left go on until the service is seen to answer."""
        with contextlib.suppress(ExternalError):
            for name, outage in self._book.going_on().items():
                if name in self.courses:
                    self.courses[name] = Course(Health.DOWN, outage.began_at, outage.why)

    def _what_came(self, patience: float) -> list[_Asked]:
        """After so many seconds, or as soon as something has come."""
        found: list[_Asked] = []
        with contextlib.suppress(queue.Empty):
            found.append(self._inbox.get(timeout=patience))
            while True:
                found.append(self._inbox.get_nowait())
        return found

    def _read_who_serves(self, old: float) -> None:
        """If it was not read within the last `old` seconds."""
        if (now := self._env.clock.steady()) - self._read_at < old:
            return
        self._read_at = now
        with contextlib.suppress(ExternalError):
            found = self._env.journal.who_serves()
            at_first = Serving()
            changed = [n for n in self.courses if found.get(n, at_first) != self.serving.get(n, at_first)]
            # Before any of it is remembered: what cannot be read now is read the next time.
            done = {name: self._env.journal.newest_done(name) for name in changed}
            for name in changed:
                self._is_where(name, found.get(name, at_first))
            # Only now: who reads it looks where the plan has it.
            self.serving = found
            for name in changed:
                self._is_due(name, now)
                self._takes_over(name, found.get(name, Serving()), done[name])

    def _is_where(self, name: str, serving: Serving) -> None:
        """All who share this plan see it. Who is at work on it has his own word for where it is."""
        if serving.at_work:
            return
        self._nowhere.discard(name)
        try:
            put(self._env.plan, name, serving.standby_on)
        except RefusedError as error:
            self._nowhere.add(name)
            log.error("%s: %s", name, error)

    def _takes_over(self, name: str, serving: Serving, episode: Episode | None) -> None:
        """Whoever serves is another one, or will be. A failover that is done has seen its ports open."""
        course = self.courses[name] = not_known(self.courses[name])
        if serving.side is Side.PRIMARY or serving.at_work:
            return
        if episode is None or episode.epoch != serving.epoch:
            return
        probe = episode.ports_opened
        up_at = (probe.ended_at if probe is not None else episode.closed_at) or episode.opened_at
        if course.health is Health.DOWN:
            self._ended[name] = up_at
        else:
            began_at = episode.request.began_at or episode.opened_at
            self._failovers[name] = (began_at, up_at, episode.cause)
        self.courses[name] = Course(Health.ANSWERS, up_at)

    def _ask_those_due(self) -> None:
        now = self._env.clock.steady()
        if now - self._turned_at >= HELD_UP:
            self._asking = dict.fromkeys(self._asking, now)
        self._turned_at = now
        for name, due in self._due.items():
            if due <= now and name not in self._asking and len(self._asking) < AT_ONCE:
                self._begin(name, now)
        for name in [name for name, since in self._asking.items() if now - since >= HANGS_AFTER]:
            self.courses[name] = not_known(self.courses[name])
            self._say(name, f"{name}: whether it answers is not known: its probe hangs", logging.ERROR, service=name)
        # All of them are looked through here, so not for each answer that comes.
        others = (due for name, due in self._due.items() if name not in self._asking)
        self._next = max(now + TURN, min((now + READ_EVERY, *others)))

    def _begin(self, name: str, now: float) -> None:
        serving = self.serving.get(name, Serving())
        self._due[name] = now + READ_EVERY
        if serving.at_work or (name in self._nowhere and serving.side is Side.STANDBY):
            return
        # Where no thread can be had now, it is asked a little later.
        with contextlib.suppress(RuntimeError):
            self._env.runtime.spawn(partial(self._ask, name, serving), f"probe of {name}")
            self._asking[name] = now

    def _ask(self, name: str, serving: Serving) -> None:
        """In a task of its own."""
        service, clock = self._env.plan.services[name], self._env.clock
        at, begun = clock.now(), clock.steady()
        try:
            found = self._env.probes.ask_patiently(targets(service, serving.side), AT_MOST)
        except Exception as error:  # noqa: BLE001  a task that ends without a word would never be begun again
            self._inbox.put(_Asked(name, serving, None, in_words(error)))
            return
        silent = {result.label: result.reason for result in found if not result.ok}
        self._inbox.put(_Asked(name, serving, Answers(at, clock.steady() - begun, silent)))

    def _learn(self, batch: Sequence[_Asked]) -> None:
        courses = {asked.service: self._course(asked) for asked in batch}
        if any(self._begins_or_ends(name, course) for name, course in courses.items()):
            # A failover may have begun since they were asked: then that is what there is to say.
            self._read_who_serves(0.0)
        now = self._env.clock.steady()
        for asked in batch:
            name, course = asked.service, courses[asked.service]
            self._asking.pop(name, None)
            if asked.serving != self.serving.get(name, Serving()):
                self._is_due(name, now)
                continue
            self._is_due(name, now + course.next_look(self._every * self._draw(*JITTER)))
            self._tell(asked, course)
            self.courses[name] = course

    def _is_due(self, name: str, at: float) -> None:
        self._due[name] = at
        self._next = min(self._next, at)

    def _course(self, asked: _Asked) -> Course:
        before = self.courses[asked.service]
        return not_known(before) if asked.answers is None else after(before, asked.answers, self._slow_after)

    def _begins_or_ends(self, name: str, course: Course) -> bool:
        return (course.health is Health.DOWN) is not (self.courses[name].health is Health.DOWN)

    def _tell(self, asked: _Asked, course: Course) -> None:
        name, side, before = asked.service, asked.serving.side, self.courses[asked.service]
        if asked.answers is None:
            self._say(name, f"{name}: whether it answers is not known: {asked.trouble}", logging.ERROR, service=name)
        else:
            self._say.well(name)
            if not asked.answers.silent:
                self.latencies[name].add(asked.answers.seconds)
        if not self._begins_or_ends(name, course):
            return
        at = course.since or asked.answers.at if asked.answers is not None else 0.0
        if course.health is Health.DOWN:
            self._begun[name] = (at, course.why)
            log.warning("%s: the %s does not answer: %s", name, side, course.why, extra={"service": name})
        else:
            self._ended[name] = at
            lasted = span(at - (before.since or at))
            log.info("%s: the %s answers; the service was down for %s", name, side, lasted, extra={"service": name})

    def _write(self) -> None:
        if not (self._begun or self._ended or self._failovers):
            return
        try:
            self._book.write(self._begun, self._ended, self._failovers)
        except ExternalError as error:
            self._say("journal", f"outages cannot be journalled now: {error}", logging.ERROR)
            return
        self._say.well("journal")
        self._begun, self._ended, self._failovers = {}, {}, {}


def keep_asking(watch: HealthWatch, stop: Event) -> None:
    """One turn that breaks is followed by the next: a service that is down would go unnoticed."""
    go_on(
        lambda: watch.run(stop),
        stop=stop,
        say=SayOnce(log),
        about="probes",
        trouble=lambda error: f"the services are not asked: {error}; going on",
        again_after=READ_EVERY,
    )
