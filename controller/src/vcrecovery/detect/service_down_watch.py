"""Fails over services that do not answer although their VMs run, where the plan says so (`on_service_down`).

The ports are asked by `health_watch`. Here it is decided that it is neither the network nor somebody's wish; before
anything is touched, all of it is asked once more.
"""

from __future__ import annotations

import logging
from functools import partial

from vcrecovery.core.episode import Episode, Symptom
from vcrecovery.core.health import Health
from vcrecovery.core.power import Power
from vcrecovery.core.sentences import listed
from vcrecovery.core.service_down import FromTheVm, same_reason
from vcrecovery.core.service_state import ServiceState, Serving, Side
from vcrecovery.core.text import span
from vcrecovery.detect.attempts import Attempts
from vcrecovery.detect.health_watch import HealthWatch
from vcrecovery.detect.rounds import Rounds
from vcrecovery.detect.watch import Recover
from vcrecovery.drivers.runtime import Event
from vcrecovery.errors import ExternalError
from vcrecovery.keeping import SayOnce, go_on
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.policy import no_heartbeat_for
from vcrecovery.operations.serving import files_arrive
from vcrecovery.transfer.freshness import read_age

log = logging.getLogger("vcrecovery.watch")

#: Seconds between two turns. A turn that finds nothing asks nobody.
TURN = 2.0
#: Seconds for a reference to answer.
REFERENCE_WITHIN = 2.0
TASK = "look at services that are down"


class ServiceDownWatch:
    """Those services of a plan that are to be failed over for it."""

    def __init__(self, env: Environment, recover: Recover, health: HealthWatch, rounds: Rounds) -> None:
        self._env, self._recover, self._health, self._rounds = env, recover, health, rounds
        self._say = SayOnce(log)
        self._services = {
            name: Attempts(name, env.runtime, env.clock.steady)
            for name, service in env.plan.services.items()
            if service.on_service_down.do == "failover"
        }
        self._down_since: dict[str, float] = {}

    @property
    def has_any(self) -> bool:
        return bool(self._services)

    def run(self, stop: Event) -> None:
        """Returns when `stop` is set."""
        while not stop.wait(TURN):
            self._rounds.begin(TASK)
            due = [name for name in self._services if self._is_due(name)]
            silent = self._silent_references() if due else []
            for name in due:
                self._rounds.begin(TASK)
                try:
                    self._consider(name, silent)
                except ExternalError as error:
                    self._left_alone(name, f"whether its VM is unwell is not known: {error}")

    def _is_due(self, name: str) -> bool:
        """Whether its primary is to serve, and has not answered for as long as the plan allows."""
        serving, attempts = self._health.serving.get(name, Serving()), self._services[name]
        course = self._health.courses[name]
        if course.health is not Health.DOWN or serving.side is not Side.PRIMARY or serving.at_work:
            self._down_since.pop(name, None)
            self._say.well(name)
            attempts.no_cause(healthy=True)
            return False
        if course.steady_at is not None:
            # What comes and goes is down, but not for that long: it may be restarted again and again.
            self._down_since.pop(name, None)
            return False
        # By the steady clock: the other one may be set meanwhile.
        since = self._down_since.setdefault(name, self._env.clock.steady())
        is_over = self._env.clock.steady() - since >= self._env.plan.services[name].on_service_down.after
        return is_over and not attempts.busy and not self._recover.at_work(name)

    def _consider(self, name: str, silent: list[str]) -> None:
        env, service = self._env, self._env.plan.services[name]
        state, now = env.journal.state(name), env.clock.now()
        runs = state.seen is not None and state.seen.power is Power.RUNNING
        # Else it is the VM, not the service, and others see to that; where only Zabbix looks, the confirmation tells.
        if env.plan.detection.embedded and not runs:
            return
        if why := self._why_not(name, state, now, silent):
            self._left_alone(name, why)
            return
        fresh = read_age(env.lxd[service.standby.secondary], name, env.plan.secondaries[service.standby.secondary])
        heard = None if fresh.heard_at is None else max(0.0, now - fresh.heard_at)
        vm = FromTheVm(heard, fresh.units, files_arrive(env, name))
        if not (unwell := vm.unwell(no_heartbeat_for(service))):
            self._left_alone(name, f"its VM works: {vm.well()}")
            return
        cause = f"it does not answer, and its VM is unwell: {unwell}"
        attempts = self._services[name]
        if attempts.is_due(cause):
            self._say(name, f"{name}: {cause}", logging.WARNING, service=name)
            attempts.begin(cause, partial(self._fail_over, name, cause, now, self._health.courses[name].since))

    def _why_not(self, name: str, state: ServiceState, now: float, silent: list[str]) -> str:
        """Whatever its VM says; empty when nothing speaks against it."""
        if state.suspension_at(now) is not None:
            return "automatic failover is suspended"
        if state.cools(self._env.plan.detection.cool_down, now):
            return "its last failover was a short while ago"
        if silent:
            return f"{listed(silent)} does not answer either, so it may be the network"
        if others := self._same_reason(name):
            return f"{listed(others)} at the same site went down with it, so it may be the network"
        return ""

    def _fail_over(self, name: str, cause: str, detected_at: float, began_at: float | None) -> Episode:
        return self._recover(name, cause, detected_at, Symptom.SERVICE_DOWN, began_at=began_at)

    def _left_alone(self, name: str, why: str) -> None:
        after = span(self._env.plan.services[name].on_service_down.after)
        self._say(name, f"{name}: down for more than {after}, and not failed over: {why}", service=name)

    def _same_reason(self, name: str) -> list[str]:
        plan, courses, serving = self._env.plan, self._health.courses, self._health.serving
        homes = self._env.whereabouts.homes()
        site = plan.hypervisors[homes[name]].site
        there = [
            other
            for other, host in homes.items()
            if plan.hypervisors[host].site == site and serving.get(other, Serving()).side is Side.PRIMARY
        ]
        since = {other: courses[other].since for other in there if courses[other].health is Health.DOWN}
        return same_reason(name, since, there)

    def _silent_references(self) -> list[str]:
        silent = []
        for reference in self._env.plan.detection.reference:
            address, _, port = reference.rpartition(":")
            if not self._env.probes.is_there(address.strip("[]"), int(port), REFERENCE_WITHIN):
                silent.append(reference)
        return silent


def keep_looking(watch: ServiceDownWatch, stop: Event) -> None:
    """One turn that breaks is followed by the next. Returns at once where no service is to be failed over for it."""
    if not watch.has_any:
        return
    go_on(
        lambda: watch.run(stop),
        stop=stop,
        say=SayOnce(log),
        about="services that are down",
        trouble=lambda error: f"services that are down are not looked at: {error}; going on",
        again_after=TURN,
    )
