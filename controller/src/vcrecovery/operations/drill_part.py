"""One service's part of a drill: its clone is made, booted, asked and removed, each step timed and journalled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from vcrecovery.core.drill import Drill, DrillOutcome, DrillStep, StepDone, clone_name
from vcrecovery.core.service_state import Side
from vcrecovery.core.text import plain
from vcrecovery.drivers.drill_network import DrillNetwork
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.drivers.lxd.instances import EndsAtOnceError
from vcrecovery.drivers.probe import Result
from vcrecovery.errors import BusyError, ExternalError, VCRecoveryError
from vcrecovery.operations.drill_clones import left_out, make, remove
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.serving import targets
from vcrecovery.operations.steps.subject import last_words
from vcrecovery.plan.model import Service
from vcrecovery.store.drills import DrillBook

#: Seconds between two looks at the container and the journal while ports are waited for.
LOOK_EVERY = 1.0


class DrillReporter(Protocol):
    """Shows a person how it goes."""

    def doing(self, drill: Drill, step: DrillStep) -> None: ...

    def did(self, drill: Drill, done: StepDone) -> None: ...

    def ended(self, drill: Drill) -> None: ...


class GaveWayError(BusyError):
    """A failover has begun, which needs the machine more."""


class _EndedError(ExternalError):
    """The clone does not run any more."""


class DrillPart:
    """What a drill does for one service. `drill` is how far it is."""

    def __init__(self, env: Environment, book: DrillBook, drill: Drill, reporter: DrillReporter) -> None:
        self._env, self._book, self._reporter = env, book, reporter
        self.drill = drill
        self.service: Service = env.plan.services[drill.service]
        self._lxd: LxdServer = env.lxd[self.service.standby.secondary]
        self._clone = clone_name(drill.service)
        self._made = False
        self._outcome: DrillOutcome | None = None
        self._reason = ""

    @property
    def goes_on(self) -> bool:
        return self._outcome is None

    # -- the steps -----------------------------------------------------------------------------------------------

    def clone(self, cable: str) -> None:
        name = self.drill.service
        original = self._lxd.get(name)
        if original is None:
            raise ExternalError(f"container {name} has disappeared from secondary {self._lxd.name}")
        with self._timed(DrillStep.CLONE) as said:
            self._made = True
            make(self._lxd, self._env.plan, name, original, cable)
            said.append(f"container {self._clone} on {self._lxd.name}")
            if out := left_out(original):
                said.append(f"without {', '.join(out)}")

    def start(self) -> None:
        with self._timed(DrillStep.START), self._with_last_words():
            self._lxd.start(self._clone, self.service.timeouts.start)

    def wait_for_ports(self, network: DrillNetwork, look: Callable[[], None]) -> None:
        """`look` may raise what ends the waiting."""
        timeouts, steady = self.service.timeouts, self._env.clock.steady
        looked_at = steady()

        def meanwhile() -> None:
            nonlocal looked_at
            if steady() - looked_at >= LOOK_EVERY:
                looked_at = steady()
                look()
                self._must_run()

        asked = targets(self.service, Side.STANDBY)
        with self._timed(DrillStep.PORTS) as said, self._with_last_words():
            results: list[Result] = network.within(
                lambda: self._env.probes.wait_for_all(asked, timeouts.ports, timeouts.stable_for, meanwhile)
            )
            if closed := [str(result) for result in results if not result.ok]:
                raise ExternalError(f"it does not answer after {timeouts.ports:.0f} s: {'; '.join(closed)}")
            said += [result.label for result in results]

    def run_command(self) -> None:
        """The operator's own check, if there is one."""
        command, timeout = self.service.drill.command, self.service.drill.timeout
        if not command:
            return
        with self._timed(DrillStep.COMMAND) as said:
            status, printed = self._lxd.ask(self._clone, command, timeout, errors=True)
            lines = [line.strip() for line in printed.splitlines() if line.strip()] or ["it printed nothing"]
            last = plain(lines[-1])[:300]
            if status:
                raise ExternalError(f"`{' '.join(command)}` failed with status {status}: {last}")
            said.append(last)

    def remove(self) -> None:
        if not self._made:
            return
        try:
            with self._timed(DrillStep.REMOVE):
                remove(self._lxd, self._env.plan, self._clone, self._env.clock)
        except VCRecoveryError as error:
            self.fail(ExternalError(f"container {self._clone} could not be removed: {error.message}"))

    # -- what comes of it ----------------------------------------------------------------------------------------

    @contextmanager
    def may_fail(self) -> Iterator[None]:
        """What fails in the block is this service's own, and the drill goes on with the others."""
        try:
            yield
        except GaveWayError:
            raise
        except VCRecoveryError as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """The first reason counts."""
        if self._outcome is not None:
            return
        if isinstance(error, GaveWayError):
            self._outcome, self._reason = DrillOutcome.GAVE_WAY, error.message
        elif isinstance(error, VCRecoveryError):
            self._outcome, self._reason = DrillOutcome.FAILED, error.message
        else:
            by = "by a signal" if isinstance(error, KeyboardInterrupt) else f"internal error: {type(error).__name__}"
            self._outcome, self._reason = DrillOutcome.INTERRUPTED, by

    def end(self) -> None:
        outcome, at = self._outcome or DrillOutcome.PASSED, self._env.clock.now()
        self._book.end(self.drill.id, outcome, self._reason, at)
        self.drill = replace(self.drill, outcome=outcome, reason=self._reason, ended_at=at)
        self._reporter.ended(self.drill)

    @contextmanager
    def _timed(self, step: DrillStep) -> Iterator[list[str]]:
        """A step; the block puts into the list what is to be said of it when it is done."""
        clock = self._env.clock
        said: list[str] = []
        self._reporter.doing(self.drill, step)
        begun = clock.steady()
        yield said
        done = StepDone(step, clock.now(), clock.steady() - begun, ", ".join(said))
        self.drill = replace(self.drill, steps=(*self.drill.steps, done))
        self._book.did(self.drill.id, self.drill.steps)
        self._reporter.did(self.drill, done)

    @contextmanager
    def _with_last_words(self) -> Iterator[None]:
        """Behind what went wrong stands what the clone said last: with it that goes, too."""
        try:
            yield
        except (EndsAtOnceError, _EndedError) as error:
            raise ExternalError(f"{error.message}{last_words(self._lxd, self._clone)}") from error

    def _must_run(self) -> None:
        found = self._lxd.get(self._clone)
        if found is None or not found.running:
            raise _EndedError("its container has ended before its ports opened")
