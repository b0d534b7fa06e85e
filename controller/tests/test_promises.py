"""The promises (README) as invariants of a state machine over random faults, orders and answers that are lost or late.

What runs is the shipped program over simulated drivers (see `simulated`); each walk has a seed of its own, from which
the order of its tasks comes and how long each question takes. `make test` makes the same short walks each time, and a
few with a new seed, which is printed: VCRECOVERY_SEED=N makes those again. VCRECOVERY_STEPS=1000000 makes long ones. A
step is a turn of a task: what it does between two waits.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

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

from conftest import MEMORY, NEW_SEED
from simulated.observed import POLICY, Observed
from simulated.scheduler import Process
from simulated.world import MODES as ALL_MODES
from simulated.world import Service
from vcrecovery.core.episode import Episode, Step
from vcrecovery.core.power import OFF, Power
from vcrecovery.core.service_state import Side
from vcrecovery.errors import ExternalError, VCRecoveryError

STEPS = int(os.environ.get("VCRECOVERY_STEPS", "0"))
RULES_OF_ONE_WALK = 30
NEVER = 1e9
POINTS = ("vcr-20261121T110000Z", "vcr-20261121T120000Z")
MODES = sorted(ALL_MODES)
REFUSES = "answers REFUSED for www"
#: What may go wrong in the middle of a failover.
TROUBLE: Mapping[str, dict[str, Any]] = {
    "lxd": {"lxd_answers": False},
    "dns": {"dns_answers": False},
    "key": {"dns_key_good": False},
    "second dns": {"ns2": REFUSES},
    "ports": {"standby_ports_open_after": NEVER},
    "flapping ports": {"standby_flaps_for": NEVER},
    "disk": {"disk_full": True},
    "libvirt": {"libvirtd_hangs": True},
    "hypervisor": {"hypervisor_answers": False},
    "cut": {"network_cut": True},
}
OTHERS = [
    "zabbix_event",
    "operator",
    "force",
    "switchover",
    "failback",
    "operator_starts_the_primary",
    "operator_stops_the_primary",
    "crash",
    "clock",
    "second watcher",
    "migrates away",
]
#: Where a kill leaves something half done.
PLACES = [
    *(f"{when} {step}" for step in Step for when in ("journalled", "after", "ended")),
    "in the middle of restore",
]
SEEDS = st.integers(0, 2**32 - 1)
CLOCKS_AHEAD = [-3600.0, -20.0, 0.0, 20.0, 3600.0]
#: A hypervisor.
NOT_OF_THE_PLAN = "hv7"


class Walk(RuleBasedStateMachine):
    """What all machines share."""

    taken: ClassVar[int] = 0
    site: Observed

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="vcr-promises-", dir=MEMORY))

    def lay_out(self, seed: int, services: Mapping[str, Mapping[str, Any]] | None = None, **how: Any) -> None:
        detection = {"cool_down": f"{POLICY.cool_down:g}s", **how.pop("detection", {})}
        # Short ones: what waits in vain takes many turns, and shows nothing.
        service = {"timeouts": {"ports": "5s", "dns": "3s", "fence": "8s"}, **how.pop("service", {})}
        plan = {"detection": detection, "service": service, "balance": how.pop("balance", {})}
        self.site = Observed(self.folder, services, seed=seed, plan=plan, **how)
        self.watch(3.0)

    def teardown(self) -> None:
        if hasattr(self, "site"):
            Walk.taken += self.site.scheduler.steps
            self.site.close()
        shutil.rmtree(self.folder)

    @property
    def services(self) -> list[Service]:
        return list(self.site.world.services.values())

    def change(self, name: str | None = None, /, **values: Any) -> None:
        names = list(self.site.world.services) if name is None else [name]
        self.site.change(names, values)

    def open_episode(self, name: str) -> Episode | None:
        return self.site.journal.state(name).open_episode

    def under_way(self, name: str) -> bool:
        """From the fence on: what was begun must be brought to its end."""
        episode = self.open_episode(name)
        return episode is not None and (episode.tried(Step.FENCE) or episode.tried(Step.STOP))

    def goes_back(self, name: str) -> bool:
        """Neither side serves, or the VM is about to: `standby reset` is refused."""
        episode = self.open_episode(name)
        return episode is not None and episode.request.back and episode.has_acted

    def watch(self, seconds: float) -> None:
        self.site.watch(seconds, to_the_end=False)
        self.site.closed()

    def watch_until(self, seconds: float, over: Callable[[], bool]) -> None:
        end = self.site.scheduler.time + seconds
        self.watch(2.0)
        while self.site.scheduler.time < end and not over():
            self.watch(2.0)

    def let(self, process: Process) -> None:
        """What an operator has typed goes on beside the watcher, which may stand still meanwhile."""
        self.site.run(120.0, lambda: process.is_over)
        if not process.is_over:
            # Its patience is over.
            with self.site.heard():
                self.site.scheduler.kill(process)
        self.site.closed()

    @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, 20.0]))
    def time_passes(self, seconds: float) -> None:
        self.watch(seconds)

    @rule(seconds=st.sampled_from([1.0, 31.0, 100.0]))
    def the_watcher_stands_still(self, seconds: float) -> None:
        """Its machine was suspended, or has too much to do."""
        self.site.run(seconds)

    @rule(forward=st.booleans())
    def the_clock_jumps(self, forward: bool) -> None:
        self.site.scheduler.set_by += 3600.0 if forward else -3600.0
        self.site.jumped_at = self.site.scheduler.time

    @rule(turns=st.integers(1, 300), seconds=st.sampled_from([1.0, 10.0]))
    def the_watcher_is_killed(self, turns: int, seconds: float) -> None:
        """Between any two things that it does; systemd starts it again."""
        if self.site.watcher is not None and self.site.watcher.alive:
            self.site.scheduler.kill_in = (self.site.watcher, turns)
        self.watch(seconds)

    @rule(seconds=st.sampled_from([1.0, 20.0]))
    def a_second_watcher_runs(self, seconds: float) -> None:
        """Nobody should, and somebody will."""
        self.site.start_another_watcher()
        self.watch(seconds)
        self.site.kill_other_watchers()

    @rule(place=st.sampled_from(PLACES))
    def somebody_is_killed_at(self, place: str) -> None:
        self.site.kill_at = place

    @rule(part=st.sampled_from([0.0, 0.0, 0.05]))
    def answers_are_lost(self, part: float) -> None:
        self.site.scheduler.loses = part

    def all_is_well_again(self) -> None:
        self.site.kill_at, self.site.scheduler.kill_in, self.site.scheduler.loses = None, None, 0.0
        self.change(
            hypervisor_answers=True,
            lxd_answers=True,
            dns_answers=True,
            dns_key_good=True,
            libvirtd_hangs=False,
            network_cut=False,
            disk_full=False,
            virtual_ip_elsewhere=False,
            fence_acts_late=None,
            address_answers=False,
            fence_command_works=True,
            fence_command_lies=False,
            clock_ahead=0.0,
            lxd_ahead=0.0,
            standby_ports_open_after=1.0,
            standby_flaps_for=0.0,
            standby_service_ended=False,
            standby_ends_after=None,
            unit_state="",
            reference_answers=True,
        )
        for service in self.services:
            if service.ns2 is not None:
                service.ns2 = ""
            self.it_is_where_the_plan_has_it(service)

    def it_is_where_the_plan_has_it(self, service: Service) -> None:
        service.undefined = False
        home = self.site.plan.services[service.name].primary.hypervisor
        if service.host == NOT_OF_THE_PLAN and service.power is Power.RUNNING:
            self.site.world.migrate(service, home)
        elif service.host == NOT_OF_THE_PLAN:
            service.host = home

    def leaves_the_plan(self, service: Service) -> None:
        """While it runs: its hypervisors do not know it any more, and it lives on."""
        if service.power is Power.RUNNING and service.libvirt_answers and not service.by_hand:
            self.site.world.migrate(service, NOT_OF_THE_PLAN)

    @invariant()
    def there_is_one_live_copy(self) -> None:
        if hasattr(self, "site"):
            self.site.one_live_copy()
            if self.site.scheduler.broken is not None:
                raise self.site.scheduler.broken


class Promises(Walk):
    """One service, its controllers and its operator, and everything that can go wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = self.dns_epoch = 0
        self.more_comes_until = 0.0

    @property
    def web(self) -> Service:
        return self.site.world.services["web"]

    @initialize(
        seed=SEEDS,
        fence_command=st.booleans(),
        hold_returning=st.booleans(),
        mode=st.sampled_from(MODES),
        ns2=st.sampled_from([None, ""]),
        two_names=st.booleans(),
        virtual_ip=st.sampled_from([None, "10.0.0.50"]),
        when_down=st.sampled_from(["report", "failover"]),
    )
    def begin(
        self,
        seed: int,
        fence_command: bool,
        hold_returning: bool,
        mode: str,
        ns2: str | None,
        two_names: bool,
        virtual_ip: str | None,
        when_down: str,
    ) -> None:
        world = {"fence_command": fence_command, "mode": mode, "ns2": ns2, "virtual_ip": virtual_ip}
        world["two_names"] = two_names
        detection = {"hold_returning": hold_returning, "reference": ["10.10.0.1:22"]}
        service = {"on_service_down": {"after": "10s", "do": when_down}}
        self.lay_out(seed, world={**world, "restore_points": POINTS}, detection=detection, service=service)

    # -- the primary and its hypervisor ------------------------------------------------------------------------

    @rule(seen=st.booleans())
    def crash(self, seen: bool) -> None:
        self.site.crash("web")
        if seen:
            self.watch(1.0)

    @rule(
        what=st.sampled_from([*TROUBLE, "a kill", "a kill"]),
        place=st.sampled_from(PLACES),
        turns=st.one_of(st.none(), st.integers(1, 250)),
        meanwhile=st.sampled_from([None, None, *OTHERS]),
        after=st.sampled_from([0.05, 0.3, 0.7, 1.5, 3.0]),
        lost=st.sampled_from([0.0, 0.0, 0.1]),
        seconds=st.sampled_from([3.0, 3.0, 12.0, 70.0]),
        then_mended=st.booleans(),
    )
    def a_failover_under_fire(
        self,
        what: str,
        place: str,
        turns: int | None,
        meanwhile: str | None,
        after: float,
        lost: float,
        seconds: float,
        then_mended: bool,
    ) -> None:
        """All is well, the VM crashes, and then all goes wrong at once: what walks seldom get to otherwise."""
        self.operator_brings_the_primary_back()
        self.resume()
        self.acknowledge()
        self.watch(1.5)
        self.site.scheduler.loses = lost
        self.goes_wrong(what, place)
        if turns is not None and self.site.watcher is not None:
            self.site.scheduler.kill_in = (self.site.watcher, turns)
        if meanwhile is not None:
            self.meanwhile(seconds=after, what=meanwhile)
        self.site.crash("web")
        self.watch(seconds)
        self.site.then.clear()
        if then_mended:
            self.everything_is_mended()

    @rule(syncs=st.booleans())
    def sync(self, syncs: bool) -> None:
        self.change(syncs=syncs)

    @rule(cpu=st.sampled_from([0.0, 5.0, 100.0]), ports=st.booleans())
    def cpu_and_ports(self, cpu: float, ports: bool) -> None:
        self.change(cpu=cpu, primary_ports_open=ports)

    @rule(state=st.sampled_from(["", "failed", "inactive"]), reference=st.booleans(), again=st.booleans())
    def its_service_ends(self, state: str, reference: bool, again: bool) -> None:
        """What the VM says of that, and whether the network seems well; it may be up again in the middle of it."""
        self.change(primary_ports_open=False, unit_state=state, reference_answers=reference)
        self.watch(12.0)
        if again:
            self.change(primary_ports_open=True, unit_state="")
        self.watch(8.0)

    @rule(answers=st.booleans())
    def something_answers_at_the_primarys_address(self, answers: bool) -> None:
        self.change(address_answers=answers)

    @rule(reason=st.sampled_from(["shutdown", "destroyed"]))
    def operator_stops_the_primary(self, reason: str) -> None:
        if self.web.power not in OFF:
            self.site.stop_primary("web", reason)

    @precondition(lambda self: self.web.power is Power.RUNNING)
    @rule(reason=st.sampled_from(["", "I/O error", "watchdog", "migration"]))
    def something_pauses_the_primary(self, reason: str) -> None:
        self.site.world.becomes(self.web, Power.PAUSED, reason)

    @rule()
    def operator_starts_the_primary(self) -> None:
        """By hand, whatever the controllers do: from the fence on, two may live for as long as nobody can see it."""
        if self.under_way("web") or self.web.serves:
            self.web.is_started_by_hand()
        self.site.start_primary("web")

    @rule(then=st.sampled_from(["", "", "crash", "ports", "failover", "force"]), seconds=st.sampled_from([2.0, 12.0]))
    def the_primary_leaves_the_plan(self, then: str, seconds: float) -> None:
        """It is migrated to where nobody looks, which the watcher hears, and something befalls it there."""
        self.operator_brings_the_primary_back()
        self.leaves_the_plan(self.web)
        self.watch(3.0)
        match then:
            case "crash":
                self.site.crash("web")
            case "ports":
                self.change(primary_ports_open=False, unit_state="failed")
            case "failover" | "force":
                self.let(self.site.begin_failover(force=then == "force"))
        self.watch(seconds)

    @rule(then=st.sampled_from(["", "crash", "destroyed", "shutdown", "its host"]))
    def the_primary_is_undefined(self, then: str) -> None:
        """No hypervisor knows it any more once it is off; not even why it is."""
        self.change(undefined=True)
        match then:
            case "crash":
                self.site.crash("web")
            case "destroyed" | "shutdown":
                self.operator_stops_the_primary(then)
            case "its host":
                self.hypervisor_loses_its_power(autostart=False, back=True)
        self.watch(5.0)

    @rule(trouble=st.sampled_from(["", "silent", "crashed", "hangs", "cut"]))
    def hypervisor(self, trouble: str) -> None:
        if trouble == "crashed":
            self.site.crash("web")
        self.change(
            hypervisor_answers=trouble not in ("silent", "crashed"),
            libvirtd_hangs=trouble == "hangs",
            network_cut=trouble == "cut",
        )

    @rule(autostart=st.booleans(), back=st.booleans())
    def hypervisor_loses_its_power(self, autostart: bool, back: bool) -> None:
        """libvirt forgets with it why a VM was off before."""
        self.change(hypervisor_answers=False, autostart=autostart)
        self.site.world.becomes(self.web, Power.SHUTOFF)
        self.web.reason = ""
        self.watch(2.0)
        self.change(hypervisor_answers=back)

    @rule(
        works=st.booleans(), lies=st.sampled_from([False, False, True]), late=st.sampled_from([None, None, 3.0, 40.0])
    )
    def fence_command(self, works: bool, lies: bool, late: float | None) -> None:
        self.change(fence_command_works=works, fence_command_lies=lies, fence_acts_late=late)

    @rule(ahead=st.sampled_from(CLOCKS_AHEAD))
    def the_clock_of_the_vm_is_off(self, ahead: float) -> None:
        self.change(clock_ahead=ahead)

    @rule(ahead=st.sampled_from(CLOCKS_AHEAD))
    def the_clock_of_the_secondary_is_off(self, ahead: float) -> None:
        self.change(lxd_ahead=ahead)

    @rule(
        seconds=st.sampled_from([18.0, 24.0, 36.0]),
        meanwhile=st.sampled_from(["", "", "crash", "pause", "ports", "hangs"]),
        lies=st.sampled_from([False, False, True]),
    )
    def a_cut_that_the_fence_does_not_cross(self, seconds: float, meanwhile: str, lies: bool) -> None:
        """And what is there when it is over. Before it all is well, or walks would seldom get that far."""
        self.operator_brings_the_primary_back()
        self.resume()
        self.acknowledge()
        self.watch(3.0)
        self.change(network_cut=True, fence_command_works=lies, fence_command_lies=lies)
        scheduler = self.site.scheduler
        scheduler.at(scheduler.time + seconds, lambda: self.the_network_is_back(meanwhile))
        self.watch(seconds + 20)

    def the_network_is_back(self, what: str) -> None:
        match what:
            case "crash":
                self.site.crash("web")
            case "pause" if self.web.power is Power.RUNNING:
                self.site.world.becomes(self.web, Power.PAUSED)
            case "ports":
                self.change(primary_ports_open=False)
            case "hangs":
                self.change(libvirtd_hangs=True, fence_command_works=True)
        self.change(network_cut=False)

    # -- the standby's side ------------------------------------------------------------------------------------

    @rule(answers=st.booleans())
    def lxd(self, answers: bool) -> None:
        self.change(lxd_answers=answers)

    @rule(mode=st.sampled_from(MODES))
    def standby_set(self, mode: str) -> None:
        self.site.set_mode("web", mode)

    @rule(answers=st.booleans(), key_good=st.booleans(), second=st.sampled_from(["", REFUSES]))
    def dns(self, answers: bool, key_good: bool, second: str) -> None:
        self.change(dns_answers=answers, dns_key_good=key_good)
        if self.web.ns2 is not None:
            self.change(ns2=second)

    @rule(elsewhere=st.booleans())
    def virtual_ip(self, elsewhere: bool) -> None:
        self.change(virtual_ip_elsewhere=elsewhere)

    @rule(after=st.sampled_from([0.0, 1.0, 30.0, NEVER]), flaps_for=st.sampled_from([0.0, 0.0, 5.0, NEVER]))
    def ports_of_the_standby(self, after: float, flaps_for: float) -> None:
        """They open late, never, close again, or do all of that in turn."""
        self.change(standby_ports_open_after=after, standby_flaps_for=flaps_for)

    @precondition(lambda self: self.web.serves)
    @rule(container=st.booleans(), asks=st.booleans(), place=st.sampled_from([None, None, *PLACES]))
    def the_standby_serves_no_more(self, container: bool, asks: bool, place: str | None) -> None:
        """Its container ends, or the service in it; an operator asks for what helps, and may be killed over it."""
        self.change(**({"standby_running": False} if container else {"standby_service_ended": True}))
        if asks:
            self.site.kill_at = place
            self.let(self.site.begin_failover())

    @precondition(lambda self: self.web.serves)
    @rule(frozen=st.booleans())
    def somebody_stops_the_standby(self, frozen: bool) -> None:
        """By LXD, which says so to whoever listens. It is not brought up unless somebody asks for that."""
        self.watch(5.0)
        if self.site.scheduler.time < self.more_comes_until:
            return
        state, watcher = self.site.journal.state("web"), self.site.watcher
        heard = watcher is not None and watcher.alive and self.web.lxd_answers and self.site.scheduler.kill_in is None
        settled = state.side is Side.STANDBY and state.open_episode is None and not self.site.operators
        if not (self.web.serves and heard and settled):
            return
        self.change(**{"standby_frozen_by" if frozen else "standby_stopped_by": "root over unix"})
        starts = self.web.starts
        self.watch(20.0)
        assert self.web.starts == starts, self.site.log[-80:]

    @rule(after=st.sampled_from([None, None, 0.3, 3.0, 40.0]))
    def the_standby_ends_by_itself(self, after: float | None) -> None:
        """So long after each start of it."""
        self.change(standby_ends_after=after)

    @rule(full=st.booleans())
    def disk(self, full: bool) -> None:
        self.change(disk_full=full)

    # -- others ------------------------------------------------------------------------------------------------

    @rule(twice=st.booleans())
    def zabbix_event(self, twice: bool) -> None:
        processes = [self.site.zabbix_event() for _ in range(1 + twice)]
        for process in processes:
            self.let(process)

    @rule(
        seconds=st.sampled_from([0.1, 0.5, 1.0, 3.0, 20.0]),
        what=st.sampled_from(OTHERS),
    )
    def meanwhile(self, seconds: float, what: str) -> None:
        """While somebody waits or works, something else happens: a second controller, an operator, a fault."""
        acts: Mapping[str, Callable[[], object]] = {
            "zabbix_event": self.site.zabbix_event,
            "operator": self.site.begin_failover,
            "force": lambda: self.site.begin_failover(force=True),
            "switchover": lambda: self.site.begin_failover(verb="switchover"),
            "failback": lambda: self.site.begin_failover(verb="failback"),
            "operator_stops_the_primary": lambda: self.operator_stops_the_primary("shutdown"),
            "clock": lambda: self.the_clock_jumps(forward=after_noon(seconds)),
            "second watcher": self.site.start_another_watcher,
            "operator_starts_the_primary": self.operator_starts_the_primary,
            "crash": lambda: self.site.crash("web"),
            "migrates away": lambda: self.leaves_the_plan(self.web),
        }
        at = self.site.scheduler.time + seconds
        self.more_comes_until = max(self.more_comes_until, at)
        self.site.scheduler.at(at, lambda: void(acts[what]()))

    # -- the operator ------------------------------------------------------------------------------------------

    @rule(tries=st.lists(st.tuples(st.sampled_from(POINTS), st.sampled_from([None, *PLACES])), min_size=1, max_size=3))
    def failover_to_restore_points(self, tries: list[tuple[str, str | None]]) -> None:
        """The operator cannot decide, and the controller dies."""
        for restore_point, place in tries:
            self.site.kill_at = place
            self.let(self.site.begin_failover(restore_point=restore_point))

    @rule(
        force=st.booleans(),
        word=st.booleans(),
        restore_point=st.sampled_from([None, None, None, "latest", *POINTS, "none such"]),
    )
    def failover(self, force: bool, word: bool, restore_point: str | None) -> None:
        said: dict[str, Any] = {"force": force, "primary_is_down": word, "restore_point": restore_point}
        # What the operator says of a primary that runs is the operator's to answer for.
        if word:
            self.web.operators_word, self.web.by_hand = True, False
        self.let(self.site.begin_failover(**{key: value for key, value in said.items() if value}))

    def goes_wrong(self, what: str, place: str) -> None:
        """Once, at that place; empty: nothing does."""
        if what == "a kill":
            self.site.kill_at = place
        elif what and (what != "second dns" or self.web.ns2 is not None):
            self.site.then[place] = [lambda: self.change(**TROUBLE[what])]

    def move_under_fire(self, verb: str, meanwhile: str | None, after: float) -> None:
        if meanwhile is not None:
            self.meanwhile(seconds=after, what=meanwhile)
        self.let(self.site.begin_failover(verb=verb))
        self.site.then.clear()
        self.site.kill_at = None

    def and_then(self, then: str) -> None:
        if then == "mended":
            self.everything_is_mended()
        elif then == "watch":
            self.watch(12.0)
        else:
            words: dict[str, Any] = {"force": True} if then == "force" else {"verb": then}
            self.let(self.site.begin_failover(**words))

    @rule(
        what=st.sampled_from(["", "", *TROUBLE, "a kill", "a kill", "no last files"]),
        place=st.sampled_from(PLACES),
        within=st.sampled_from([1.0, 5.0, 400.0, None]),
        meanwhile=st.sampled_from([None, None, *OTHERS]),
        after=st.sampled_from([0.05, 0.3, 1.5, 3.0, 5.0]),
        lost=st.sampled_from([0.0, 0.0, 0.1]),
        then=st.sampled_from(["switchover", "watch", "mended", "force"]),
    )
    def a_switchover_under_fire(
        self,
        what: str,
        place: str,
        within: float | None,
        meanwhile: str | None,
        after: float,
        lost: float,
        then: str,
    ) -> None:
        """All is well, the operator moves the service, and then something goes wrong at some place."""
        self.operator_brings_the_primary_back()
        self.watch(1.5)
        self.change(shuts_down_within=within, sends_last_files=True)
        self.site.scheduler.loses = lost
        if what == "no last files":
            self.site.then["journalled shutdown"] = [lambda: self.change(syncs=False)]
        else:
            self.goes_wrong(what, place)
        self.move_under_fire("switchover", meanwhile, after)
        self.and_then(then)
        self.change(shuts_down_within=3.0, syncs=True)

    @rule(
        what=st.sampled_from(["", "", *TROUBLE, "a kill", "a kill", "a crash", "a full disk", "the standby ends"]),
        place=st.sampled_from(PLACES),
        within=st.sampled_from([0.5, 2.0, 8.0]),
        meanwhile=st.sampled_from([None, None, *OTHERS]),
        after=st.sampled_from([0.05, 0.7, 3.0, 5.0, 8.0]),
        lost=st.sampled_from([0.0, 0.0, 0.1]),
        then=st.sampled_from(["failback", "failback", "watch", "mended", "force"]),
    )
    def a_failback_under_fire(
        self,
        what: str,
        place: str,
        within: float,
        meanwhile: str | None,
        after: float,
        lost: float,
        then: str,
    ) -> None:
        """The standby serves, the operator returns to the VM, and then something goes wrong at some place."""
        if self.site.journal.state("web").side is Side.PRIMARY:
            self.site.crash("web")
        self.everything_is_mended()
        self.change(primary_ports_open=True, cpu=5.0, syncs=True, fetches_within=within)
        self.site.scheduler.loses = lost
        wrong: dict[str, Callable[[], object]] = {
            "a crash": lambda: self.site.crash("web"),
            "a full disk": lambda: self.change(fetches_within=None),
            "the standby ends": lambda: self.change(standby_running=False) if self.web.serves else None,
        }
        if what in wrong:
            self.site.then[place] = [lambda: void(wrong[what]())]
        else:
            self.goes_wrong(what, place)
        self.move_under_fire("failback", meanwhile, after)
        self.change(fetches_within=2.0)
        self.and_then(then)

    @rule(seconds=st.sampled_from([None, 30.0, 1000.0]))
    def suspend(self, seconds: float | None) -> None:
        with suppress(ExternalError):
            self.site.suspend("web", seconds)

    @rule()
    def resume(self) -> None:
        with suppress(ExternalError):
            self.site.resume("web")

    @rule()
    def acknowledge(self) -> None:
        with suppress(ExternalError):
            self.site.acknowledge("web")
            self.site.acknowledged.add("web")

    @precondition(lambda self: self.site.journal.state("web").side is Side.STANDBY or self.under_way("web"))
    @rule()
    def operator_brings_the_primary_back(self) -> None:
        """Stops the container, starts the VM, points DNS back, and then `vcrecovery standby reset`."""
        if self.goes_back("web"):
            self.everything_is_mended()
        self.all_is_well_again()
        self.site.kill_other_watchers()
        for process in self.site.operators:
            self.let(process)
        self.site.kill_watcher()
        self.change(primary_ports_open=True, cpu=5.0, syncs=True)
        self.site.serve_from_primary("web")
        self.web.operators_word, self.web.lied_at = False, None
        self.watch(2.0)

    # -- and in the end ----------------------------------------------------------------------------------------

    @rule()
    def everything_is_mended(self) -> None:
        """What was begun is brought to its end by the next controller, automatically."""
        self.all_is_well_again()
        self.site.kill_other_watchers()
        for process in self.site.operators:
            self.let(process)
        episode = self.open_episode("web")
        if episode is not None and episode.request.back and episode.has_acted:
            # It is the VM that is to answer; one that somebody has paused only he resumes, and the error says so.
            self.change(primary_ports_open=True, unit_state="")
            if self.web.power is Power.PAUSED and not self.web.quarantined:
                self.site.world.becomes(self.web, Power.RUNNING)
        if episode is not None and episode.to_restore is not None and not episode.done(Step.START):
            # The error says so: only the operator may throw away what it has written.
            self.change(standby_running=False)
        self.site.kill_watcher()
        must = self.under_way("web")
        self.watch_until(90.0, lambda: not self.under_way("web"))
        if must and self.open_episode("web") is not None:
            raise AssertionError("\n".join(["nobody brings to its end what was begun", *self.site.log[-60:]]))

    @invariant()
    def the_epoch_only_grows(self) -> None:
        if not hasattr(self, "site"):
            return
        epoch = self.site.journal.state("web").epoch
        assert epoch >= self.epoch
        spent = [e.epoch for e in self.site.journal.history("web", 10_000) if e.tried(Step.FENCE)]
        assert spent == sorted(set(spent), reverse=True), "an epoch is spent twice"
        assert self.dns_epoch <= self.web.dns_epoch <= epoch
        self.epoch, self.dns_epoch = epoch, self.web.dns_epoch


