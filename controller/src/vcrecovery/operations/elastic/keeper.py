"""Takes each machine that was asked for through its life: made, joined, released, gone.

Each step is written down before it acts, and looks first what there is: a watcher that was killed goes on here.
A provisioner may hang, lie, make two, or nothing. What it has made and has not joined is destroyed; that nothing is
left it has to say when it is asked again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from vcrecovery.core.lease import LONGEST, Lease, LeaseState
from vcrecovery.core.text import span
from vcrecovery.drivers.certificate import forget_certificate, forget_key
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.drivers.provisioner import Made
from vcrecovery.drivers.runtime import Event
from vcrecovery.errors import BusyError, ExternalError, VCRecoveryError, bug_in_words
from vcrecovery.keeping import SayOnce, take_turns
from vcrecovery.operations.elastic.order import order_of, order_to_make
from vcrecovery.operations.environment import Environment, folder_of
from vcrecovery.plan.elastic import Elastic
from vcrecovery.store.drained import Drained, DrainedBook
from vcrecovery.store.leases import LeaseBook
from vcrecovery.store.lock import one_keeper

log = logging.getLogger("vcrecovery.watch")

#: Seconds between two turns.
EVERY = 5.0
#: No service has such a name.
_LOCK = "_elastic"
#: Who drains a machine that is to be released, in the book.
BY = "balance"


class LeaseKeeper:
    """`env` is its own; its plan is not."""

    def __init__(self, env: Environment, elastic: Elastic) -> None:
        self._env, self._elastic, self._say = env, elastic, SayOnce(log)
        self._book, self._now = LeaseBook(env.journal), env.clock.now
        self._provisioner = env.provisioner(elastic)

    def turn(self) -> None:
        """One step for each that has one to do. Raises ExternalError when the journal cannot be used."""
        with suppress(BusyError), one_keeper(self._env.plan.state_dir, _LOCK, clock=self._env.clock):
            for lease in self._book.open():
                # A clock that was set back makes nobody wait for long.
                if not 0 < lease.not_before - self._now() <= LONGEST:
                    self._step(lease)
        self._env.place_standbys()

    def _step(self, lease: Lease) -> None:
        step: Callable[[Lease], None] = {
            LeaseState.ASKED: self._make,
            LeaseState.MADE: self._join,
            LeaseState.JOINED: self._look,
            LeaseState.RELEASING: self._release,
        }[lease.state]
        try:
            step(lease)
        except Exception as error:  # noqa: BLE001  one that breaks the turn holds up all others, which are paid for
            now, said = self._now(), str(error) if isinstance(error, VCRecoveryError) else bug_in_words(error)
            # A step may have come as far as the next one.
            newest = next((one for one in self._book.open() if one.number == lease.number), lease)
            self._book.change(newest, trouble=said, tries=newest.tries + 1, not_before=newest.again_at(now))
            self._say(lease.name, f"{lease.name}: {said}", logging.ERROR)
        else:
            self._say.well(lease.name)

    # -- made, and joined --------------------------------------------------------------------------------------

    def _make(self, lease: Lease) -> None:
        """Whatever comes of it but one machine, it is ended."""
        try:
            found = self._provisioner.describe(order_of(self._elastic, lease))
            if not found:
                order = order_to_make(self._env, self._elastic, lease)
                log.info("%s: being made: %s", lease.name, lease.why)
                self._provisioner.create(order)
                found = self._provisioner.describe(order_of(self._elastic, lease))
            made = _the_one(found)
        except VCRecoveryError as error:
            self._end(lease, str(error))
            return
        self._book.change(
            lease, LeaseState.MADE, made_at=self._now(), machine=made.id, address=made.address, port=made.port
        )
        log.info("%s: made: %s", lease.name, made.id)

    def _join(self, lease: Lease) -> None:
        """Until its LXD answers as the one that was asked for."""
        began = lease.made_at if lease.made_at is not None else lease.asked_at
        try:
            made = _the_one(self._provisioner.describe(order_of(self._elastic, lease)))
            if made.id != lease.machine:
                raise _LyingError(f"there is a machine {made.id} in place of {lease.machine}")
            if made.address and (made.address, made.port) != (lease.address, lease.port):
                lease = self._book.change(lease, address=made.address, port=made.port)
            if not lease.address:
                raise ExternalError("it has no address yet")
            self._see_that_it_answers(lease)
        except VCRecoveryError as error:
            if isinstance(error, _LyingError) or not 0 <= self._now() - began < self._elastic.join_within:
                self._end(lease, f"it has not joined within {span(self._elastic.join_within)}: {error.message}")
            return
        self._book.change(lease, LeaseState.JOINED, joined_at=self._now())
        forget_key(folder_of(self._env.plan, lease))
        self._env.place_standbys()
        log.info("%s: joined after %s", lease.name, span(self._now() - lease.asked_at))

    def _see_that_it_answers(self, lease: Lease) -> None:
        """Over a connection of its own: its address may change. Raises ExternalError."""
        template, lxd = self._elastic.template, self._env.lxd_of(lease)
        if lxd.pool_driver(template.storage_pool) is None:
            raise ExternalError(f"its LXD has no pool {template.storage_pool}")
        if not lxd.network_exists(template.bridge):
            raise ExternalError(f"its LXD has no network {template.bridge}")

    # -- released, and gone ------------------------------------------------------------------------------------

    def _look(self, lease: Lease) -> None:
        """One that an operator has drained is given back once nothing is there any more."""
        if lease.name not in DrainedBook(self._env.journal).all():
            return
        there = self._services_there(lease)
        with suppress(ExternalError):
            there = there or self._containers_there(lease)
        if not there:
            self._book.give_back(lease, self._now())

    def _release(self, lease: Lease) -> None:
        """Nothing is moved there any more: who moves has read that it is drained, or is seen here."""
        if lease.joined_at is not None and (there := self._what_is_there(lease)):
            self._book.change(lease, LeaseState.JOINED, releasing_at=None)
            if (drained := DrainedBook(self._env.journal)).all().get(lease.name, Drained(0, "")).asked_by == BY:
                drained.forget(lease.name)
            log.warning("%s: not released: %s", lease.name, there)
            return
        self._destroy(lease)
        now, since = self._now(), lease.releasing_at if lease.releasing_at is not None else self._now()
        if lease.made_at is None and 0 <= now - since < self._elastic.provisioner.timeout:
            # A cloud may go on with what was asked of it, and have made it after all.
            self._book.change(lease, not_before=since + self._elastic.provisioner.timeout, trouble="")
            return
        self._book.change(lease, LeaseState.GONE, gone_at=now)
        DrainedBook(self._env.journal).forget(lease.name)
        forget_certificate(folder_of(self._env.plan, lease))
        log.info("%s: gone%s", lease.name, f": {lease.failure}" if lease.failure else "")

    def _destroy(self, lease: Lease) -> None:
        """Raises ExternalError while it is not said twice that nothing is left."""
        order = order_of(self._elastic, lease)
        try:
            if left := self._provisioner.destroy(order) or self._provisioner.describe(order):
                raise ExternalError(f"there is still {', '.join(one.id for one in left)}")
        except ExternalError as error:
            named = f" ({lease.machine})" if lease.machine else ""
            raise ExternalError(
                f"it{named} is not destroyed, and may be paid for: {error.message}",
                f"it is tried again; by hand: `{self._provisioner.by_hand(order)}`",
            ) from error

    def _end(self, lease: Lease, why: str) -> None:
        """It never joined: nothing can be there."""
        self._book.change(lease, LeaseState.RELEASING, releasing_at=self._now(), failure=why)
        log.error("%s: it is destroyed: %s", lease.name, why)

    def _what_is_there(self, lease: Lease) -> str:
        """What must not be lost; empty when there is nothing. Raises ExternalError when LXD does not say it."""
        if there := self._services_there(lease):
            return there
        try:
            return self._containers_there(lease)
        except ExternalError:
            since = lease.releasing_at if lease.releasing_at is not None else self._now()
            if self._now() - since < self._elastic.join_within or self._env.journal.bound_to(lease.name):
                raise
            # It is dead, and nobody serves there, nor did one that has left the plan.
            return ""

    def _services_there(self, lease: Lease) -> str:
        services = [name for name in self._env.journal.bound_to(lease.name) if name in self._env.plan.services]
        return f"{', '.join(services)} serves there, or goes there" if services else ""

    def _containers_there(self, lease: Lease) -> str:
        """Beside what services that went home have left behind. One that has left the plan may have served there."""
        there, known = self._env.lxd[lease.name].all(), lease.addresses.keys() & self._env.plan.services.keys()
        found = [one.name for one in there if one.status != STOPPED or one.name not in known]
        return f"there are containers: {', '.join(sorted(found))}" if found else ""


class _LyingError(ExternalError):
    """It is not what it is said to be: waiting does not help."""


def _the_one(found: Sequence[Made]) -> Made:
    if len(found) != 1:
        there = f"there are {len(found)}: {', '.join(one.id for one in found)}" if found else "there is none"
        raise _LyingError(f"one machine was to be made, and {there}")
    return found[0]


def begin_release(env: Environment, name: str) -> None:
    """Nothing is moved there from now on; the keeper does the rest, if nothing is there. Raises ExternalError."""
    book = LeaseBook(env.journal)
    if (lease := book.of(name)) is not None and lease.state is LeaseState.JOINED:
        DrainedBook(env.journal).write(name, Drained(env.clock.now(), BY))
        book.give_back(lease, env.clock.now())


def keep_leases(keeper: LeaseKeeper, stop: Event) -> None:
    """Returns when `stop` is set."""
    trouble = "secondaries that are made for a while are not looked after: {}; going on"
    take_turns(keeper.turn, every=EVERY, stop=stop, log=log, about="leases", trouble=trouble)
