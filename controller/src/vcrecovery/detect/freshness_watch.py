"""Notes how old each standby is, all the time, so that a report can say how fresh it was and not only how fresh it is;
and how much its sync has sent, for whoever pays for that.

Where the secondary is here only its files are read, nothing is asked of LXD. Elsewhere LXD hands out a copy of the
heartbeat, and is asked less often.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from vcrecovery.core.ages import Ages, added, of_ages
from vcrecovery.core.power import Power
from vcrecovery.core.sent_bytes import SentCount, grown
from vcrecovery.core.service_state import Serving, Side
from vcrecovery.core.sighting import ran_for
from vcrecovery.drivers.runtime import Event
from vcrecovery.errors import ExternalError
from vcrecovery.keeping import take_turns
from vcrecovery.operations.environment import Environment
from vcrecovery.store.freshness_book import FreshnessBook, hour_of
from vcrecovery.transfer.freshness import Freshness, from_the_future, read_age_lightly

log = logging.getLogger("vcrecovery.watch")

#: Seconds between two looks at a standby here, and at one on another machine.
EVERY, EVERY_ELSEWHERE = 10.0, 60.0
#: Seconds that are lost at most when the watcher is killed.
WRITTEN_EVERY = 60.0


class FreshnessWatch:
    """All services of a plan."""

    def __init__(self, env: Environment, book: FreshnessBook) -> None:
        self._env, self._book = env, book
        self._seen: dict[tuple[str, int], list[float | None]] = {}
        self._looked_elsewhere_at = float("-inf")
        self._written_at = env.clock.steady()
        self._unwritten: dict[tuple[str, int], Ages] = {}
        self._heard = book.sent_counts()
        self._sent: dict[tuple[str, int], int] = {}

    def turn(self) -> None:
        """One look at each standby whose primary runs and serves. Raises ExternalError."""
        env, steady = self._env, self._env.clock.steady()
        elsewhere_too = steady - self._looked_elsewhere_at >= EVERY_ELSEWHERE
        if elsewhere_too:
            self._looked_elsewhere_at = steady
        serving, powers = env.journal.who_serves(), env.journal.last_powers()
        silent: set[str] = set()
        for name, service in env.plan.services.items():
            lxd = env.lxd[service.standby.secondary]
            if (lxd.is_here or elsewhere_too) and _counts(name, serving, powers):
                fresh = self._fresh(name, silent)
                self._seen.setdefault((name, hour_of(env.clock.now())), []).append(self._age(name, fresh))
                self._count(name, fresh)
        if steady - self._written_at >= WRITTEN_EVERY:
            self.write()

    def _fresh(self, name: str, silent: set[str]) -> Freshness | None:
        """Of the secondaries that are `silent` none is asked for each of its services."""
        env, secondary = self._env, self._env.plan.services[name].standby.secondary
        if secondary in silent:
            return None
        try:
            return read_age_lightly(env.lxd[secondary], name, env.plan.secondaries[secondary])
        except ExternalError:
            silent.add(secondary)
            return None

    def _age(self, name: str, fresh: Freshness | None) -> float | None:
        now = self._env.clock.now()
        if fresh is None or fresh.synced_through is None or from_the_future(fresh, now):
            return None
        return ran_for(fresh.synced_through, now, self._env.journal.off_times(name))

    def _count(self, name: str, fresh: Freshness | None) -> None:
        if fresh is None or fresh.sent is None:
            return
        count = SentCount(fresh.boot, fresh.sent)
        key = (name, hour_of(self._env.clock.now()))
        self._sent[key] = self._sent.get(key, 0) + grown(self._heard.get(name), count)
        self._heard[name] = count

    def write(self) -> None:
        """What was seen since the last time, of all services at once. Raises ExternalError: then the next time."""
        self._written_at = self._env.clock.steady()
        seen, self._seen = self._seen, {}
        for key, ages in seen.items():
            self._unwritten[key] = added([self._unwritten.get(key, Ages()), of_ages(ages)])
        if self._unwritten:
            self._book.add(self._unwritten, self._env.clock.now())
            self._unwritten = {}
        if self._sent:
            heard = {name: self._heard[name] for name, _hour in self._sent}
            self._book.add_sent(self._sent, heard, self._env.clock.now())
            self._sent = {}


def _counts(name: str, serving: Mapping[str, Serving], powers: Mapping[str, Power]) -> bool:
    """A standby that serves, or whose primary is off and writes nothing, is not behind."""
    who = serving.get(name, Serving())
    return who.side is Side.PRIMARY and not who.at_work and powers.get(name, Power.RUNNING) is Power.RUNNING


def keep_noting(env: Environment, stop: Event) -> None:
    """Returns when `stop` is set. `env` is its own."""
    watch = None

    def turn() -> None:
        nonlocal watch
        watch = watch or FreshnessWatch(env, FreshnessBook(env.plan.state_dir))
        watch.turn()

    trouble = "how fresh standbys are is not noted: {}; going on"
    take_turns(turn, every=EVERY, stop=stop, log=log, about="freshness", trouble=trouble)
    if watch is not None:
        try:
            watch.write()
        except ExternalError as error:
            log.error("how fresh standbys were in the last minute is lost: %s", error)