def after_noon(seconds: float) -> bool:
    """Either way, as it comes."""
    return seconds < 1


def void(_found: object) -> None:
    """For who only wants it done."""


NEEDS = {"db": [], "cache": [], "app": ["db", "cache"], "front": ["app"], "mail": []}
SERVICES = sorted(NEEDS)
#: By the plan.
SERVICES_OF_HV0 = list(NEEDS)[::2]


class PromisesOfSeveral(Walk):
    """Services that need each other, on two hypervisors, with watchers and operators."""

    @initialize(seed=SEEDS, starts_at_once=st.integers(1, 3), fence_command=st.booleans(), mode=st.sampled_from(MODES))
    def begin(self, seed: int, starts_at_once: int, fence_command: bool, mode: str) -> None:
        services = {
            name: {
                "needs": needs,
                "host": f"hv{number % 2}",
                "secondary": f"sec{1 + number % 3 // 2}",
                "mode": mode if number else "cold",
            }
            for number, (name, needs) in enumerate(NEEDS.items())
        }
        world = {"fence_command": fence_command}
        self.lay_out(seed, services, world=world, groups={"shop": SERVICES}, starts_at_once=starts_at_once)

    def on(self, host: str) -> list[str]:
        return [service.name for service in self.site.world.on(host)]

    @rule(
        services=st.sets(st.sampled_from(SERVICES), min_size=2),
        what=st.sampled_from([None, None, *(name for name in TROUBLE if name != "second dns")]),
        place=st.sampled_from(PLACES),
        turns=st.one_of(st.none(), st.integers(1, 600)),
        slow=st.sampled_from([None, None, *SERVICES]),
        lost=st.sampled_from([0.0, 0.0, 0.1]),
        seconds=st.sampled_from([5.0, 15.0, 40.0]),
        then_mended=st.booleans(),
    )
    def failures_under_fire(
        self,
        services: set[str],
        what: str | None,
        place: str,
        turns: int | None,
        slow: str | None,
        lost: float,
        seconds: float,
        then_mended: bool,
    ) -> None:
        """All is well, several crash together, and then all goes wrong at once."""
        self.all_is_well_and_acknowledged()
        self.site.scheduler.loses = lost
        if slow is not None:
            self.change(slow, standby_ports_open_after=3.5)
        if what is not None:
            self.site.then[place] = [lambda: self.change(**TROUBLE[what])]
        if turns is not None and self.site.watcher is not None:
            self.site.scheduler.kill_in = (self.site.watcher, turns)
        for name in sorted(services):
            self.site.crash(name)
        self.watch(seconds)
        self.site.then.clear()
        if then_mended:
            self.everything_is_mended()

    def all_is_well_and_acknowledged(self) -> None:
        self.operators_bring_everything_back()
        for name in SERVICES:
            self.site.acknowledge(name)
        self.site.acknowledged.update(SERVICES)

    @rule(services=st.sets(st.sampled_from(SERVICES), min_size=1))
    def crash(self, services: set[str]) -> None:
        for name in sorted(services):
            self.site.crash(name)

    @rule(host=st.sampled_from(["hv0", "hv1"]), answers=st.booleans(), crashed=st.booleans())
    def hypervisor(self, host: str, answers: bool, crashed: bool) -> None:
        for name in self.on(host):
            if crashed and not answers:
                self.site.crash(name)
            self.change(name, hypervisor_answers=answers)

    @rule(
        host=st.sampled_from(["hv0", "hv1"]),
        dead=st.sets(st.sampled_from(SERVICES), min_size=1, max_size=2),
        seconds=st.sampled_from([22.0, 40.0]),
    )
    def a_silent_hypervisor_on_which_some_answer(self, host: str, dead: set[str], seconds: float) -> None:
        """All is well, libvirt falls silent there, and some VMs die: the others must not be powered off with them."""
        self.all_is_well_and_acknowledged()
        for name in self.on(host):
            self.change(name, hypervisor_answers=False)
            if name in dead:
                self.site.crash(name)
        self.watch(seconds)

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
        there, scheduler = self.on(host), self.site.scheduler

        def back(libvirt: bool) -> None:
            for name in there:
                self.change(name, network_cut=False, fence_command_works=True, libvirtd_hangs=not libvirt)

        for name in there:
            self.change(name, network_cut=True, fence_command_works=False)
            if name in crash:
                scheduler.at(scheduler.time + seconds - 1, lambda name=name: self.site.crash(name))  # type: ignore[misc]
        scheduler.at(scheduler.time + seconds, lambda: back(not ports_first))
        scheduler.at(scheduler.time + seconds + 10, lambda: back(True))
        self.watch(seconds + 30)

    @rule(host=st.sampled_from(["hv0", "hv1"]), works=st.booleans(), lies=st.sampled_from([False, False, True]))
    def fence_command(self, host: str, works: bool, lies: bool) -> None:
        for name in self.on(host):
            self.change(name, fence_command_works=works, fence_command_lies=lies)

    @rule(dns=st.booleans(), disk_full=st.sampled_from([False, False, True]))
    def outside(self, dns: bool, disk_full: bool) -> None:
        self.change(dns_answers=dns, disk_full=disk_full)

    @rule(secondary=st.sampled_from(["sec1", "sec2"]), answers=st.booleans())
    def secondary(self, secondary: str, answers: bool) -> None:
        for service in self.site.world.in_lxd(secondary):
            self.change(service.name, lxd_answers=answers)

    @rule(service=st.sampled_from(SERVICES), away=st.booleans())
    def migrates(self, service: str, away: bool) -> None:
        """To the other hypervisor, while it runs, or to one that is not of the plan."""
        vm = self.site.world.services[service]
        if away:
            self.leaves_the_plan(vm)
        elif vm.power is Power.RUNNING and vm.libvirt_answers:
            self.site.world.migrate(vm, "hv1" if vm.host == "hv0" else "hv0")

    @rule(service=st.sampled_from(SERVICES), after=st.sampled_from([0.0, 1.0, 30.0, NEVER]))
    def ports(self, service: str, after: float) -> None:
        self.change(service, standby_ports_open_after=after)

    @rule(
        what=st.sampled_from(["group", "host"]),
        force=st.booleans(),
        word=st.sampled_from([None, None, "it", "another"]),
    )
    def failover(self, what: str, force: bool, word: str | None) -> None:
        name = "shop" if what == "group" else "hv0"
        said: dict[str, Any] = {"force": True} if force else {}
        if word is not None:
            said["primary_is_down"] = name if word == "it" else "another"
        if word == "it":
            # Also of one that has left it, which is the plan's as before, while nobody there says that it has.
            for service in SERVICES if what == "group" else {*SERVICES_OF_HV0, *self.on(name)}:
                vm = self.site.world.services[service]
                home = self.site.plan.services[service].primary.hypervisor
                vm.operators_word |= vm.host != NOT_OF_THE_PLAN or not self.site.world.answers(home)
        self.let(self.site.begin_failover(what, name, **said))

    @rule(service=st.sampled_from(SERVICES))
    def failover_of_one(self, service: str) -> None:
        self.let(self.site.begin_failover("service", service))

    @rule()
    def everything_is_mended(self) -> None:
        """What was begun is brought to its end by the next controller, automatically, in its order."""
        self.all_is_well_again()
        self.site.kill_other_watchers()
        for process in self.site.operators:
            self.let(process)
        self.site.kill_watcher()
        begun = [name for name in SERVICES if self.under_way(name)]
        self.watch_until(120.0, lambda: not any(self.under_way(name) for name in begun))
        stuck = [name for name in begun if self.under_way(name) and self.needs_are_up(name)]
        if stuck:
            raise AssertionError("\n".join([f"nobody brings to its end what was begun: {stuck}", *self.site.log[-80:]]))

    def needs_are_up(self, name: str) -> bool:
        services = self.site.world.services
        return all(services[need].open_ports or services[need].serves for need in NEEDS[name])

    @rule()
    def operators_bring_everything_back(self) -> None:
        self.all_is_well_again()
        self.site.kill_other_watchers()
        for process in self.site.operators:
            self.let(process)
        self.site.kill_watcher()
        for name in SERVICES:
            state = self.site.journal.state(name)
            if state.side is Side.STANDBY or self.under_way(name):
                with suppress(VCRecoveryError):
                    self.site.serve_from_primary(name)
                self.site.world.services[name].operators_word = False
                self.site.world.services[name].lied_at = None
            elif self.site.world.services[name].power is not Power.RUNNING:
                self.site.start_primary(name)
        self.watch(3.0)


