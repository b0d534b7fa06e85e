"""Simulations whose acts are looked at by somebody who knows the true time and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulated_fleet import Fleet
from simulated_world import SimulatedWorld
from simulation import Simulation
from vcrecovery.core.power import Power
from vcrecovery.core.states import Episode, Outcome, Policy, Request, Side, Step
from vcrecovery.operations.start_gate import StartGate
from virtual_time import VirtualClock

POLICY = Policy(max_staleness=60.0, cool_down=3600.0)


@dataclass
class ObservedWorld(SimulatedWorld):
    """A world that knows since when the primary serves and nothing speaks against it, however short that is."""

    clock: VirtualClock | None = None
    well_since: float | None = None
    #: Since when anything answers at its address, as seen from here.
    answers_since: float | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if self.clock is None or name in ("well_since", "answers_since"):
            return
        well = self.power is Power.RUNNING and self.primary_ports_open and self.libvirt_answers and self.cpu == 5.0
        if not well:
            self.well_since = None
        elif self.well_since is None:
            self.well_since = self.clock.time
        if not self.open_ports:
            self.answers_since = None
        elif self.answers_since is None:
            self.answers_since = self.clock.time


class Looking(Simulation):
    """A simulation in which somebody watches what is seen of a primary before its fence is tried."""

    def __init__(
        self, folder: Path, policy: Policy | None = None, name: str = "web", fleet: Fleet | None = None
    ) -> None:
        super().__init__(folder, policy, name, fleet)
        self.env: ObservedWorld = ObservedWorld(clock=self.clock)
        #: Episode -> when somebody has looked at its primary, and when its fence was tried.
        self._looked: dict[int, float] = {}
        self._tried: dict[int, float] = {}

    def begun(self, episode: Episode, step: Step, sentence: str) -> None:
        if step is Step.FENCE and not episode.ever_fenced:
            self._serves_not(episode)
        super().begun(episode, step, sentence)

    def _serves_not(self, episode: Episode) -> None:
        """Neither the first try of a fence nor a later one, while none is proved, ends what is seen to serve.

        Somebody has looked since the try before, just now, and it did not serve then.
        """
        looked, tried = self._looked.get(episode.id), self._tried.get(episode.id)
        self._tried[episode.id] = self.clock.time
        assert looked is not None, "what nobody has looked at is fenced"
        assert tried is None or looked >= tried, "nobody has looked again before the next try"
        assert self.clock.time - looked <= POLICY.confirmation_valid_for, "somebody has looked long ago"
        if self.env.well_since is not None and not episode.request.force:
            assert self.env.well_since >= looked, "a primary that was seen to serve is fenced"
        confirm, request = episode.done(Step.CONFIRM), episode.request
        away = confirm is not None and confirm.evidence["power"] == Power.UNREACHABLE
        if away and self.env.fence_command and not (request.force or request.primary_is_down):
            for env in self._on_this_host():
                assert env.answers_since is None or env.answers_since >= looked, "what answers is powered off"

    def _on_this_host(self) -> list[ObservedWorld]:
        sims = [self] if self.fleet is None else list(self.fleet.sims.values())
        worlds = [sim.env for sim in sims if sim.env.host == self.env.host]
        return [env for env in worlds if isinstance(env, ObservedWorld)]

    def ended(self, episode: Episode, step: Step, at: float, evidence: Mapping[str, Any]) -> None:
        if step is Step.CONFIRM:
            self._looked[episode.id] = self.clock.time
        super().ended(episode, step, at, evidence)


class Observed(Looking):
    """A simulation whose acts are looked at by somebody who knows the true time and what is allowed."""

    def __init__(self, folder: Path, policy: Policy) -> None:
        super().__init__(folder, policy)
        self.answered_at: set[int] = set()
        #: Whether the clock did, since the newest heartbeat and since the newest failover.
        self.jumped = self.jumped_since_done = self.acknowledged = False
        self._heartbeat = 0.0
        self._answered = 0.0
        self._fenced: float | None = None
        self._done: float | None = None

    def heartbeat(self) -> None:
        self.env.heartbeat_at = self.clock.now()
        self._heartbeat, self.jumped = self.clock.time, False

    def fenced_within(self, seconds: float) -> bool:
        return self._fenced is not None and self.clock.time - self._fenced <= seconds + 10

    def _with_the_lock(
        self, cause: str, request: Request, detected_at: float | None, gate: StartGate | None = None
    ) -> Episode:
        before = self.journal.state("web")
        new = before.open_episode is None and before.side is Side.PRIMARY
        if new and request.automatic and self._cools():
            count = len(self.journal.history("web", 10_000))
            try:
                return super()._with_the_lock(cause, request, detected_at, gate)
            finally:
                assert len(self.journal.history("web", 10_000)) == count, "a second failover by itself"
        episode = super()._with_the_lock(cause, request, detected_at, gate)
        if episode.outcome is Outcome.DONE and (new or before.open_episode is not None):
            self._done, self.acknowledged, self.jumped_since_done = self.clock.time, False, False
        return episode

    def _cools(self) -> bool:
        return (
            self._done is not None
            and not self.acknowledged
            and not self.jumped_since_done
            and self.clock.time - self._done < POLICY.cool_down - 1
        )

    def begun(self, episode: Episode, step: Step, sentence: str) -> None:
        if step is Step.FENCE and not episode.tried(Step.FENCE):
            self._is_fresh(episode)
        if step is Step.SWITCH:
            assert self.clock.time - self._answered <= POLICY.probe_valid_for + 1, "the ports answered long ago"
        super().begun(episode, step, sentence)

    def _is_fresh(self, episode: Episode) -> None:
        request = episode.request
        if request.force or request.restore_point is not None or self.jumped:
            return
        # What the failure has cost is counted up to when it began, which is at most this long ago.
        since = POLICY.confirmation_valid_for + 5.0 + POLICY.noticed_after(request.symptom)
        began_at = request.began_at if request.began_at is not None else episode.opened_at
        opened = max(0.0, self.clock.now() - began_at)
        age = self.clock.time - self._heartbeat
        assert age <= POLICY.max_staleness + since + opened, f"a standby of {age} s takes over"

    def ended(self, episode: Episode, step: Step, at: float, evidence: Mapping[str, Any]) -> None:
        if step is Step.FENCE:
            self._fenced = self.clock.time
        if step is Step.PROBE:
            assert self.env.standby_running
            self.answered_at.add(episode.epoch)
            self._answered = self.clock.time
        super().ended(episode, step, at, evidence)


class Member(Looking):
    """One of several services; whether those are up that it needs is looked at where it starts."""

    gate: StartGate | None = None

    def _with_the_lock(
        self, cause: str, request: Request, detected_at: float | None, gate: StartGate | None = None
    ) -> Episode:
        self.gate = gate
        try:
            return super()._with_the_lock(cause, request, detected_at, gate)
        finally:
            self._has_started()

    def begun(self, episode: Episode, step: Step, sentence: str) -> None:
        if step in (Step.START, Step.RESTORE) and self.gate is not None and self.fleet is not None:
            for need in self.fleet.needs(self.name):
                env = self.fleet.sims[need].env
                served = env.standby_running and env.probed_epoch > 0
                assert served or env.open_ports, f"{self.name} starts without {need}"
            if isinstance(self.fleet, ObservedFleet):
                self.fleet.begins(self.name, id(self.gate))
        super().begun(episode, step, sentence)

    def ended(self, episode: Episode, step: Step, at: float, evidence: Mapping[str, Any]) -> None:
        if step is Step.PROBE:
            self._has_started()
        super().ended(episode, step, at, evidence)

    def _has_started(self) -> None:
        if isinstance(self.fleet, ObservedFleet):
            self.fleet.start_at_once.pop(self.name, None)


class ObservedFleet(Fleet):
    """Counts those that start at the same time."""

    def __init__(self, folder: Path, needs: Mapping[str, list[str]], starts_at_once: int) -> None:
        #: Service -> the gate that let it start: each controller has its own.
        self.start_at_once: dict[str, int] = {}
        super().__init__(folder, needs, POLICY, starts_at_once, Member)

    def begins(self, service: str, gate: int) -> None:
        if not self.boots(service):
            return
        self.start_at_once[service] = gate
        assert list(self.start_at_once.values()).count(gate) <= self.starts_at_once, "too many start at once"
