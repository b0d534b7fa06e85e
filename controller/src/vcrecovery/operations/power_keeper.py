"""Secondaries on demand while the watcher runs: off when nothing needs them, on when a standby is to serve there."""

from __future__ import annotations

import logging

from vcrecovery.core.power import Power
from vcrecovery.core.secondary_power import PowerAct, PowerDecision, SeenSecondary, decide_power
from vcrecovery.drivers.runtime import Event, each
from vcrecovery.errors import RefusedError
from vcrecovery.keeping import SayOnce, keep, spaced
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.secondary_power import SHUTS_DOWN_WITHIN, SecondaryPower, on_demand_secondaries
from vcrecovery.store.powered import PoweredBook

log = logging.getLogger("vcrecovery.watch")

EVERY = 2.0
#: Seconds between two notes of what one that is on holds.
NOTE_EVERY = 60.0


class PowerKeeper:
    """Of one secondary."""

    def __init__(self, env: Environment, name: str) -> None:
        self._env, self._name = env, name
        self._power = SecondaryPower(env, name)
        self._off_after = env.plan.secondaries[name].power_off_after
        self._book = PoweredBook(env.journal)
        #: By the steady clock: since when nothing needs it.
        self._unused_since: float | None = None
        self._noted_on = False
        self._say = SayOnce(log)
        self._note = spaced(self._power.note, NOTE_EVERY, env.clock.steady)

    def look(self) -> PowerDecision:
        """Does the next thing that it needs. Raises ExternalError."""
        seen, now = self._power.look(), self._env.clock.steady()
        if seen.power is not Power.RUNNING or seen.needed:
            self._unused_since = None
        elif self._unused_since is None:
            self._unused_since = now
        if seen.power is Power.RUNNING and not self._noted_on:
            # Whoever has started it.
            self._book.is_on(self._name, self._env.clock.now(), "")
        self._noted_on = seen.power is Power.RUNNING
        self._forget_a_request_of_long_ago(seen)
        unused_for = 0.0 if self._unused_since is None else now - self._unused_since
        decision = decide_power(seen, unused_for, self._off_after)
        if decision.wrong:
            self._say(self._name, f"secondary {self._name}: {decision.sentence}", logging.ERROR)
        elif decision.act is not None:
            log.info("secondary %s: %s", self._name, decision.sentence)
            self._say.well(self._name)
            self._do(decision.act)
        if decision.act is None and seen.power is Power.RUNNING and not (seen.serving or seen.at_work):
            self._note()
        return decision

    def _forget_a_request_of_long_ago(self, seen: SeenSecondary) -> None:
        """Else we would take somebody's own shutdown for ours."""
        if seen.asked_off and seen.power is Power.RUNNING:
            boot = self._book.now(self._name)
            if boot is None or not boot.asked_off_within(SHUTS_DOWN_WITHIN, self._env.clock.now()):
                self._book.has_overlooked_it(self._name)

    def _do(self, act: PowerAct) -> None:
        match act:
            case PowerAct.POWER_ON:
                done = self._power.power_on("a standby is to serve there")
                log.info("%s", done.summary)
            case PowerAct.POWER_OFF:
                try:
                    self._power.power_off()
                except RefusedError as error:  # needed since
                    log.info("%s", error)
                # It may have been needed, or booted again, before the next look.
                self._unused_since = None
            case PowerAct.MOUNT:
                self._power.mount()


def keep_power(env: Environment, stop: Event) -> None:
    """Returns when `stop` is set. Each has a thread of its own: a boot takes minutes."""

    def work(name: str) -> None:
        keeper, say = PowerKeeper(env, name), SayOnce(log)
        trouble = "is not powered as it should be"
        keep([name], lambda _name: (keeper.look(), None)[1], every=EVERY, stop=stop, say=say, trouble=trouble)

    each(env.runtime, work, on_demand_secondaries(env), "power")
