"""Brings each standby into the state of its mode, keeps it there, and refreshes it (see `modes`).

One that serves, or is being failed over, is never touched: each act is decided once more under the container's lock,
from the journal and from the container's own role. The lock is held for that act only. A failover takes it too, but
not before it starts the standby: what it does first goes on meanwhile. What takes long in any case, the boot of its
services, is not done under it.

Nor are there ever two keepers at work on one standby, such as a verb's beside the watcher's: one would freeze the
container in which the other waits for services. Who keeps it holds a lock of its own meanwhile (see `one_keeper`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.lxd import Instance, LxdServer, TryAgainError
from vcrecovery.drivers.lxd.instances import FROZEN, RUNNING, STOPPED
from vcrecovery.drivers.runtime import THREADS, Event, Runtime, each
from vcrecovery.errors import BootingError, BusyError, ExternalError
from vcrecovery.keeping import SayOnce, keep
from vcrecovery.plan.model import Plan, Service
from vcrecovery.plan.modes import Mode
from vcrecovery.plan.places import place
from vcrecovery.standby import container_units
from vcrecovery.standby.container import (
    KEEPING_KEY,
    READY_KEY,
    ROLE_KEY,
    STANDBY,
    WAITS_ON_KEY,
    let_files_in,
    secondary_of,
)
from vcrecovery.standby.modes import (
    RAW_KEY,
    REFRESHED_KEY,
    Act,
    ChosenModes,
    level_of,
    next_act,
    note,
    refreshed,
    with_init,
)
from vcrecovery.store.lock import one_act, one_keeper
from vcrecovery.transfer.freshness import read_freshness

log = logging.getLogger("vcrecovery.watch")

EVERY = 2.0
_WORKERS = 4
_ACTS_AT_ONCE = 6
#: Seconds: for LXD to start or freeze a container; for one to end by itself; for each wait inside one that boots.
_START_SECONDS, _STOP_SECONDS, _BOOT_SECONDS = 60.0, 10.0, 60.0
_LONGEST_DELAY = 300.0
_NOT_SO = "the standby is not in its mode"
_CHANGED = "the standby was just changed by another client"


class States(Protocol):
    """What is needed of the journal."""

    def state(self, service: str) -> ServiceState: ...


@dataclass(frozen=True)
class Looked:
    """What one look at a standby came to. `there`: it is as its mode wants it, or is not to be touched."""

    there: bool
    sentence: str
    act: Act | None = None


class StandbyKeeper:
    """The standbys of one plan."""

    def __init__(
        self,
        plan: Plan,
        lxd: Mapping[str, LxdServer],
        journal: States,
        clock: Clock,
        runtime: Runtime = THREADS,
    ) -> None:
        self._plan, self._lxd, self._journal, self._clock = plan, lxd, journal, clock
        self._runtime = runtime
        self._chosen = ChosenModes(plan.state_dir)
        #: How often each was booted or tried to, without having become ready; and when, by steady(), it may be again.
        self._tries: dict[str, int] = {}
        self._not_before: dict[str, float] = {}

    def run(self, stop: Event) -> None:
        """Looks every few seconds until `stop` is set; what cannot be done now is tried again, ever more seldom."""
        names, say = list(self._plan.services), SayOnce(log)
        shares = [names[first::_WORKERS] for first in range(min(_WORKERS, len(names)))]

        def work(share: list[str]) -> None:
            keep(share, partial(self._keep, stop, say), every=EVERY, stop=stop, say=say, trouble=_NOT_SO)

        each(self._runtime, work, shares, "standbys")

    def _keep(self, stop: Event, say: SayOnce, service: str) -> None:
        if self._clock.steady() < self._not_before.get(service, 0.0):
            raise BusyError(f"the standby of {service} is left alone for a while")
        try:
            # One act leads to the next: thaw, refresh, freeze.
            for _ in range(_ACTS_AT_ONCE):
                looked = self.look(service)
                if looked.act is None or stop.is_set():
                    break
                log.info("%s: %s", service, looked.sentence)
        except (BusyError, BootingError):
            raise
        except Exception:
            self._put_off(service)
            raise
        if not looked.there and looked.act is None:
            say(f"look at {service}", f"{service}: {looked.sentence}")
        else:
            say.well(f"look at {service}")

    def look(self, service: str) -> Looked:
        """Does the next thing that one standby needs.

        Raises ExternalError, and BusyError while it is failed over or another keeper is at work on it.
        """
        if not self._place(service):
            return Looked(True, "left alone: it is where the plan has no place for it")
        entry = self._plan.services[service]
        lxd = self._lxd[entry.standby.secondary]
        found, mode = lxd.get(service), self._chosen.of(service, entry)
        if why := self._hands_off(service, lxd, found):
            return Looked(True, why)
        assert found is not None  # noqa: S101  `_hands_off` has an answer for that
        if KEEPING_KEY in found.config:
            # No failback is open, so nobody keeps anything: files would be kept out for ever.
            with one_act(self._plan.state_dir, service, self._clock):
                let_files_in(lxd, lambda: self._a_standby(service, lxd))
            return Looked(False, "the standby takes files again")
        act = self._next(entry, mode, found)
        if act is None:
            is_so = f"the standby is {found.status.lower()}"
            if found.status in ((STOPPED,) if mode is Mode.COLD else (RUNNING, FROZEN)):
                return Looked(True, f"{is_so}, as mode {mode} has it")
            return Looked(False, is_so)  # or is changing; or LXD has lost it
        if act is Act.BOOT and (why := self._not_bootable(service, entry, lxd, found)):
            return Looked(False, why)
        with one_keeper(self._plan.state_dir, service, clock=self._clock):
            if act is Act.REFRESH:
                wanted = self._if_still_wanted(act, service, entry, lxd)
                return Looked(False, _CHANGED) if wanted is None else self._refresh(service, entry, lxd, *wanted)
            with one_act(self._plan.state_dir, service, self._clock):
                wanted = self._if_still_wanted(act, service, entry, lxd)
                try:
                    if wanted is not None:
                        return Looked(False, self._do(act, service, entry, lxd, *wanted), act)
                except TryAgainError:  # by LXD itself, which writes keys of its own at times, or is at work on it
                    pass
                return Looked(False, _CHANGED)

    def _place(self, service: str) -> bool:
        """Where the journal has it by now: another process may have moved it. Whoever shares the plan sees it, too.

        False: the plan has no place there, which `status` says.
        """
        state = self._journal.state(service)
        return state.open_episode is not None or place(self._plan, service, state.placed_on)

    def _if_still_wanted(self, act: Act, service: str, entry: Service, lxd: LxdServer) -> tuple[Mode, Instance] | None:
        """The mode and the container by now; None when it was promoted or changed since, and that ends the need."""
        found = lxd.get(service)
        # Second: another keeper that has changed the container had read its mode before.
        mode = self._chosen.of(service, entry)
        if found is None or self._hands_off(service, lxd, found) or self._next(entry, mode, found) is not act:
            return None
        return mode, found

    def _next(self, entry: Service, mode: Mode, found: Instance) -> Act | None:
        return next_act(mode, found.status, refreshed(found), entry.refresh.every, self._clock.now())

    def _hands_off(self, service: str, lxd: LxdServer, found: Instance | None) -> str:
        """Why the container is nothing that this may touch; empty when it may."""
        if found is None:
            raise ExternalError(f"secondary {lxd.name} has no container {service}", "run the role `secondary`")
        state = self._journal.state(service)
        if state.side is Side.PRIMARY and (on := found.config.get(WAITS_ON_KEY)):
            return f"left alone: the standby waits on {on}, or is on its way there"
        if state.side is not Side.PRIMARY or found.config.get(ROLE_KEY) != STANDBY:
            return "left alone: the standby serves"
        if state.open_episode is not None and not state.open_episode.leaves_it_alone:
            return f"left alone: the failover of epoch {state.open_episode.epoch} is not finished"
        if found.config.get(READY_KEY) != "true":
            return "left alone: the standby was never made ready"
        return ""

    def _a_standby(self, service: str, lxd: LxdServer) -> Instance:
        found = lxd.get(service)
        if (why := self._hands_off(service, lxd, found)) or found is None:
            raise BusyError(f"the standby of {service} is {why}")
        return found

    def _not_bootable(self, service: str, entry: Service, lxd: LxdServer, found: Instance) -> str:
        fresh = read_freshness(lxd, service, secondary_of(self._plan, entry))
        if fresh.synced_through is None:
            return f"the standby is not booted yet: {fresh.detail}"
        # One that stops by itself is not booted again and again at once.
        wait = found.started_at + self._delay(service) - self._clock.now()
        if self._tries.get(service) and 0 < wait <= _LONGEST_DELAY:
            return f"the standby stopped unexpectedly; it is booted again in {wait:.0f} s"
        return ""

    def _do(self, act: Act, service: str, entry: Service, lxd: LxdServer, mode: Mode, found: Instance) -> str:
        match act:
            case Act.BOOT:
                self._tries[service] = self._tries.get(service, 0) + 1
                raw = with_init(found.config.get(RAW_KEY, ""), entry, mode)
                if raw != found.config.get(RAW_KEY):
                    lxd.configure(found, {RAW_KEY: raw})
                lxd.start(service, _START_SECONDS)
                return f"the standby was booted for mode {mode}"
            case Act.STOP:
                lxd.shut_down(service, _STOP_SECONDS)
                return f"the standby was stopped for mode {mode}"
            case Act.FREEZE:
                lxd.freeze(service, _START_SECONDS)
                return "the standby was frozen"
            case _:
                lxd.unfreeze(service, _START_SECONDS)
                return "the standby was thawed" + (" to be refreshed" if mode is Mode.FROZEN else "")

    def _refresh(self, service: str, entry: Service, lxd: LxdServer, mode: Mode, found: Instance) -> Looked:
        before, level = refreshed(found), level_of(mode)
        since, begun = before.since if before is not None else found.started_at, self._clock.now()
        done = container_units.refresh(lxd, service, since, level, entry.masked_units, entry.warm_units, _BOOT_SECONDS)
        with one_act(self._plan.state_dir, service, self._clock):
            for _ in range(5):
                now = lxd.get(service)
                if now is None or now.status != RUNNING or self._hands_off(service, lxd, now):
                    return Looked(False, _CHANGED)
                try:
                    lxd.configure(now, {REFRESHED_KEY: note(level, begun if done.at is None else done.at, found)})
                except TryAgainError:
                    continue
                break
            else:
                raise ExternalError(f"container {service} keeps being changed by another client", "run it again")
        self._tries.pop(service, None)
        self._not_before.pop(service, None)
        what = "is up" if before is None or before.level is not level else "was refreshed"
        return Looked(False, f"the standby {what}: {done.words or 'nothing had changed'}", Act.REFRESH)

    def _delay(self, service: str) -> float:
        return float(min(_LONGEST_DELAY, 5 * 2 ** min(10, self._tries.get(service, 0))))

    def _put_off(self, service: str) -> None:
        self._tries[service] = self._tries.get(service, 0) + 1
        self._not_before[service] = self._clock.steady() + self._delay(service)
