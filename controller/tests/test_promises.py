"""The promises (README) as invariants of a state machine over random faults: the real core, journal and executor in a
simulated world.

`make test` runs the same short walk each time. VCRECOVERY_STEPS=1000000 makes a long one, with a new seed that is
printed; VCRECOVERY_SEED=N repeats that one.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import simulation
from simulation import Simulation
from vcrecovery.recover.states import OFF, Episode, Outcome, Policy, Power, Request, Side, Step

STEPS = int(os.environ.get("VCRECOVERY_STEPS", "0"))
STEPS_OF_ONE_WALK = 50
#: In memory where there is one: what is tested is the order of the writes, not the disk.
SCRATCH = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108  a directory of its own is made in it
NEVER = 1e9
POLICY = Policy(max_staleness=60.0, cool_down=3600.0)
POINTS = ("monday", "tuesday")
#: Where a kill leaves something half done.
PLACES = [
    *(f"{when} {step}" for step in Step for when in ("journalled", "before", "after", "ended")),
    "in the middle of restore",
]


class Promises(RuleBasedStateMachine):
    """One service, its controllers and its operator, and everything that can go wrong."""

    taken = 0

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="vcr-promises-", dir=SCRATCH))
        self.sim = Observed(self.folder, POLICY)
        self.sim.patience = 4
        self.sim.world.restore_points = POINTS
        self.epoch = self.dns_epoch = 0
        #: The operator has started the primary beside a standby that served.
        self.two_by_hand = False
        self.set_back = False
        #: Whether the primary's files arrive.
        self.syncs = True

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @property
    def world(self) -> simulation.SimulatedWorld:
        return self.sim.world

    def open_episode(self) -> Episode | None:
        return self.sim.journal.state("web").open_episode

    def under_way(self) -> bool:
        """From the fence on: what was begun must be brought to its end."""
        episode = self.open_episode()
        return episode is not None and episode.tried(Step.FENCE)

    @initialize(fence_command=st.booleans())
    def begin(self, fence_command: bool) -> None:
        self.world.fence_command = fence_command
        self.sim.watch()

    # -- the primary and its hypervisor ------------------------------------------------------------------------

    @rule()
    def crash(self) -> None:
        if self.world.power not in OFF:
            self.sim.crash()

    @rule()
    def crash_that_is_seen(self) -> None:
        self.crash()
        self.sim.watch()

    @rule(
        what=st.sampled_from(["lxd", "dns", "ports", "a kill"]),
        place=st.sampled_from(PLACES),
        seconds=st.sampled_from([1.0, 31.0, 100.0]),
        set_back=st.booleans(),
    )
    def a_failover_gets_stuck(self, what: str, place: str, seconds: float, set_back: bool) -> None:
        """What one often gets to see, and what random walks seldom get to."""
        if self.world.power is Power.RUNNING:
            self.sim.heartbeat()
        match what:
            case "lxd":
                self.world.lxd_answers = False
            case "dns":
                self.world.dns_answers = False
            case "ports":
                self.world.standby_ports_open_after = NEVER
            case _:
                self.sim.kill_at = place
        self.crash_that_is_seen()
        if set_back:
            self.the_clock_jumps(forward=False)
        self.time_passes(seconds)

    @rule(syncs=st.booleans())
    def sync(self, syncs: bool) -> None:
        self.syncs = syncs

    @rule(cpu=st.sampled_from([0.0, 5.0, 100.0]), ports=st.booleans())
    def cpu_and_ports(self, cpu: float, ports: bool) -> None:
        self.world.cpu, self.world.cpu_since, self.world.primary_ports_open = cpu, self.sim.clock.time, ports

    @rule(reason=st.sampled_from(["shutdown", "destroyed"]))
    def operator_stops_the_primary(self, reason: str) -> None:
        if self.world.power not in OFF:
            self.sim.stop_primary(reason)

    @precondition(lambda self: self.world.power is Power.RUNNING)
    @rule()
    def operator_suspends_the_primary(self) -> None:
        self.world.power = Power.PAUSED

    @rule()
    def operator_starts_the_primary(self) -> None:
        """By hand, whatever the controllers do; where the newest fence still counts, nobody can see it in time."""
        if self.under_way() and (self.set_back or self.sim.fenced_within(POLICY.fence_valid_for)):
            return
        if self.world.standby_running or self.sim.journal.state("web").side is Side.STANDBY:
            self.two_by_hand = True
        self.sim.start_primary()

    @rule(answers=st.booleans(), crashed=st.booleans())
    def hypervisor(self, answers: bool, crashed: bool) -> None:
        self.world.hypervisor_answers = answers
        if not answers and crashed and self.world.power not in OFF:
            self.sim.crash()

    @rule(works=st.booleans())
    def fence_command(self, works: bool) -> None:
        self.world.fence_command_works = works

    @rule(neighbours=st.sampled_from([(), ("mail",)]))
    def neighbours(self, neighbours: tuple[str, ...]) -> None:
        self.world.neighbours = neighbours

    # -- the standby's side ------------------------------------------------------------------------------------

    @rule(answers=st.booleans())
    def lxd(self, answers: bool) -> None:
        self.world.lxd_answers = answers

    @rule(answers=st.booleans(), key_good=st.booleans())
    def dns(self, answers: bool, key_good: bool) -> None:
        self.world.dns_answers, self.world.dns_key_good = answers, key_good

    @rule(after=st.sampled_from([0.0, 1.0, 30.0, NEVER]))
    def ports_of_the_standby(self, after: float) -> None:
        """They open late, never, or close again."""
        self.world.standby_ports_open_after = after

    # -- controllers -------------------------------------------------------------------------------------------

    @rule()
    def watch(self) -> None:
        self.sim.watch()

    @rule()
    def zabbix_event(self) -> None:
        self.sim.zabbix_event()

    @rule()
    def the_same_zabbix_event_twice(self) -> None:
        self.sim.zabbix_event()
        self.sim.zabbix_event()

    @rule(boundaries=st.integers(1, 30))
    def kill_the_controller(self, boundaries: int) -> None:
        self.sim.kill_at = self.sim.boundaries + boundaries

    @rule()
    def restart_the_controller(self) -> None:
        self.sim.restart()

    @rule(place=st.sampled_from(PLACES))
    def kill_the_controller_there(self, place: str) -> None:
        self.sim.kill_at = place

    @rule(
        seconds=st.sampled_from([0.1, 0.5, 1.0, 3.0, 20.0]),
        what=st.sampled_from(["watch", "zabbix_event", "operator", "operator_starts_the_primary", "crash"]),
    )
    def meanwhile(self, seconds: float, what: str) -> None:
        """While somebody waits or works, something else happens: a second controller, an operator, a fault."""
        acts: Mapping[str, Callable[[], None]] = {
            "watch": self.sim.watch,
            "zabbix_event": self.sim.zabbix_event,
            "operator": self.sim.failover,
            "operator_starts_the_primary": self.operator_starts_the_primary,
            "crash": self.crash,
        }
        self.sim.clock.changes.append((self.sim.clock.time + seconds, acts[what]))

    # -- the operator ------------------------------------------------------------------------------------------

    @rule()
    def plain_failover(self) -> None:
        self.sim.failover()

    @rule(tries=st.lists(st.tuples(st.sampled_from(POINTS), st.sampled_from([None, *PLACES])), min_size=1, max_size=3))
    def failover_to_restore_points(self, tries: list[tuple[str, str | None]]) -> None:
        """The operator cannot decide, and the controller dies."""
        for restore_point, place in tries:
            self.sim.kill_at = place
            self.sim.failover(restore_point=restore_point)

    @rule(
        force=st.booleans(),
        word=st.booleans(),
        restore_point=st.sampled_from([None, None, None, "latest", *POINTS, "none such"]),
    )
    def failover(self, force: bool, word: bool, restore_point: str | None) -> None:
        said: dict[str, Any] = {"force": force, "primary_is_down": word, "restore_point": restore_point}
        self.sim.failover(**{key: value for key, value in said.items() if value})

    @rule(seconds=st.sampled_from([None, 30.0, 1000.0]))
    def pause(self, seconds: float | None) -> None:
        self.sim.pause(seconds)

    @rule()
    def resume(self) -> None:
        self.sim.resume()

    @rule()
    def acknowledge(self) -> None:
        self.sim.acknowledge()
        self.sim.acknowledged = True

    @precondition(lambda self: self.sim.journal.state("web").side is Side.STANDBY or self.under_way())
    @rule()
    def operator_brings_the_primary_back(self) -> None:
        """Stops the container, starts the VM, points DNS back, and then `vcrecovery standby reset`."""
        self.world.hypervisor_answers, self.world.primary_ports_open, self.world.cpu = True, True, 5.0
        self.sim.serve_from_primary()
        self.world.operators_word, self.two_by_hand, self.world.tree = False, False, "synced"

    # -- time --------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.1, 1.0, 10.0, 31.0, 61.0, 600.0, 4000.0]))
    def time_passes(self, seconds: float) -> None:
        self.sim.clock.sleep(seconds)
        if self.syncs and self.world.power is Power.RUNNING and self.world.cpu == 5.0:
            self.sim.heartbeat()

    @rule(forward=st.booleans())
    def the_clock_jumps(self, forward: bool) -> None:
        self.sim.clock.set_by += 3600.0 if forward else -3600.0
        self.set_back = self.set_back or not forward
        self.sim.jumped = self.sim.jumped_since_done = True

    # -- and in the end ----------------------------------------------------------------------------------------

    @rule()
    def everything_is_mended(self) -> None:
        """What was begun is brought to its end by the next controller, by itself."""
        world = self.world
        self.sim.clock.changes.clear()
        self.sim.kill_at = None
        world.hypervisor_answers = world.lxd_answers = world.dns_answers = world.dns_key_good = True
        world.fence_command_works, world.standby_ports_open_after = True, 1.0
        episode = self.open_episode()
        if episode is not None and episode.to_restore is not None and not episode.done(Step.START):
            # The error says so: only the operator may throw away what it has written.
            world.standby_running = False
        self.sim.restart()
        must = self.under_way()
        self.sim.watch()
        if must:
            assert self.open_episode() is None, "nobody brings to its end what was begun"

    # -- the promises ------------------------------------------------------------------------------------------

    @invariant()
    def there_is_one_live_copy(self) -> None:
        Promises.taken += 1
        if STEPS and Promises.taken % 50_000 == 0:
            print(f"{Promises.taken} steps", flush=True)  # noqa: T201
        self.sim.look()
        if self.world.power is Power.RUNNING and self.world.standby_running:
            assert self.two_by_hand or self.world.operators_word, "two live copies"

    @invariant()
    def the_epoch_only_grows(self) -> None:
        epoch = self.sim.journal.state("web").epoch
        assert epoch >= self.epoch
        spent = [e.epoch for e in self.sim.journal.history("web", 10_000) if e.tried(Step.FENCE)]
        assert spent == sorted(set(spent), reverse=True), "an epoch is spent twice"
        assert self.world.dns_epoch >= self.dns_epoch
        assert self.world.dns_epoch <= epoch
        self.epoch, self.dns_epoch = epoch, self.world.dns_epoch

    @invariant()
    def dns_is_where_ports_answered(self) -> None:
        if self.world.dns_address == "standby":
            assert self.world.dns_epoch in self.sim.answered_at

    @invariant()
    def an_episode_that_is_done_had_every_step(self) -> None:
        newest = self.sim.journal.newest_done("web")
        if newest is not None:
            needed = [Step.CONFIRM, Step.FENCE, Step.START, Step.PROBE, Step.SWITCH, Step.VERIFY]
            ends = [newest.done(step) for step in needed]
            assert all(ends), newest


class Observed(Simulation):
    """A simulation whose acts are looked at by somebody who knows the true time and what is allowed."""

    def __init__(self, folder: Path, policy: Policy) -> None:
        super().__init__(folder, policy)
        self.answered_at: set[int] = set()
        #: Whether the clock did, since the newest heartbeat and since the newest failover.
        self.jumped = self.jumped_since_done = self.acknowledged = False
        self._heartbeat = 0.0
        self._answered = 0.0
        self._well_since: float | None = None
        self._fenced: float | None = None
        self._done: float | None = None

    def heartbeat(self) -> None:
        self.world.heartbeat_at = self.clock.now()
        self._heartbeat, self.jumped = self.clock.time, False

    def look(self) -> None:
        """Since when the primary serves, and nothing speaks against it."""
        world = self.world
        serves = world.power is Power.RUNNING and world.primary_ports_open
        if not (serves and world.hypervisor_answers and world.cpu == 5.0):
            self._well_since = None
        elif self._well_since is None:
            self._well_since = self.clock.time

    def fenced_within(self, seconds: float) -> bool:
        return self._fenced is not None and self.clock.time - self._fenced <= seconds + 10

    def _with_the_lock(self, cause: str, request: Request, detected_at: float | None) -> Episode:
        before = self.journal.state("web")
        new = before.open_episode is None and before.side is Side.PRIMARY
        if new and request.automatic and self._cools():
            count = len(self.journal.history("web", 10_000))
            try:
                return super()._with_the_lock(cause, request, detected_at)
            finally:
                assert len(self.journal.history("web", 10_000)) == count, "a second failover by itself"
        episode = super()._with_the_lock(cause, request, detected_at)
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
            self._first_fence(episode)
        if step is Step.SWITCH:
            assert self.clock.time - self._answered <= POLICY.probe_valid_for + 1, "the ports answered long ago"
        super().begun(episode, step, sentence)

    def _first_fence(self, episode: Episode) -> None:
        self.look()
        request = episode.request
        if self._well_since is not None and not request.force:
            well = self.clock.time - self._well_since
            assert well <= POLICY.confirmation_valid_for + 5, f"a primary that serves since {well} s is fenced"
        if request.force or request.restore_point is not None or self.jumped:
            return
        # What the failure has cost is counted up to when it began, which is at most this long ago.
        since = POLICY.confirmation_valid_for + 5.0 + POLICY.noticed_after(request.doubt)
        opened = max(0.0, self.clock.now() - episode.opened_at)
        age = self.clock.time - self._heartbeat
        assert age <= POLICY.max_staleness + since + opened, f"a standby of {age} s takes over"

    def ended(self, episode: Episode, step: Step, at: float, evidence: Mapping[str, Any]) -> None:
        if step is Step.FENCE:
            self._fenced = self.clock.time
        if step is Step.PROBE:
            assert self.world.standby_running
            self.answered_at.add(episode.epoch)
            self._answered = self.clock.time
        super().ended(episode, step, at, evidence)


def budget() -> settings:
    walks = max(1, STEPS // STEPS_OF_ONE_WALK) if STEPS else 200
    return settings(
        max_examples=walks,
        stateful_step_count=STEPS_OF_ONE_WALK,
        derandomize=not STEPS,
        database=None,
        deadline=None,
        print_blob=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.timeout(0 if STEPS else 600)
def test_the_promises_hold(capsys: pytest.CaptureFixture[str]) -> None:
    Promises.taken = 0
    if not STEPS:
        run_state_machine_as_test(Promises, settings=budget())
        return
    number = int(os.environ.get("VCRECOVERY_SEED") or random.SystemRandom().randrange(2**32))
    with capsys.disabled():
        print(f"\nVCRECOVERY_SEED={number} VCRECOVERY_STEPS={STEPS}", flush=True)  # noqa: T201
        machine: Any = seed(number)(Promises)
        run_state_machine_as_test(machine, settings=budget())
        print(f"{Promises.taken} steps were taken", flush=True)  # noqa: T201
