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
from contextlib import suppress
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

import simulated_world
from observed import POLICY, Observed, ObservedFleet
from vcrecovery.core.power import OFF, Power
from vcrecovery.core.states import Episode, Side, Step
from vcrecovery.errors import ExternalError

STEPS = int(os.environ.get("VCRECOVERY_STEPS", "0"))
STEPS_OF_ONE_WALK = 50
#: In memory where there is one: what is tested is the order of the writes, not the disk.
SCRATCH = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108  a directory of its own is made in it
NEVER = 1e9
POINTS = ("monday", "tuesday")
MODES = sorted(simulated_world.MODES)
REFUSES = "answers REFUSED for www"
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
        self.sim.env.restore_points = POINTS
        self.epoch = self.dns_epoch = 0
        self.written: tuple[Any, ...] = ()
        #: The operator has started the primary beside a standby that served.
        self.two_by_hand = False
        self.set_back = False
        #: Whether the primary's files arrive.
        self.syncs = True

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @property
    def env(self) -> simulated_world.SimulatedWorld:
        return self.sim.env

    def open_episode(self) -> Episode | None:
        return self.sim.journal.state("web").open_episode

    def under_way(self) -> bool:
        """From the fence on: what was begun must be brought to its end."""
        episode = self.open_episode()
        return episode is not None and episode.tried(Step.FENCE)

    @initialize(
        fence_command=st.booleans(),
        hold_returning=st.booleans(),
        mode=st.sampled_from(MODES),
        ns2=st.sampled_from([None, ""]),
        virtual_ip=st.sampled_from([None, "10.0.0.50"]),
    )
    def begin(
        self, fence_command: bool, hold_returning: bool, mode: str, ns2: str | None, virtual_ip: str | None
    ) -> None:
        self.env.fence_command, self.env.mode = fence_command, mode
        self.env.ns2, self.env.virtual_ip = ns2, virtual_ip
        self.sim.hold_returning = hold_returning
        self.sim.watch()

    # -- the primary and its hypervisor ------------------------------------------------------------------------

    @rule()
    def crash(self) -> None:
        if self.env.power not in OFF:
            self.sim.crash()

    @rule()
    def crash_that_is_seen(self) -> None:
        self.crash()
        self.sim.watch()

    @rule(
        what=st.sampled_from(["lxd", "dns", "second dns", "ports", "disk", "libvirt", "a kill"]),
        place=st.sampled_from(PLACES),
        seconds=st.sampled_from([1.0, 31.0, 100.0]),
        set_back=st.booleans(),
    )
    def a_failover_gets_stuck(self, what: str, place: str, seconds: float, set_back: bool) -> None:
        """What one often gets to see, and what random walks seldom get to."""
        if self.env.power is Power.RUNNING:
            self.sim.heartbeat()
        match what:
            case "lxd":
                self.env.lxd_answers = False
            case "dns":
                self.env.dns_answers = False
            case "second dns":
                self.env.ns2 = REFUSES
            case "ports":
                self.env.standby_ports_open_after = NEVER
            case "disk":
                self.sim.clock.changes.append((self.sim.clock.time + seconds / 100, self.the_disk_is_full))
            case "libvirt":
                self.sim.clock.changes.append((self.sim.clock.time + 0.25, self.libvirtd_hangs))
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
        self.env.cpu, self.env.cpu_since, self.env.primary_ports_open = (
            cpu,
            self.sim.clock.time,
            ports,
        )

    @rule(answers=st.booleans())
    def something_answers_at_the_primarys_address(self, answers: bool) -> None:
        self.env.address_answers = answers

    @rule(reason=st.sampled_from(["shutdown", "destroyed"]))
    def operator_stops_the_primary(self, reason: str) -> None:
        if self.env.power not in OFF:
            self.sim.stop_primary(reason)

    @precondition(lambda self: self.env.power is Power.RUNNING)
    @rule()
    def operator_suspends_the_primary(self) -> None:
        self.env.power = Power.PAUSED

    @rule()
    def operator_starts_the_primary(self) -> None:
        """By hand, whatever the controllers do; where the newest fence still counts, nobody can see it in time."""
        if self.under_way() and (self.set_back or self.sim.fenced_within(POLICY.fence_valid_for)):
            return
        if self.env.standby_running or self.sim.journal.state("web").side is Side.STANDBY:
            self.two_by_hand = True
        self.sim.start_primary()

    @rule(trouble=st.sampled_from(["", "silent", "crashed", "hangs", "cut"]))
    def hypervisor(self, trouble: str) -> None:
        self.env.hypervisor_answers = trouble not in ("silent", "crashed")
        self.env.libvirtd_hangs, self.env.network_cut = trouble == "hangs", trouble == "cut"
        if trouble == "crashed" and self.env.power not in OFF:
            self.sim.crash()

    @rule(autostart=st.booleans(), back=st.booleans())
    def hypervisor_loses_its_power(self, autostart: bool, back: bool) -> None:
        """libvirt forgets with it why a VM was off before."""
        self.env.hypervisor_answers, self.env.autostart = False, autostart
        if self.env.power is not Power.CRASHED:
            self.env.power, self.env.reason = Power.SHUTOFF, ""
        self.sim.watch()
        self.env.hypervisor_answers = back

    @precondition(lambda self: self.env.power is Power.RUNNING)
    @rule(reason=st.sampled_from(["I/O error", "watchdog", "migration"]))
    def something_pauses_the_primary(self, reason: str) -> None:
        self.env.power, self.env.reason = Power.PAUSED, reason

    def libvirtd_hangs(self) -> None:
        self.env.libvirtd_hangs = True

    @rule(works=st.booleans(), acts_late=st.sampled_from([None, None, 3.0, 40.0]))
    def fence_command(self, works: bool, acts_late: float | None) -> None:
        self.env.fence_command_works, self.env.fence_acts_late = works, acts_late

    @rule(
        seconds=st.sampled_from([18.0, 24.0, 36.0]),
        meanwhile=st.sampled_from(["", "", "crash", "pause", "ports", "hangs"]),
    )
    def a_cut_that_the_fence_does_not_cross(self, seconds: float, meanwhile: str) -> None:
        """And what is there when it is over. Before it all is well, or walks would seldom get that far."""
        env, clock = self.env, self.sim.clock
        self.operator_brings_the_primary_back()
        self.resume()
        self.acknowledge()
        self.sim.heartbeat()
        self.sim.watch()
        env.fence_command, env.neighbours, env.network_cut = True, (), True
        env.fence_command_works = False
        clock.changes.append((clock.time + seconds, lambda: self.the_network_is_back(meanwhile)))
        self.sim.watch()
        clock.sleep(POLICY.host_silent_for)
        self.sim.watch()

    def the_network_is_back(self, what: str) -> None:
        match what:
            case "crash":
                self.crash()
            case "pause" if self.env.power is Power.RUNNING:
                self.env.power = Power.PAUSED
            case "ports":
                self.env.primary_ports_open = False
            case "hangs":
                self.env.libvirtd_hangs = self.env.fence_command_works = True
        self.env.network_cut = False

    @rule(neighbours=st.sampled_from([(), ("mail",)]))
    def neighbours(self, neighbours: tuple[str, ...]) -> None:
        self.env.neighbours = neighbours

    # -- the standby's side ------------------------------------------------------------------------------------

    @rule(answers=st.booleans())
    def lxd(self, answers: bool) -> None:
        self.env.lxd_answers = answers

    @rule()
    def the_secondary_restarts(self) -> None:
        """What was promoted starts with it; what only waits boots when it is needed."""
        self.env.mode, self.env.started_at = "cold", self.sim.clock.time

    @rule(mode=st.sampled_from(MODES))
    def standby_set(self, mode: str) -> None:
        self.env.mode = mode

    @rule(answers=st.booleans(), key_good=st.booleans(), second=st.sampled_from(["", REFUSES]))
    def dns(self, answers: bool, key_good: bool, second: str) -> None:
        self.env.dns_answers, self.env.dns_key_good = answers, key_good
        if self.env.ns2 is not None:
            self.env.ns2 = second

    @rule(elsewhere=st.booleans())
    def virtual_ip(self, elsewhere: bool) -> None:
        self.env.virtual_ip_elsewhere = elsewhere

    @rule(after=st.sampled_from([0.0, 1.0, 30.0, NEVER]), flaps_for=st.sampled_from([0.0, 0.0, 5.0, NEVER]))
    def ports_of_the_standby(self, after: float, flaps_for: float) -> None:
        """They open late, never, close again, or do all of that in turn."""
        self.env.standby_ports_open_after, self.env.standby_flaps_for = after, flaps_for

    @rule(full=st.booleans())
    def disk(self, full: bool) -> None:
        self.env.disk_full = full

    def the_disk_is_full(self) -> None:
        self.env.disk_full = True

    # -- controllers -------------------------------------------------------------------------------------------

    @rule()
    def watch(self) -> None:
        self.sim.watch()

    @rule()
    def returning_primaries_are_looked_for(self) -> None:
        if not self.sim.hold_returning:
            return
        self.sim.hold()
        state = self.sim.journal.state("web")
        paused = state.pause is not None and state.pause.holds(self.sim.clock.now())
        if state.side is Side.STANDBY and not paused and self.env.libvirt_answers:
            assert self.env.power is not Power.RUNNING, "an old primary is not held"

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
        with suppress(ExternalError):
            self.sim.pause(seconds)

    @rule()
    def resume(self) -> None:
        with suppress(ExternalError):
            self.sim.resume()

    @rule()
    def acknowledge(self) -> None:
        with suppress(ExternalError):
            self.sim.acknowledge()
            self.sim.acknowledged = True

    @precondition(lambda self: self.sim.journal.state("web").side is Side.STANDBY or self.under_way())
    @rule()
    def operator_brings_the_primary_back(self) -> None:
        """Stops the container, starts the VM, points DNS back, and then `vcrecovery standby reset`."""
        self.everything_is_well_again()
        self.env.primary_ports_open, self.env.cpu = True, 5.0
        self.sim.serve_from_primary()
        self.env.operators_word, self.two_by_hand, self.env.tree = False, False, "synced"

    # -- time --------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([0.1, 1.0, 10.0, 31.0, 61.0, 600.0, 4000.0]))
    def time_passes(self, seconds: float) -> None:
        self.sim.clock.sleep(seconds)
        if self.syncs and self.env.power is Power.RUNNING and self.env.cpu == 5.0:
            self.sim.heartbeat()

    @rule(forward=st.booleans())
    def the_clock_jumps(self, forward: bool) -> None:
        self.sim.clock.set_by += 3600.0 if forward else -3600.0
        self.set_back = self.set_back or not forward
        self.sim.jumped = self.sim.jumped_since_done = True

    # -- and in the end ----------------------------------------------------------------------------------------

    def everything_is_well_again(self) -> None:
        env = self.env
        env.hypervisor_answers = env.lxd_answers = env.dns_answers = env.dns_key_good = True
        env.libvirtd_hangs = env.network_cut = env.disk_full = env.virtual_ip_elsewhere = False
        env.fence_acts_late, env.address_answers = None, False
        env.fence_command_works, env.standby_ports_open_after, env.standby_flaps_for = (
            True,
            1.0,
            0.0,
        )
        if env.ns2 is not None:
            env.ns2 = ""

    @rule()
    def everything_is_mended(self) -> None:
        """What was begun is brought to its end by the next controller, by itself."""
        env = self.env
        self.sim.clock.changes.clear()
        self.sim.kill_at = None
        self.everything_is_well_again()
        episode = self.open_episode()
        if episode is not None and episode.to_restore is not None and not episode.done(Step.START):
            # The error says so: only the operator may throw away what it has written.
            env.standby_running = False
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
        if self.env.power is Power.RUNNING and self.env.standby_running:
            assert self.two_by_hand or self.env.operators_word, "two live copies"

    def nothing_is_written(self) -> bool:
        """Since this was asked before: then what is read from the journal is as it was."""
        written = (id(self.sim.journal), *self.sim.journal.rows("SELECT total_changes()"))
        before, self.written = self.written, written
        return before == written

    @invariant()
    def what_is_written_is_allowed(self) -> None:
        if not self.nothing_is_written():
            self.the_epoch_only_grows()
            self.an_episode_that_is_done_had_every_step()

    def the_epoch_only_grows(self) -> None:
        epoch = self.sim.journal.state("web").epoch
        assert epoch >= self.epoch
        spent = [e.epoch for e in self.sim.journal.history("web", 10_000) if e.tried(Step.FENCE)]
        assert spent == sorted(set(spent), reverse=True), "an epoch is spent twice"
        assert self.dns_epoch <= self.env.dns_epoch <= epoch
        self.epoch, self.dns_epoch = epoch, self.env.dns_epoch

    @invariant()
    def dns_is_where_ports_answered(self) -> None:
        if self.env.dns_address == "standby":
            assert self.env.dns_epoch in self.sim.answered_at
        if self.env.virtual_ip_is_here:
            assert self.env.probed_epoch in self.sim.answered_at

    def an_episode_that_is_done_had_every_step(self) -> None:
        newest = self.sim.journal.newest_done("web")
        if newest is not None:
            needed = [Step.CONFIRM, Step.FENCE, Step.START, Step.PROBE, Step.SWITCH, Step.VERIFY]
            ends = [newest.done(step) for step in needed]
            assert all(ends), newest


