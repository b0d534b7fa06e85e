"""Zabbix as the detector: takes the events that its action hands over, and tells Zabbix what came of them.

Each is answered once, whatever happens meanwhile: Zabbix repeats its action, loses it, or is down, or this controller
is killed.
"""

from __future__ import annotations

import logging
import select
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Protocol

from vcrecovery.detect import spool
from vcrecovery.detect.answers import shortened
from vcrecovery.detect.event_meaning import Event, EventMeaning, Recover
from vcrecovery.drivers import runtime
from vcrecovery.errors import ExternalError, VCRecoveryError
from vcrecovery.keeping import SayOnce, go_on
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover import retry_delay
from vcrecovery.store.events import EventBook

log = logging.getLogger("vcrecovery.zabbix")

#: Seconds: between looks into the folder without a call, and between questions for problems whose command was lost.
LOOK_EVERY = 1.0
CATCH_UP_EVERY = 60.0
#: Events that are worked on at the same time; further ones wait in the folder. Those do not count that wait for
#: something outside, or only for Zabbix to take their answer: that may take hours.
AT_ONCE = 64


class Api(Protocol):
    """The part of Zabbix's API that is needed. Every call raises ExternalError when the API does not answer."""

    def event(self, number: str) -> Event | None:
        """None when there is no such event, or the token may not see it."""

    def acknowledge(self, number: str, message: str) -> None:
        """Adds the message to the event's problem, which is handled."""

    def comment(self, number: str, message: str) -> None:
        """Adds the message to the event's problem, with which nothing is done yet."""

    def open_problems(self) -> Sequence[str]:
        """The ids of the events with tag vcr=recover whose problems are open."""


class ZabbixEvents:
    """Takes events until `stop` is set."""

    def __init__(self, env: Environment, api: Api, recover: Recover) -> None:
        self._env = env
        self._api = api
        self._meaning = EventMeaning(env, recover, self._tell_trouble)
        self._book = EventBook(env.journal)
        self._spool = env.plan.state_dir / "events"
        self._under_way: dict[str, runtime.Task] = {}
        self._in_trouble: set[str] = set()

    def run(self, stop: runtime.Event) -> None:
        say = SayOnce(log)
        with ExitStack() as stack:
            sock: socket.socket | None = None
            next_catch_up = 0.0

            def turn() -> None:
                nonlocal sock, next_catch_up
                if sock is None:
                    sock = stack.enter_context(spool.listening(self._spool))
                found = spool.waiting(self._spool)
                if self._env.clock.steady() >= next_catch_up:
                    next_catch_up = self._env.clock.steady() + CATCH_UP_EVERY
                    found += self._missed()
                self._begin(found, stop)
                self._wait(sock, stop)
                say.well("events")

            def trouble(error: str) -> str:
                return f"events of Zabbix cannot be taken: {error}"

            go_on(turn, stop=stop, say=say, about="events", trouble=trouble, again_after=LOOK_EVERY)

    def _wait(self, sock: socket.socket | None, stop: runtime.Event) -> None:
        """Until somebody calls, or it is time to look anyway."""
        if sock is None:
            stop.wait(LOOK_EVERY)
        elif select.select([sock], [], [], LOOK_EVERY)[0]:
            sock.recv(64)

    def _missed(self) -> list[str]:
        """What an earlier controller left, and problems whose command never arrived."""
        left = [event.id for event in self._book.unfinished(self._env.clock.now())]
        try:
            left += self._api.open_problems()
        except ExternalError as error:
            log.warning("%s", error)
        return list(dict.fromkeys(left))

    def _begin(self, events: Sequence[str], stop: runtime.Event) -> None:
        """Raises ExternalError when the journal cannot be written; the events stay in the folder then."""
        self._under_way = {event: thread for event, thread in self._under_way.items() if thread.is_alive()}
        self._in_trouble.intersection_update(self._under_way)
        for event in dict.fromkeys(events):
            if event in self._under_way or len(self._under_way.keys() - self._in_trouble) >= AT_ONCE:
                continue
            taken = self._book.take(event, self._env.clock.now())
            spool.remove(self._spool, event)
            if not taken.finished:
                work = partial(self._work, event, stop)
                self._under_way[event] = self._env.runtime.spawn(work, f"event-{event}")

    # -- one event ---------------------------------------------------------------------------------------------

    def _work(self, event: str, stop: runtime.Event) -> None:
        """Until the event is answered. Zabbix may be down meanwhile; what it knows is kept in the journal."""
        failures, say = 0, SayOnce(log)
        while not stop.is_set():
            try:
                self._answer(event)
                return
            except ExternalError as error:
                failures += 1
                say(event, f"event {event}: {error}; trying again until it works", logging.ERROR)
                stop.wait(retry_delay(failures))
            except VCRecoveryError as error:
                log.error("event %s: %s", event, error)
                return

    def _answer(self, event: str) -> None:
        taken = self._book.take(event, self._env.clock.now())
        found = self._api.event(event)
        if found is None:
            log.warning("event %s: Zabbix knows no such event, or the token may not see it", event)
            self._book.forget(event)
            return
        if not taken.final:
            log.info("event %s: %s", event, found.name)
            answer = self._meaning.handle(found)
            self._book.answer(event, answer.text, final=answer.final, handled=answer.handled)
            taken = self._book.take(event, self._env.clock.now())
        if taken.told_at is None and taken.answer is not None:
            # A controller may have died after it had told it.
            if not found.says(shortened(taken.answer)):
                try:
                    self._tell(event, taken.answer, handled=taken.handled)
                except ExternalError:
                    # All that is left is Zabbix's, which may refuse it for as long as its token may only read.
                    self._in_trouble.add(event)
                    raise
            self._book.told(event, self._env.clock.now())

    def _tell_trouble(self, event: str, text: str) -> None:
        self._in_trouble.add(event)
        self._tell(event, text, handled=False)

    def _tell(self, event: str, text: str, *, handled: bool) -> None:
        """What is acknowledged looks handled: only what is, may."""
        for line in text.splitlines():
            log.info("event %s: %s", event, line)
        (self._api.acknowledge if handled else self._api.comment)(event, shortened(text))
