"""Several services that fail over at the same time: which waits for which, and how many start at once.

Each has its own thread, its own lock and its own journal entries, as if it were alone; what they share is asked before
a standby starts, and nowhere else. Confirmations and fences are never held up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from vcrecovery.core.decisions import GO, Readiness, Unmet, Wait
from vcrecovery.core.episode import Step
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.runtime import Event, Runtime
from vcrecovery.errors import NotStartedError, VCRecoveryError
from vcrecovery.operations.start_conditions import StartConditions

#: Seconds for a service that another one needs, and that does not answer, to be seen as failed, or to answer again.
SHOWS_WITHIN = 30.0
#: Seconds between two looks while nothing is heard: another process may be at work on what we wait for.
LOOK_EVERY = 1.0


class StartGate:
    """The gate that services share which fail over at the same time in this process."""

    def __init__(self, around: StartConditions, clock: Clock, runtime: Runtime) -> None:
        self._around = around
        self._monotonic = clock.steady
        self._runtime = runtime
        self._lock = runtime.lock()
        #: Each service that waits has its own, rung only when its last answer may not hold any more: with hundreds of
        #: them, waking all at every change would cost more than all the rest.
        self._bells: defaultdict[str, Event] = defaultdict(runtime.event)
        self._needed_by: defaultdict[str, set[str]] = defaultdict(set)
        self._at_work: Counter[str] = Counter()
        self._trouble: dict[str, str] = {}
        self._starting: defaultdict[str, set[str]] = defaultdict(set)
        #: Those that wait for a place, the first one first.
        self._queue: defaultdict[str, dict[str, None]] = defaultdict(dict)
        self._waits_since: dict[tuple[str, str], float] = {}

    # -- what goes on ------------------------------------------------------------------------------------------

    def begin(self, services: Iterable[str]) -> None:
        """From now on, those that need one of these wait for it."""
        for name in services:
            with self._change_of(name):
                self._at_work[name] += 1
                self._trouble.pop(name, None)

    def try_again(self, service: str) -> None:
        """Whether it comes up is open again."""
        with self._change_of(service):
            self._trouble.pop(service, None)

    def failed(self, service: str, trouble: str) -> None:
        """This try has failed, there may be another one. `trouble`: why (see `trouble_of`)."""
        with self._change_of(service):
            self._trouble[service] = trouble

    def end(self, service: str, trouble: str = "") -> None:
        """What `begin` began for it is over. `trouble`: why it is not up."""
        with self._change_of(service):
            self._at_work[service] -= 1
            if trouble:
                self._trouble[service] = trouble

    def is_at_work(self, service: str) -> bool:
        with self._lock:
            return self._at_work[service] > 0

    @contextmanager
    def _change_of(self, service: str) -> Iterator[None]:
        """Those that need it look again."""
        with self._lock:
            yield
            for other in self._needed_by[service]:
                self._bells[other].set()

    # -- the gate ----------------------------------------------------------------------------------------------

    def readiness(self, service: str) -> Readiness:
        needs = self._around.needs(service)
        with self._lock:
            # Before anything is read: what changes from here on is rung for.
            self._bells[service].clear()
            for need in needs:
                self._needed_by[need].add(service)
        found = [self._of_need(service, need) for need in needs]
        for kind in (Unmet, Wait):
            if answer := next((entry for entry in found if isinstance(entry, kind)), None):
                return answer
        return self._place(service)

    def wait(self, service: str) -> None:
        with self._lock:
            bell = self._bells[service]
        bell.wait(LOOK_EVERY)

    def left(self, service: str) -> None:
        with self._change_of(service):
            for secondary, names in self._starting.items():
                queue = self._queue[secondary]
                queue.pop(service, None)
                if service in names:
                    names.discard(service)
                    if first := next(iter(queue), None):
                        # Gone from the queue, so that the next place that is left is the next one's.
                        del queue[first]
                        self._bells[first].set()

    def _place(self, service: str) -> Readiness:
        if not self._around.boots(service):
            return GO
        secondary = self._around.secondary(service)
        with self._lock:
            # One may start anywhere: a service that fails alone does not wait for an answer about the machine.
            if not self._starting[secondary] - {service}:
                return self._take_place(secondary, service)
        most = self._around.most(secondary)
        with self._lock:
            if service in self._starting[secondary] or len(self._starting[secondary]) < most:
                return self._take_place(secondary, service)
            self._queue[secondary].setdefault(service)
        # Without the names of the others: the sentence is told once, and they change.
        return Wait(f"waiting for one of the {most} that start on {secondary} at the same time")

    def _take_place(self, secondary: str, service: str) -> Readiness:
        self._queue[secondary].pop(service, None)
        self._starting[secondary].add(service)
        return GO

    def _of_need(self, service: str, need: str) -> Readiness:
        """Whether `service` may start as far as `need` is concerned."""
        # Read before the journal: what ends after this is rung for.
        with self._lock:
            at_work, trouble = self._at_work[need] > 0, self._trouble.get(need)
        state = self._around.state(need)
        # One that is to serve already may be at work since it does not answer: its failover begins once that is seen.
        is_looked_at = at_work and state.open_episode is None
        if _is_up(state) and not is_looked_at:
            self._waits_since.pop((service, need), None)
            return GO
        if at_work and trouble is None:
            return Wait(f"waiting for {need}, which it needs")
        episode = state.open_episode
        unharmed = state.side is Side.PRIMARY and (episode is None or not episode.has_acted)
        if unharmed and self._around.primary_answers(need):
            self._waits_since.pop((service, need), None)
            return GO
        if trouble is not None:
            return Unmet(
                f"needs {need}, which is not up: {trouble}", f"fix that, then run it again; {_without(service)}"
            )
        # Nobody here is at work on it: it may just have failed, or be another controller's.
        since = self._waits_since.setdefault((service, need), self._monotonic())
        if self._monotonic() - since < SHOWS_WITHIN:
            return Wait(f"waiting for {need}, which it needs, and which does not answer")
        return Unmet(
            f"needs {need}, which is not up: neither its primary nor its standby serves",
            f"`vcrecovery failover {need}`, then run it again; {_without(service)}",
        )


def _is_up(state: ServiceState) -> bool:
    """Whether its standby serves, with its ports seen open; also while it is copied for a move or a failback."""
    episode = state.open_episode
    seen = episode is not None and episode.done(Step.PROBE) is not None
    return state.standby_serves or (state.side is Side.STANDBY and seen)


def trouble_of(error: VCRecoveryError) -> str:
    """For those that need it: `needs app, which is not up: it needs db, which is not up: ...`."""
    if isinstance(error, NotStartedError):
        return f"it {error.reason}" if error.unmet else error.reason
    return error.message


def _without(service: str) -> str:
    return f"`vcrecovery failover {service}` does without"
