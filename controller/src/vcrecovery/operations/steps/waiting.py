"""The steps by which a standby goes on to wait for its VM on another secondary; `subject` has it there already.

Its primary sends it files up to the stop, and nothing after that counts as sent (see `transfer.receiver`). So what is
copied after the stop is everything that the primary ever vouched for.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from vcrecovery.core.episode import Episode, Step
from vcrecovery.core.evidence import Copied, Receives, Stopped, Synced, TakenBack
from vcrecovery.core.failback import kept_until
from vcrecovery.core.power import OFF, may_run_elsewhere
from vcrecovery.core.text import day_and_time, span
from vcrecovery.drivers.lxd import Instance
from vcrecovery.drivers.lxd.copies import INCOMPLETE_KEY
from vcrecovery.drivers.lxd.flavour import INCUS
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.errors import CalledOffError, ExternalError, RefusedError
from vcrecovery.keeping import spaced
from vcrecovery.operations.steps import moving
from vcrecovery.operations.steps.subject import Subject
from vcrecovery.standby import copies
from vcrecovery.standby.container import (
    EPOCH_KEY,
    HAS_ALL_OF_KEY,
    ROLE_KEY,
    SPARE,
    STANDBY,
    STAYS_OFF,
    TAKEN_BACK_KEY,
    WAITS_ON_KEY,
    register,
)
from vcrecovery.store.lock import KEEPER_PATIENCE
from vcrecovery.transfer.freshness import Freshness, progress_line, read_freshness
from vcrecovery.transfer.sessions import SESSIONS_END_WITHIN, end_sessions

#: Seconds between two looks whether something else comes first.
LOOK_EVERY = 1.0
#: Seconds between two looks at the files there, each of which has LXD start a program.
SYNC_LOOK_EVERY = 2.0
#: Seconds without a sign of the primary's sync there, after which it does not come; between two looks at its VM.
SYNC_SILENT, VM_LOOK_EVERY = 120.0, 10.0


# -- what speaks against it ----------------------------------------------------------------------------------------


def against_a_waiting_move(subject: Subject, episode: Episode) -> list[str]:
    """Beside what is known of the copy."""
    name, to, source = subject.name, episode.request.to or "", moving.where_it_was(subject)[0]
    found = []
    try:
        source.connect()
        fresh = _freshness_where_it_was(subject)
    except ExternalError as error:
        lost = f"where {source.name} is lost, `vcrecovery standby reset {name}` has it wait at home again"
        return [f"its standby cannot be read: {error.message}; {lost}"]
    if source.flavour is INCUS:
        # Nor does it end a copy that has begun.
        found.append(
            f"secondary {source.name} has Incus, which starts no container that it is copying: "
            "a failover could not come first"
        )
    now = subject.env.clock.now()
    if fresh.synced_through is None:
        found.append(f"its standby on {source.name} is not complete: {fresh.detail}")
    elif fresh.heard_at is not None and now - fresh.heard_at > _heard_within(subject):
        found.append(f"its VM has sent no heartbeat for {span(now - fresh.heard_at)}, so its sync would not follow")
    elif to not in fresh.knows:
        found.append(f"its VM does not know {to}: run site.yml, or the roles `secondary` and `primary`")
    for failback in subject.env.journal.failbacks(name, 1):
        until = kept_until(failback)
        if until is not None and until > now:
            undo = f"`vcrecovery commit {name}` gives that up"
            found.append(
                f"`vcrecovery rollback {name}` is possible on {source.name} until {day_and_time(until)}; {undo}"
            )
    return found


def _heard_within(subject: Subject) -> float:
    sync = subject.service.sync
    return subject.policy.no_heartbeat_for + (2 * sync.reconcile if sync.engine == "periodic" else 0.0)


def _freshness_where_it_was(subject: Subject) -> Freshness:
    source, spare = moving.where_it_was(subject)
    return read_freshness(source, subject.name, subject.env.plan.secondaries[spare.secondary])


def refuse_one_that_is_over(subject: Subject, episode: Episode) -> None:
    """While it let go of the service a failover may have ended it. Raises CalledOffError."""
    now = subject.env.journal.episode(episode.id)
    if now is None or now.closed_at is not None:
        why = now.reason if now is not None else "it is not in the journal any more"
        raise CalledOffError(f"the move of {subject.name} has ended: {why}", f"`vcrecovery status {subject.name}`")


# -- the steps -----------------------------------------------------------------------------------------------------


def copy(subject: Subject, episode: Episode, tell: Callable[[str], None]) -> Copied:
    """Pass after pass, until so little is left that it may take no files for the rest."""

    def look() -> None:
        refuse_one_that_is_over(subject, episode)
        moving.refuse_what_was_called_off(subject, episode)

    spaced_look = spaced(look, LOOK_EVERY, subject.env.clock.steady)
    look()
    copied = moving.passes(subject, episode.request.leaves or "", tell, spaced_look)
    look()
    return copied


def stop(subject: Subject, episode: Episode) -> Stopped:
    """From here on nothing that arrives where it was counts as sent."""
    moving.refuse_what_was_called_off(subject, episode)
    (source, _), env = moving.where_it_was(subject), subject.env
    _refuse_another_role(source.get(subject.name), source.name, (STANDBY, SPARE))
    to, limit = episode.request.to or "", subject.service.timeouts.shutdown
    ended = copies.put_aside(source, subject.name, episode.epoch, limit, waits_on=to)
    if ended is None:
        raise ExternalError(f"secondary {source.name} has no container {subject.name}")
    if source.is_here:
        end_sessions(env.plan.state_dir, subject.name, SESSIONS_END_WITHIN)
    return Stopped(f"container {subject.name} on {source.name} takes no files", ended.started_at)


def last_copy(subject: Subject, episode: Episode) -> Copied:
    """Raises ExternalError when something may have arrived meanwhile."""
    before = episode.done(Step.COPY)
    took_before = before.evidence.seconds if before is not None and isinstance(before.evidence, Copied) else 0.0
    _refuse_one_that_took_files(subject, episode)
    limit = max(moving.LAST_WITHIN, moving.LAST_TAKES * took_before)
    took = moving.last_pass(subject, episode.epoch, limit, KEEPER_PATIENCE, episode.request.leaves or "")
    _refuse_one_that_took_files(subject, episode)
    return Copied(f"the rest in {took:.1f} s", seconds=took)


def receive(subject: Subject, episode: Episode) -> Receives:
    env, name, lxd, epoch = subject.env, subject.name, subject.lxd, episode.epoch

    def read() -> Instance:
        found = copies.of_no_later_epoch(lxd, lxd.must_get(name), epoch)
        _refuse_another_role(found, lxd.name, (SPARE, STANDBY))
        if found.config.get(INCOMPLETE_KEY) or found.status != STOPPED:
            raise ExternalError(f"container {name} on {lxd.name} is no whole copy, or runs: {found.status}")
        return found

    if lxd.is_here:
        register(env.plan, name, lxd, lxd.name)
    keys = {ROLE_KEY: STANDBY, EPOCH_KEY: str(epoch), WAITS_ON_KEY: "", TAKEN_BACK_KEY: "", **STAYS_OFF}
    keys[HAS_ALL_OF_KEY] = episode.request.leaves or ""
    lxd.set_keys(read, keys)
    return Receives(f"container {name} on {lxd.name}")


def sync(subject: Subject, episode: Episode, tell: Callable[[str], None]) -> Synced:
    """Waits until the primary vouches for it there. Raises ExternalError when its sync does not come."""
    env, name, to = subject.env, subject.name, episode.request.to or ""
    over = spaced(partial(refuse_one_that_is_over, subject, episode), LOOK_EVERY, env.clock.steady)
    off = spaced(partial(_refuse_one_that_is_off, subject), VM_LOOK_EVERY, env.clock.steady)
    silent_for = SYNC_SILENT + _heard_within(subject)
    seen, since, said, trouble = Freshness(None), env.clock.steady(), "", ""
    while True:
        over()
        off()
        try:
            fresh, trouble = read_freshness(subject.lxd, name, subject.secondary), ""
        except ExternalError as error:
            fresh, trouble = seen, error.message
        if fresh.whole and fresh.receiver == to:
            return Synced(f"its primary has compared everything, and sends to {to}")
        if fresh != seen:
            seen, since = fresh, env.clock.steady()
        running = fresh.reconcile
        if running is not None and running.ended is None and (now := progress_line(running)) != said:
            said = now
            tell(said)
        if env.clock.steady() - since > silent_for:
            why = trouble or "nothing arrives there"
            raise ExternalError(
                f"the sync of {name} has not followed to {to} within {span(silent_for)}: {why}",
                "`journalctl -u vcrecovery-receiver -u vcrecovery-sync` in its VM",
            )
        env.clock.sleep(SYNC_LOOK_EVERY)


def _refuse_one_that_is_off(subject: Subject) -> None:
    reading = subject.find_primary().reading
    # One that may run elsewhere may send, too: whether it does, time tells.
    if reading.power in OFF and not may_run_elsewhere(reading.power, reading.reason):
        raise ExternalError(f"the VM of {subject.name} is {reading}, and sends nothing", "start it")


def take_back(subject: Subject, episode: Episode) -> TakenBack:
    """It takes files where it was. The other one counts no more, also where it cannot be told so now."""
    name, epoch = subject.name, episode.epoch
    # Where it was to go may have left the plan.
    other_is_gone = subject.lxd.name == episode.request.leaves
    source = subject.lxd if other_is_gone else moving.where_it_was(subject)[0]
    if episode.tried(Step.RECEIVE) and not other_is_gone:
        # Of the two, its primary takes the one that was taken back; the watcher puts the other one aside later on.
        with suppress(ExternalError):
            copies.put_aside(subject.lxd, name, epoch, waits_on=source.name)
    if source.get(name) is None:
        raise ExternalError(f"secondary {source.name} has no container {name} any more", f"`vcrecovery history {name}`")

    def read() -> Instance:
        found = copies.of_no_later_epoch(source, source.must_get(name), epoch)
        _refuse_another_role(found, source.name, (SPARE, STANDBY))
        return found

    keys = {ROLE_KEY: STANDBY, EPOCH_KEY: str(epoch), WAITS_ON_KEY: "", HAS_ALL_OF_KEY: "", TAKEN_BACK_KEY: str(epoch)}
    source.set_keys(read, keys)
    return TakenBack(f"container {name} on {source.name} takes files")


def _refuse_another_role(found: Instance | None, secondary: str, roles: tuple[str, ...]) -> None:
    if found is not None and (role := found.config.get(ROLE_KEY)) not in roles:
        raise RefusedError(
            f"container {found.name} on {secondary} is no standby that waits: its role is {role or 'not set'}",
            "another controller has failed over since: see its `vcrecovery history`",
        )


def _refuse_one_that_took_files(subject: Subject, episode: Episode) -> None:
    source, _ = moving.where_it_was(subject)
    found = source.get(subject.name)
    aside = found is not None and found.config.get(ROLE_KEY) == SPARE and found.status == STOPPED
    if found is None or not aside or found.config.get(EPOCH_KEY) != str(episode.epoch):
        raise ExternalError(f"container {subject.name} on {source.name} may have taken files after its stop")