NEEDS = {"front": ["app"], "app": ["db", "cache"], "db": [], "cache": [], "mail": []}
SERVICES = sorted(NEEDS)


class PromisesOfSeveral(RuleBasedStateMachine):
    """Services that need each other, on two hypervisors, with one watcher and its operators."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="vcr-promises-", dir=SCRATCH))

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @initialize(starts_at_once=st.integers(1, 3), fence_command=st.booleans(), mode=st.sampled_from(MODES))
    def begin(self, starts_at_once: int, fence_command: bool, mode: str) -> None:
        self.fleet = ObservedFleet(self.folder, NEEDS, starts_at_once)
        for number, sim in enumerate(self.fleet.sims.values()):
            sim.env.host, sim.env.fence_command = f"hv{number % 2}", fence_command
            sim.env.mode = mode if number else "cold"
            sim.patience = 4
        self.fleet.watch()

    def worlds(self) -> list[simulated_world.SimulatedWorld]:
        return [sim.env for sim in self.fleet.sims.values()]

    def let_end(self) -> None:
        while self.fleet.is_at_work:
            self.fleet.clock.sleep(1.0)

    @rule(services=st.sets(st.sampled_from(SERVICES), min_size=1))
    def crash(self, services: set[str]) -> None:
        for name in services:
            if self.fleet.sims[name].env.power not in OFF:
                self.fleet.sims[name].crash()

    @rule(host=st.sampled_from(["hv0", "hv1"]), answers=st.booleans(), crashed=st.booleans())
    def hypervisor(self, host: str, answers: bool, crashed: bool) -> None:
        for sim in self.fleet.sims.values():
            if sim.env.host == host:
                sim.env.hypervisor_answers = answers
                if crashed and not answers and sim.env.power not in OFF:
                    sim.crash()

    @rule(
        host=st.sampled_from(["hv0", "hv1"]),
        seconds=st.sampled_from([18.0, 24.0, 36.0]),
        crash=st.sets(st.sampled_from(SERVICES), max_size=2),
        ports_first=st.booleans(),
    )
    def a_cut_that_the_fence_does_not_cross(
        self, host: str, seconds: float, crash: set[str], ports_first: bool
    ) -> None:
        """And some of its VMs die behind it. Before libvirt, the ports may be back, and the fence command may work."""
        there = [sim for sim in self.fleet.sims.values() if sim.env.host == host]
        clock = self.fleet.clock

        def back(libvirt: bool) -> None:
            for sim in there:
                sim.env.network_cut, sim.env.fence_command_works = False, True
                sim.env.libvirtd_hangs = not libvirt

        for sim in there:
            sim.env.fence_command = sim.env.network_cut = True
            sim.env.fence_command_works = False
            if sim.name in crash and sim.env.power not in OFF:
                clock.changes.append((clock.time + seconds - 1, sim.crash))
        clock.changes.append((clock.time + seconds, lambda: back(not ports_first)))
        clock.changes.append((clock.time + seconds + 10, lambda: back(True)))
        self.watch(20, then_ends=False)
        self.watch(20, then_ends=True)

    @rule(lxd=st.booleans(), dns=st.booleans(), disk_full=st.sampled_from([False, False, True]))
    def outside(self, lxd: bool, dns: bool, disk_full: bool) -> None:
        for env in self.worlds():
            env.lxd_answers, env.dns_answers, env.disk_full = lxd, dns, disk_full

    @rule(service=st.sampled_from(SERVICES), after=st.sampled_from([0.0, 1.0, 30.0, NEVER]))
    def ports(self, service: str, after: float) -> None:
        self.fleet.sims[service].env.standby_ports_open_after = after

    @rule(service=st.sampled_from(SERVICES), place=st.sampled_from(PLACES))
    def kill_the_controller(self, service: str, place: str) -> None:
        self.fleet.sims[service].kill_at = place

    @rule(looks=st.sampled_from([1, 3, 20]), then_ends=st.booleans())
    def watch(self, looks: int, then_ends: bool) -> None:
        for _ in range(looks):
            self.fleet.watch()
            self.fleet.clock.sleep(1.0)
        if then_ends:
            self.let_end()

    @rule(
        what=st.sampled_from(["group", "host"]),
        force=st.booleans(),
        word=st.sampled_from([None, None, "it", "another"]),
    )
    def failover(self, what: str, force: bool, word: str | None) -> None:
        name = "shop" if what == "group" else "hv0"
        services = SERVICES if what == "group" else [n for n, sim in self.fleet.sims.items() if sim.env.host == name]
        said: dict[str, Any] = {"force": True} if force else {}
        if word is not None:
            said["primary_is_down"] = name if word == "it" else "another"
        self.fleet.failover(what, name, services, **said)

    @rule(service=st.sampled_from(SERVICES))
    def failover_of_one(self, service: str) -> None:
        self.fleet.failover("service", service, [service])

    @rule(seconds=st.sampled_from([1.0, 31.0, 100.0]), jump=st.sampled_from([0.0, 0.0, 3600.0]))
    def time_passes(self, seconds: float, jump: float) -> None:
        self.fleet.clock.sleep(seconds)
        self.fleet.clock.set_by += jump
        for env in self.worlds():
            if env.power is Power.RUNNING:
                env.heartbeat_at = self.fleet.clock.now()

    @rule()
    def everything_is_mended(self) -> None:
        """What was begun is brought to its end by the next controller, by itself, in its order."""
        for sim in self.fleet.sims.values():
            sim.kill_at, sim.patience = None, None
            sim.env.hypervisor_answers = sim.env.lxd_answers = sim.env.dns_answers = True
            sim.env.network_cut, sim.env.libvirtd_hangs, sim.env.fence_command_works = (
                False,
                False,
                True,
            )
            sim.env.disk_full, sim.env.standby_ports_open_after = False, 1.0
        under_way = [name for name in SERVICES if self.under_way(name)]
        for _ in range(300):
            self.fleet.watch()
            self.fleet.clock.sleep(1.0)
            if not any(self.under_way(name) for name in under_way):
                break
        for sim in self.fleet.sims.values():
            sim.patience = 4
        self.let_end()
        stuck = [name for name in under_way if self.under_way(name) and self.needs_are_up(name)]
        assert not stuck, f"nobody brings to its end what was begun of {stuck}"

    def under_way(self, name: str) -> bool:
        episode = self.fleet.journal.state(name).open_episode
        return episode is not None and episode.tried(Step.FENCE)

    def needs_are_up(self, name: str) -> bool:
        return all(
            self.fleet.sims[need].env.open_ports or self.fleet.sims[need].serves_from_standby() for need in NEEDS[name]
        )

    @precondition(lambda self: not self.fleet.is_at_work)
    @rule()
    def operators_bring_everything_back(self) -> None:
        for env in self.worlds():
            env.disk_full, env.hypervisor_answers, env.operators_word = False, True, False
            env.network_cut = env.libvirtd_hangs = False
        for sim in self.fleet.sims.values():
            sim.serve_from_primary()

    @invariant()
    def there_is_one_live_copy(self) -> None:
        Promises.taken += 1
        for name, sim in self.fleet.sims.items():
            if sim.env.power is Power.RUNNING and sim.env.standby_running:
                assert sim.env.operators_word, f"two live copies of {name}"
        if self.fleet.clock.broken is not None:
            raise self.fleet.clock.broken


def budget(steps: int, short: int) -> settings:
    """So many `steps` in a long run, so many walks in a `short` one."""
    walks = max(1, steps // STEPS_OF_ONE_WALK) if steps else short
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


#: Several services are slower than one.
MACHINES = [(Promises, STEPS, 200), (PromisesOfSeveral, STEPS // 5, 30)]


@pytest.mark.timeout(0 if STEPS else 600)
@pytest.mark.parametrize(("machine", "steps", "short"), MACHINES, ids=["one-service", "several-services"])
def test_the_promises_hold(
    machine: type[RuleBasedStateMachine], steps: int, short: int, capsys: pytest.CaptureFixture[str]
) -> None:
    Promises.taken = 0
    if not STEPS:
        run_state_machine_as_test(machine, settings=budget(0, short))
        return
    number = int(os.environ.get("VCRECOVERY_SEED") or random.SystemRandom().randrange(2**32))
    with capsys.disabled():
        print(f"\nVCRECOVERY_SEED={number} VCRECOVERY_STEPS={STEPS}", flush=True)  # noqa: T201
        seeded: Any = seed(number)(machine)
        run_state_machine_as_test(seeded, settings=budget(steps, short))
        print(f"{Promises.taken} steps were taken", flush=True)  # noqa: T201
