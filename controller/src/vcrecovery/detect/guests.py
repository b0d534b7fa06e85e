"""Secondaries that are made for a while: when one is asked for, and when what serves there goes home."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from vcrecovery.balance.choice import Move
from vcrecovery.balance.load import Load
from vcrecovery.balance.overload import FORGOTTEN_AFTER
from vcrecovery.errors import ExternalError
from vcrecovery.operations.elastic.keeper import begin_release
from vcrecovery.operations.elastic.room import ask, growth_of, too_soon, way_home
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.elastic import Elastic
from vcrecovery.plan.leased import leased_of

log = logging.getLogger("vcrecovery.watch")


class Guests:
    """`env` is its caller's."""

    def __init__(self, env: Environment) -> None:
        self._env, self._steady = env, env.clock.steady
        #: Since when all that serves on each could be at home, and when that was seen last.
        self._could_go: dict[str, tuple[float, float]] = {}
        #: Since when nothing is known of each that does not tell its load.
        self._silent_since: dict[str, float] = {}

    def look(self, elastic: Elastic, loads: Mapping[str, Load]) -> None:
        """One that is dead, and bears nothing any more, is given back. Raises ExternalError as below."""
        now, lent = self._steady(), leased_of(self._env.plan)
        for known in self._silent_since.keys() - (lent.keys() - loads.keys()):
            del self._silent_since[known]
        for name in lent.keys() - loads.keys():
            since = self._silent_since.setdefault(name, now)
            if now - since >= max(elastic.release_after, elastic.join_within) and not self._env.journal.bound_to(name):
                log.warning("%s: it does not answer, and nothing serves there any more: it is given back", name)
                begin_release(self._env, name)

    def _silent(self, elastic: Elastic) -> set[str]:
        """No load is known of any for some moments after a move."""
        now = self._steady()
        return {name for name, since in self._silent_since.items() if now - since >= elastic.join_within}

    def ask(self, elastic: Elastic, loads: Mapping[str, Load], overloaded: Collection[str], why: str) -> None:
        """For those that are overloaded and find no room. Raises ExternalError when the journal cannot be used."""
        if self._env.clock.now() < too_soon(self._env):
            return
        growth = growth_of(self._env, elastic, loads, overloaded, self._silent(elastic), unasked=True)
        for lease in ask(self._env, elastic, growth, f"{why}, and no other secondary has room"):
            log.warning("%s: asked for: %s", lease.name, lease.why)

    def homeward(self, elastic: Elastic, loads: Mapping[str, Load], overloaded: Collection[str]) -> list[Move]:
        """The next move home from each whose time is over; one on which nothing is left is released.

        Raises as above.
        """
        now, moves = self._steady(), list[Move]()
        lent = leased_of(self._env.plan)
        for gone in self._could_go.keys() - lent.keys():
            del self._could_go[gone]
        for name in lent:
            since, seen_at = self._could_go.get(name, (now, now))
            try:
                found = None if overloaded else way_home(self._env, loads, name)
            except ExternalError:
                # Nobody knows at this moment, as after each move.
                if now - seen_at > FORGOTTEN_AFTER:
                    self._could_go.pop(name, None)
                continue
            if found is None:
                self._could_go.pop(name, None)
                continue
            self._could_go[name] = since, now
            if now - since < elastic.release_after:
                continue
            if found:
                moves.append(found[0])
            else:
                log.info("%s: nothing serves there any more: it is given back", name)
                begin_release(self._env, name)
        return moves
