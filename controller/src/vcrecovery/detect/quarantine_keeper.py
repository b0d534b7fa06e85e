"""Holds old primaries on one hypervisor: paused as soon as libvirt reports their start, and looked at again and again.

A thread of its own for each hypervisor, with a connection of its own, since any call to one may hang. It connects only
while there is something to hold, and whoever detects failures, this program or Zabbix, it works.
"""

from __future__ import annotations

import contextlib
import logging
import math
import queue
from collections.abc import Callable, Sequence
from functools import partial

from vcrecovery.core.domain import DomainEvent
from vcrecovery.core.power import Power
from vcrecovery.core.returning import Act, Quarantine, decide, why_forgotten
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.detect.rounds import Rounds
from vcrecovery.drivers.runtime import Event, Inbox, ask
from vcrecovery.errors import BusyError, ExternalError, VCRecoveryError
from vcrecovery.keeping import SayOnce, go_on
from vcrecovery.operations.environment import Environment
from vcrecovery.standby.container import has_gone_back
from vcrecovery.store.quarantines import QuarantineBook, quarantine_lock

log = logging.getLogger("vcrecovery.watch")

#: Seconds between two looks at the journal, and at the VMs that are in question.
TICK = 1.0
LOOK_EVERY = 5.0
#: Seconds for libvirt to pause or resume a VM; below the time for which a `standby reset` waits for us.
WITHIN = 5.0
#: Seconds for LXD to say what a standby is, before its old primary is paused all the same.
SAYS_WITHIN = 0.5
#: Seconds for which one that did not is not asked again: all VMs of it that are back would wait, one after the other.
ASK_AGAIN_AFTER = 5.0
_RUNS = frozenset({"started", "resumed"})


def hold_returning(env: Environment, stop: Event, rounds: Rounds) -> None:
    """Starts the threads, if the plan wants it. They end soon after `stop` is set."""
    if not env.plan.detection.hold_returning:
        return
    # It may come back on any of them: whoever starts it need not know where it was last.
    for host in env.plan.hypervisors:
        names = list(env.plan.services)
        keeper = QuarantineKeeper(env, host, names, rounds)
        env.runtime.spawn(partial(keeper.run, stop), f"quarantine-{host}")


