"""Several services that fail over at the same time: which waits for which, and how many start at once.

Each has its own thread, its own lock and its own journal entries, as if it were alone; what they share is asked before
a standby starts, and nowhere else. Confirmations and fences are never held up.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from vcrecovery.core.decisions import GO, Readiness, Unmet, Wait
from vcrecovery.core.states import Episode, ServiceState, Side, Step
from vcrecovery.drivers.clock import Clock, SystemClock
from vcrecovery.drivers.runtime import THREADS, Event, Runtime, each
from vcrecovery.errors import BusyError, ExitCode, ExternalError, NotStartedError, RefusedError, VCRecoveryError
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.modes import Mode
from vcrecovery.standby.modes import ChosenModes

log = logging.getLogger("vcrecovery.several")

GIB = 2**30
#: Where LXD does not say how big its machine is.
STARTS_WHEN_NOT_KNOWN = 2
#: More do not come up faster, however big the machine is: LXD itself is in the way.
MOST_STARTS = 32
#: Seconds for a service that another one needs, and that does not answer, to be seen as failed, or to answer again.
SHOWS_WITHIN = 30.0
#: Seconds between two looks while nothing is heard: another process may be at work on what we wait for.
LOOK_EVERY = 1.0


def starts_at_once(cores: int, memory_bytes: int) -> int:
    """How many standbys a machine may start at the same time.

    A boot keeps about half a core busy, since it also waits for the disk and for the network, and wants up to 1 GiB.
    """
    return max(1, min(2 * cores, memory_bytes // GIB, MOST_STARTS))


class StartConditions(Protocol):
    """What the gate asks about services."""

    def needs(self, service: str) -> Sequence[str]: ...

    def secondary(self, service: str) -> str: ...

    def most(self, secondary: str) -> int:
        """How many standbys may start there at the same time."""

    def boots(self, service: str) -> bool:
        """Whether its standby has services to start, so that it wants a part of the machine for a while."""

    def state(self, service: str) -> ServiceState: ...

    def primary_answers(self, service: str) -> bool:
        """Whether a port of its primary is open."""


class LiveConditions:
    """The surroundings as the plan, the journal and the outside have them."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        # What all failovers share is made before one of them asks for it: a cached property has no lock.
        _ = (env.hosts, env.lxd, env.neighbours, env.journal)
        self._chosen = ChosenModes(env.plan.state_dir)
        self._most: dict[str, int] = {}
        # One for each: a secondary that hangs must not hold back what starts on the others.
        self._one_asks = {name: env.runtime.lock() for name in env.plan.secondaries}

    def needs(self, service: str) -> Sequence[str]:
        return self._env.plan.services[service].needs

    def secondary(self, service: str) -> str:
        return self._env.plan.services[service].standby.secondary

    def most(self, secondary: str) -> int:
        if (wanted := self._env.plan.secondaries[secondary].starts_at_once) is not None:
            return wanted
        with self._one_asks[secondary]:
            if secondary not in self._most:
                try:
                    size = self._env.lxd[secondary].size()
                except ExternalError as error:
                    # Asked again the next time; whether LXD is there at all is found out by the start.
                    log.debug("%s", error)
                    return STARTS_WHEN_NOT_KNOWN
                self._most[secondary] = starts_at_once(size.cores, size.memory)
            return self._most[secondary]

    def boots(self, service: str) -> bool:
        return self._chosen.of(service, self._env.plan.services[service]) in (Mode.COLD, Mode.WARM)

    def state(self, service: str) -> ServiceState:
        return self._env.journal.state(service)

    def primary_answers(self, service: str) -> bool:
        entry = self._env.plan.services[service]
        return bool(self._env.probes.answering(str(entry.primary.address), entry.ports, entry.timeouts.confirm))


class StartGate:
    """The gate that services share which fail over at the same time in this process."""

    def __init__(self, around: StartConditions, clock: Clock | None = None, runtime: Runtime = THREADS) -> None:
        self._around = around
        self._monotonic = (clock or SystemClock()).steady
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
        if _is_up(state):
            self._waits_since.pop((service, need), None)
            return GO
        if at_work and trouble is None:
            return Wait(f"waiting for {need}, which it needs")
        episode = state.open_episode
        unharmed = state.side is Side.PRIMARY and (episode is None or not episode.tried(Step.FENCE))
        if unharmed and self._around.primary_answers(need):
            self._waits_since.pop((service, need), None)
            return GO
        if trouble is not None:
            return Unmet(
                f"needs {need}, which is not up: {trouble}", f"mend that, then call again; {_without(service)}"
            )
        # Nobody here is at work on it: it may just have failed, or be another controller's.
        since = self._waits_since.setdefault((service, need), self._monotonic())
        if self._monotonic() - since < SHOWS_WITHIN:
            return Wait(f"waiting for {need}, which it needs, and which does not answer")
        return Unmet(
            f"needs {need}, which is not up: neither its primary nor its standby serves",
            f"`vcrecovery failover {need}`, then call again; {_without(service)}",
        )


