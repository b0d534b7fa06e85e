"""Watches one hypervisor: libvirt's events as they come, and every few seconds the state and CPU time of its VMs.

All in threads of their own, since any call to a hypervisor may hang; what they learn goes into one inbox.
"""

from __future__ import annotations

import contextlib
import logging
import queue
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from vcrecovery.core.domain import DomainEvent, DomainReading, DomainUsage
from vcrecovery.core.power import Power
from vcrecovery.detect.rounds import Rounds
from vcrecovery.drivers.clock import Clock, SystemClock
from vcrecovery.drivers.libvirt import LibvirtHost
from vcrecovery.drivers.runtime import THREADS, Event, Inbox, Runtime
from vcrecovery.errors import ExternalError
from vcrecovery.keeping import SayOnce, go_on

log = logging.getLogger("vcrecovery.watch")

#: Seconds: between two questions, before a lost connection is tried again, and between looks at a connection.
ASK_EVERY = 5.0
RECONNECT_DELAY = 1.0
#: Seconds for which it has to go well before the same trouble is told again.
SAID_FOR = 60.0
TICK = 1.0
#: What the threads are called.
_TASKS = {
    "_keep_subscribed": "subscription to",
    "_keep_reading": "reading of VMs on",
    "_keep_asking": "questions to",
}


@dataclass(frozen=True)
class Happened:
    """libvirt has reported an event of a VM. `reading` is its state after that, `at` when it was read (monotonic)."""

    host: str
    event: DomainEvent
    reading: DomainReading
    at: float


@dataclass(frozen=True)
class Began:
    """A VM was started, or its guest reboots."""

    host: str
    uuid: str


@dataclass(frozen=True)
class Connected:
    host: str


@dataclass(frozen=True)
class Lost:
    """The connection is lost, or cannot be made."""

    host: str
    detail: str


@dataclass(frozen=True)
class Heard:
    """The hypervisor's answer. `at` by the monotonic clock; `asked_at` is when the question was put."""

    host: str
    asked_at: float
    at: float
    usage: Mapping[str, DomainUsage] = field(default_factory=dict)


@dataclass(frozen=True)
class NotHeard:
    """It does not answer. `since`, by the monotonic clock: when it was last heard."""

    host: str
    since: float
    detail: str


Message = Happened | Began | Connected | Lost | Heard | NotHeard


class HostWatch:
    """Tells `inbox` what hypervisor `name` says of the VMs `uuids`."""

    def __init__(
        self,
        name: str,
        host: LibvirtHost,
        uuids: Sequence[str],
        inbox: Inbox[Message],
        clock: Clock | None = None,
        runtime: Runtime = THREADS,
        rounds: Rounds | None = None,
    ) -> None:
        self._name = name
        self._host = host
        self._uuids = uuids
        self._inbox = inbox
        self._runtime = runtime
        self._monotonic = (clock or SystemClock()).steady
        self._rounds = rounds or Rounds()
        self._heard_at = self._monotonic()
        #: Whether anything was told of its answers yet.
        self._told = False
        self._ask_now = runtime.event()
        self._events: Inbox[DomainEvent] = runtime.inbox()

    def start(self, stop: Event) -> None:
        self._heard_at = self._monotonic()
        for target in (self._keep_subscribed, self._keep_reading, self._keep_asking):
            name = f"{target.__name__}-{self._name}"
            self._goes_round(target)
            self._runtime.spawn(partial(self._keep_on, target, stop), name)

    def _goes_round(self, target: Callable[[Event], None]) -> None:
        self._rounds.begin(f"{_TASKS[target.__name__]} hypervisor {self._name}")

    def _keep_on(self, target: Callable[[Event], None], stop: Event) -> None:
        """Whatever breaks, as where this machine can start no thread for a moment."""
        say = SayOnce(log)

        def turn() -> None:
            begun = self._monotonic()
            self._goes_round(target)
            try:
                target(stop)
            finally:
                if self._monotonic() - begun > SAID_FOR:
                    say.well(self._name)

        def trouble(error: str) -> str:
            return f"hypervisor {self._name}: {error}; restarting its watch"

        go_on(turn, stop=stop, say=say, about=self._name, trouble=trouble, again_after=RECONNECT_DELAY)

    def _keep_subscribed(self, stop: Event) -> None:
        """Subscribes to the host's events, again after each loss."""
        lost = self._runtime.event()
        said = ""
        while not stop.is_set():
            self._goes_round(self._keep_subscribed)
            lost.clear()
            try:
                end = self._host.subscribe(
                    self._hear,
                    lost.set,
                    lambda uuid: self._inbox.put(Began(self._name, uuid)),
                )
            except ExternalError as error:
                if error.message != said:
                    said = error.message
                    self._inbox.put(Lost(self._name, str(error)))
                stop.wait(RECONNECT_DELAY)
                continue
            said = ""
            try:
                self._inbox.put(Connected(self._name))
                self._ask_now.set()
                while not stop.is_set() and not lost.wait(TICK) and self._host.alive():
                    self._goes_round(self._keep_subscribed)
            finally:
                end()
            if not stop.is_set():
                self._inbox.put(Lost(self._name, f"connection to hypervisor {self._name} lost"))

    def _hear(self, event: DomainEvent) -> None:
        """In libvirt's thread, which must not wait."""
        if event.uuid in self._uuids:
            self._events.put(event)

    def _keep_reading(self, stop: Event) -> None:
        """Reads the state of each VM of which libvirt reports something."""
        while not stop.is_set():
            self._goes_round(self._keep_reading)
            with contextlib.suppress(queue.Empty):
                event = self._events.get(timeout=TICK)
                try:
                    reading = self._host.read(event.uuid)
                except ExternalError as error:
                    reading = DomainReading(Power.UNREACHABLE, detail=error.message)
                self._inbox.put(Happened(self._name, event, reading, self._monotonic()))

    def _keep_asking(self, stop: Event) -> None:
        while not stop.is_set():
            self._goes_round(self._keep_asking)
            asked_at = self._monotonic()
            try:
                usage = self._host.usage(self._uuids)
            except ExternalError as error:
                # One that fails at once, before anything is known, is put again before that counts as silence.
                again = not self._told and self._monotonic() - asked_at < RECONNECT_DELAY
                if not again:
                    self._inbox.put(NotHeard(self._name, self._heard_at, error.message))
            else:
                again = False
                self._heard_at = self._monotonic()
                self._inbox.put(Heard(self._name, asked_at, self._heard_at, usage))
            self._told = True
            self._ask_now.wait(RECONNECT_DELAY if again else ASK_EVERY)
            self._ask_now.clear()