class QuarantineKeeper:
    """`env` is not shared with whoever else subscribes to events: a `LibvirtHost` knows of one subscription.

    Nor would it be good to wait behind their questions.
    """

    def __init__(self, env: Environment, host: str, services: Sequence[str], rounds: Rounds | None = None) -> None:
        self._env = env
        self._name = host
        self._host = env.hosts[host]
        self._uuids = {name: str(env.plan.services[name].primary.uuid) for name in services}
        self._by_vm = {uuid: name for name, uuid in self._uuids.items()}
        self._book = QuarantineBook(env.journal)
        self._monotonic = env.clock.steady
        self._inbox: Inbox[tuple[float, DomainEvent]] = env.runtime.inbox()
        self._lost = env.runtime.event()
        self._unsubscribe: Callable[[], None] | None = None
        self._next_look = 0.0
        #: The epoch of each service of which the journal was behind when its secondary was asked last.
        self._behind: dict[str, int] = {}
        #: When a secondary that did not answer is asked again.
        self._ask_again: dict[str, float] = {}
        self._say = SayOnce(log)
        self._rounds = rounds or Rounds()
        self._goes_round()

    def _goes_round(self) -> None:
        self._rounds.begin(f"hold of old primaries on hypervisor {self._name}")

    def run(self, stop: Event) -> None:
        def turn() -> None:
            self._goes_round()
            self._round(stop)

        def trouble(error: str) -> str:
            return f"hypervisor {self._name}: {error}; trying again"

        go_on(turn, stop=stop, say=self._say, about=self._name, trouble=trouble, again_after=TICK)
        self._end()

    def _round(self, stop: Event) -> None:
        wanted = sorted(self._book.in_question() & set(self._uuids))
        if not wanted:
            self._end()
            stop.wait(TICK)
            return
        # First the events, then the states: a start in between is seen by both, none by neither.
        if not self._subscribed():
            stop.wait(TICK)
            return
        if self._monotonic() >= self._next_look:
            self._next_look = math.inf
            try:
                self._look(wanted)
            finally:
                # Or sooner, if that is what it has found.
                self._next_look = min(self._next_look, self._monotonic() + LOOK_EVERY)
        with contextlib.suppress(queue.Empty):
            at, event = self._inbox.get(timeout=TICK)
            self._came(at, event)

    # -- what libvirt says -------------------------------------------------------------------------------------

    def _subscribed(self) -> bool:
        """Whether libvirt reports to us; if it did not before, everything is re-checked."""
        if self._unsubscribe is not None:
            if not self._lost.is_set() and self._host.alive():
                return True
            self._end()
        self._lost.clear()
        try:
            self._unsubscribe = self._host.subscribe(
                lambda event: self._inbox.put((self._monotonic(), event)), self._lost.set
            )
        except ExternalError as error:
            self._unanswered(error)
            return False
        self._next_look = 0.0
        log.debug("hypervisor %s: quarantining returning primaries", self._name)
        return True

    def _unanswered(self, error: ExternalError) -> None:
        # One that was powered off by a fence is silent for long, and rightly so.
        self._say(self._name, f"whether an old primary is back is unknown: {error}", logging.WARNING)

    def _end(self) -> None:
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def _came(self, at: float, event: DomainEvent) -> None:
        name = self._by_vm.get(event.uuid)
        if name is None:
            return
        if event.event in _RUNS:
            log.debug("%s: the VM is %s, says hypervisor %s", name, event.event, self._name)
            self._consider(name, Power.RUNNING, at)
        elif event.stopped:
            self._next_look = 0.0

    def _look(self, names: Sequence[str]) -> None:
        try:
            found = self._host.usage([self._uuids[name] for name in names])
        except ExternalError as error:
            self._unanswered(error)
            return
        for name in names:
            usage = found.get(self._uuids[name])
            self._goes_round()
            self._consider(name, Power.ABSENT if usage is None else usage.reading.power, None)
        self._say.well(self._name)

    # -- what is done ------------------------------------------------------------------------------------------

    def _consider(self, name: str, power: Power, event_at: float | None) -> None:
        """`event_at`: when libvirt reported that the VM runs, by the monotonic clock."""
        try:
            if self._decide(name, power)[0] is Act.NOTHING:
                self._say.well(name)
                return
            with quarantine_lock(self._env.plan.state_dir, name, brief=True, clock=self._env.clock):
                # Again, since a `standby reset` may have come between.
                act, state, quarantine = self._decide(name, power)
                if not self._act(act, name, power, state, quarantine, event_at):
                    return
        except BusyError:
            self._next_look = self._monotonic() + TICK
        except VCRecoveryError as error:
            self._say(name, f"{name}: its old primary cannot be quarantined: {error}", logging.ERROR)
        else:
            self._say.well(name)

    def _decide(self, name: str, power: Power) -> tuple[Act, ServiceState, Quarantine | None]:
        state, quarantine = self._env.journal.state(name), self._book.open(name, self._here(name))
        return decide(state, power, quarantine, self._env.clock.now()), state, quarantine

    def _act(
        self,
        act: Act,
        name: str,
        power: Power,
        state: ServiceState,
        quarantine: Quarantine | None,
        event_at: float | None,
    ) -> bool:
        """False where the journal is behind, which was said."""
        now = self._env.clock.now()
        if act is Act.PAUSE and self._has_gone_back(name, state):
            self._say(
                name,
                f"{name}: its VM is left alone: by the journal its standby serves since epoch {state.epoch}, and that "
                "stands by: another controller has gone back to its VM, or this journal is an older one; "
                f"`vcrecovery standby reset {name}` has this one know",
                logging.ERROR,
            )
            return False
        if act is Act.PAUSE:
            self._pause(name, state, quarantine, event_at)
        elif quarantine is None:
            return True
        elif act is Act.NOTE:
            # It is paused; whether it would start with its host, nobody knows.
            self._host.suspend(quarantine.uuid, WITHIN)
            self._book.held(quarantine.id, now)
            self._tell(name)
        elif act is Act.RESUME:
            self._host.resume(quarantine.uuid, WITHIN)
            self._book.release(quarantine.id, now, "the primary serves again")
            log.warning("%s: its primary serves again; its quarantine has ended", name, extra={"service": name})
        elif act is Act.FORGET:
            self._book.release(quarantine.id, now, why_forgotten(power))
            log.info("%s: the quarantine of its old primary has ended: %s", name, why_forgotten(power))
        return True

    def _has_gone_back(self, name: str, state: ServiceState) -> bool:
        """By the standby's own word. Not where it has never come at once: two live copies are worse."""
        if state.side is not Side.STANDBY or state.open_episode is not None:
            return False
        secondary = self._env.plan.services[name].standby.secondary
        if self._monotonic() >= self._ask_again.get(secondary, 0.0):
            question = partial(self._env.lxd[secondary].get, name)
            try:
                found = ask(self._env.runtime, question, f"standby of {name}").result(SAYS_WITHIN)
            except (ExternalError, TimeoutError):
                self._ask_again[secondary] = self._monotonic() + ASK_AGAIN_AFTER
            else:
                self._behind.pop(name, None)
                if has_gone_back(found, state.epoch):
                    self._behind[name] = state.epoch
        return self._behind.get(name) == state.epoch

    def _here(self, name: str) -> list[str]:
        """What this hypervisor is called in the journal: by its name, and by none where it is the plan's."""
        home = self._env.plan.services[name].primary.hypervisor == self._name
        return [self._name, ""] if home else [self._name]

    def _pause(self, name: str, state: ServiceState, quarantine: Quarantine | None, event_at: float | None) -> None:
        uuid, now = self._uuids[name], self._env.clock.now
        number: int | None = None
        try:
            number = self._book.begin(name, state.epoch, uuid, now(), self._here(name))
        except ExternalError as error:
            # Two live copies are worse than a VM that somebody has to resume by hand.
            self._say(
                self._name,
                f"{name}: its old primary is paused, and that could not be journalled: {error}",
                logging.ERROR,
            )
        paused = self._host.suspend(uuid, WITHIN)
        if paused:
            self._tell(name, None if event_at is None else self._monotonic() - event_at)
        if number is None:
            return
        if paused or quarantine is not None:
            self._book.held(number, now())
        else:
            self._book.release(number, now(), "it was paused by another client, or off already")

    def _tell(self, name: str, took: float | None = None) -> None:
        log.warning(
            "%s: the old primary came back after its failover: VM %s is quarantined (paused) on %s%s",
            name,
            self._uuids[name],
            self._name,
            "" if took is None else f", {took:.3f} s after libvirt reported it",
            extra={"service": name},
        )