def _is_up(state: ServiceState) -> bool:
    """Whether its standby serves, with its ports seen open."""
    episode = state.open_episode
    return state.side is Side.STANDBY and (episode is None or episode.done(Step.PROBE) is not None)


def trouble_of(error: VCRecoveryError) -> str:
    """For those that need it: `needs app, which is not up: it needs db, which is not up: ...`."""
    if isinstance(error, NotStartedError):
        return f"it {error.reason}" if error.unmet else error.reason
    return error.message


def _without(service: str) -> str:
    return f"`vcrecovery failover {service}` does without"


# -- all of them -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """What came of one service. `seconds`: from its detection to its end; None when nothing was done.

    `reason` and `hint` are for a person, one line together.
    """

    service: str
    result: str
    reason: str = ""
    hint: str = ""
    exit_code: ExitCode = ExitCode.DONE
    epoch: int | None = None
    seconds: float | None = None


#: The best first. What a person has to look at outweighs what the same call may do the next time.
_FROM_GOOD_TO_BAD = (
    ExitCode.DONE,
    ExitCode.BUSY,
    ExitCode.REFUSED,
    ExitCode.EXTERNAL,
    ExitCode.USAGE,
    ExitCode.INTERNAL,
)


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    return max(codes, key=_FROM_GOOD_TO_BAD.index, default=ExitCode.DONE)


def result_of(service: str, episode: Episode | None) -> Result:
    """`episode`: the one that was closed; None when there was nothing to do."""
    if episode is None:
        return Result(service, "nothing to do", "its standby serves already")
    seconds = None if episode.closed_at is None else episode.closed_at - episode.opened_at
    return Result(service, str(episode.outcome), episode.reason, epoch=episode.epoch, seconds=seconds)


def result_of_error(service: str, error: Exception) -> Result:
    if not isinstance(error, VCRecoveryError):
        said = " ".join(str(error).split()) or "no message"
        return Result(
            service, "internal error", f"{type(error).__name__}: {said}; this is a bug", exit_code=ExitCode.INTERNAL
        )
    word = {NotStartedError: "not started", RefusedError: "refused", BusyError: "busy"}.get(type(error), "failed")
    reason = error.reason if isinstance(error, NotStartedError) else error.message
    return Result(service, word, reason, error.hint, error.exit_code)


def fail_over_all(
    services: Sequence[str],
    attempt: Callable[[str], Episode | None],
    start_gate: StartGate,
    tell: Callable[[Result], None],
    runtime: Runtime = THREADS,
) -> list[Result]:
    """All at the same time, in the order that `start_gate` wants; what came of each, in the order of `services`.

    `attempt` fails one over and raises as `fail_over` does; it returns None when there was nothing to do. `tell` gets
    each result as it comes.
    """
    found: dict[str, Result] = {}

    def work(name: str) -> None:
        trouble = ""
        try:
            result = result_of(name, attempt(name))
        except Exception as error:  # noqa: BLE001  one that breaks must not take the others along
            result = result_of_error(name, error)
            if not isinstance(error, BusyError):  # who may come up all the same
                trouble = trouble_of(error) if isinstance(error, VCRecoveryError) else result.reason
        else:
            if result.exit_code is not ExitCode.DONE:
                trouble = result.reason
        found[name] = result
        start_gate.end(name, trouble)
        tell(result)

    start_gate.begin(services)
    each(runtime, work, services, "failover")
    return [found[name] for name in services]


def as_data(results: Sequence[Result]) -> list[dict[str, object]]:
    """For machines."""
    return [
        {
            "service": entry.service,
            "result": entry.result,
            "reason": entry.reason,
            "hint": entry.hint,
            "epoch": entry.epoch,
            "seconds": entry.seconds,
            "exit_code": int(entry.exit_code),
        }
        for entry in results
    ]