def walks(number: int, *, same: bool) -> settings:
    return settings(
        max_examples=number,
        stateful_step_count=RULES_OF_ONE_WALK,
        derandomize=same,
        database=None,
        deadline=None,
        print_blob=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )


class EnoughError(BaseException):
    """So many steps were taken as were asked for."""


#: Each with how many walks are the same each time, and how many are new.
MACHINES = [(Promises, 112, 28), (PromisesOfSeveral, 36, 9)]
NAMES = ["one-service", "several-services"]


@pytest.mark.begins_first
@pytest.mark.timeout(600)
@pytest.mark.skipif(bool(STEPS), reason="long walks were asked for")
@pytest.mark.parametrize("same", [True, False], ids=["the-same", "new"])
@pytest.mark.parametrize(("machine", "often", "anew"), MACHINES, ids=NAMES)
def test_the_promises_hold(machine: type[Walk], often: int, anew: int, same: bool) -> None:
    walked: Any = machine if same else seed(int(NEW_SEED))(machine)
    run_state_machine_as_test(walked, settings=walks(often if same else anew, same=same))


def walk_for_long(machine: type[Walk], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With new walks, until as many steps were taken as were asked for."""
    Walk.taken, begun = 0, time.monotonic()

    def enough(walk: Walk, ends: Callable[[Walk], None] = machine.teardown) -> None:
        ends(walk)
        if Walk.taken >= STEPS:
            raise EnoughError

    monkeypatch.setattr(machine, "teardown", enough)
    with capsys.disabled():
        print(f"\nVCRECOVERY_SEED={NEW_SEED} VCRECOVERY_STEPS={STEPS}", flush=True)  # noqa: T201
        seeded: Any = seed(int(NEW_SEED))(machine)
        with suppress(EnoughError):
            run_state_machine_as_test(seeded, settings=walks(10_000_000, same=False))
        took = time.monotonic() - begun
        print(f"{Walk.taken} steps, {Walk.taken / took:.0f} a second", flush=True)  # noqa: T201


for_long = pytest.mark.skipif(not STEPS, reason="VCRECOVERY_STEPS=1000000 asks for it")


@pytest.mark.timeout(0)
@for_long
@pytest.mark.parametrize("machine", [machine for machine, _, _ in MACHINES], ids=NAMES)
def test_the_promises_hold_for_long(
    machine: type[Walk], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    walk_for_long(machine, capsys, monkeypatch)
