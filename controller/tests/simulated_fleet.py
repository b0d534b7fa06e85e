"""Several services in a simulated world, that fail over at the same time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from simulation import JournalOnADisk, Simulation, typed
from vcrecovery.cli.recovery import operators_word
from vcrecovery.core.states import Episode, Policy, Request, ServiceState
from vcrecovery.core.verdict import Verdict
from vcrecovery.errors import ExitCode, ExternalError, VCRecoveryError
from vcrecovery.operations.start_gate import LOOK_EVERY, Result, StartGate, fail_over_all
from vcrecovery.store.journal import Journal
from virtual_time import KilledError, VirtualClock


class InVirtualTime(StartGate):
    """The real gate; it waits by the virtual clock."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet, fleet.clock)
        self._clock = fleet.clock

    def wait(self, service: str) -> None:
        self._clock.wait_for(self._bells[service].is_set, LOOK_EVERY)


class Fleet:
    """Several services with one journal and one watcher, each failover in a thread of its own."""

    def __init__(
        self,
        folder: Path,
        needs: Mapping[str, Sequence[str]],
        policy: Policy | None = None,
        starts_at_once: int = 32,
        kind: type[Simulation] = Simulation,
    ) -> None:
        self.path = folder / "journal.db"
        self.clock = VirtualClock()
        self.log: list[str] = []
        self.needs_of = dict(needs)
        self.starts_at_once = starts_at_once
        #: The hypervisors whose fence command runs.
        self.fencing: set[str] = set()
        #: When the fence command of each has ended, and whether it has proved it off.
        self.fenced: dict[str, tuple[float, bool]] = {}
        self.journal = self._open()
        self.sims = {name: kind(folder, policy, name, self) for name in needs}
        self._controllers = 0
        self._new_watcher()

    def _open(self) -> Journal:
        return JournalOnADisk(self.path, lambda: any(sim.env.disk_full for sim in self.sims.values()))

    # -- what the gate asks ------------------------------------------------------------------------------------

    def needs(self, service: str) -> Sequence[str]:
        return self.needs_of[service]

    def secondary(self, _service: str) -> str:
        return "sec1"

    def most(self, _secondary: str) -> int:
        return self.starts_at_once

    def boots(self, service: str) -> bool:
        return self.sims[service].env.mode in ("cold", "warm")

    def state(self, service: str) -> ServiceState:
        return self.journal.state(service)

    def primary_answers(self, service: str) -> bool:
        return bool(self.sims[service].env.open_ports)

    # -- controllers -------------------------------------------------------------------------------------------

    def _process(self) -> str:
        self._controllers += 1
        return f"process {self._controllers}"

    def _new_watcher(self) -> None:
        self._watcher, self._gate = self._process(), InVirtualTime(self)
        for sim in self.sims.values():
            sim.forget()

    def watch(self) -> None:
        """One look at each service; those that must be failed over are, while others go on."""
        for name, sim in self.sims.items():
            if self.clock.is_at_work(f"{self._watcher} {name}"):
                continue
            try:
                found = sim.failure()
            except ExternalError as error:  # the journal
                sim.say_once(str(error))
                continue
            if found is not None:
                self.clock.spawn(f"{self._watcher} {name}", self._work(sim, *found), self._watcher)

    def _work(self, sim: Simulation, cause: str, verdict: Verdict) -> Callable[[], None]:
        gate, watcher = self._gate, self._watcher

        def work() -> None:
            try:
                sim.work(cause, verdict, gate=gate)
            except KilledError:
                if watcher == self._watcher:
                    self._new_watcher()
                raise

        return work

    @property
    def is_at_work(self) -> bool:
        return self.clock.threads > 0

    def failover(self, what: str, name: str, services: Sequence[str], **request: Any) -> None:
        """What `vcrecovery failover --host`, `--site` or `--group` does; `what` is `service` for one alone."""
        if what == "service":
            self.sims[name].failover(**request)
            return
        said = next(iter(self.sims.values())).say
        said(f"operator: failover --{what} {name}{typed(request)}")
        try:
            word = operators_word(what, name, request.pop("primary_is_down", None))
        except VCRecoveryError as error:
            said(f"operator: {type(error).__name__}: {error}")
            return
        process, gate = self._process(), InVirtualTime(self)
        turns = {service: ExitStack() for service in services}
        dead: list[str] = []

        def attempt(service: str) -> Episode | None:
            turns[service].enter_context(self.clock.turn_of(f"{process} {service}"))
            sim = self.sims[service]
            try:
                if sim.serves_from_standby():
                    return None
                wanted = Request(primary_is_down=word, **request)
                return sim._fail_over(f"asked for by operator, with {what} {name}", wanted, gate=gate)
            except KilledError as where:
                dead.append(service)
                if len(dead) == 1:
                    sim._killed(where)
                return None
            except AssertionError as error:
                self.clock.broken = error
                raise

        def tell(result: Result) -> None:
            if not dead:
                hint = f"; {result.hint}" if result.hint else ""
                told = f"{result.service}: {result.result}: {result.reason}{hint}"
                said(f"operator: {told}")
            turns[result.service].close()

        with self.clock.standing_aside([f"{process} {service}" for service in services], process):
            results = fail_over_all(services, attempt, gate, tell)
        if self.clock.broken is not None:
            raise self.clock.broken
        missing = [result.service for result in results if result.exit_code is not ExitCode.DONE]
        if not dead:
            said(
                f"operator: {what} {name}: " + (f"not served by standbys: {', '.join(missing)}" if missing else "done")
            )
