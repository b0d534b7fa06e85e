"""The steps by which a standby that serves goes on on another secondary; `subject` has it there already.

Where it served up to then is the `spare` of its place: the two have changed places.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from vcrecovery.core.episode import Episode, Step
from vcrecovery.core.evidence import Copied, Stopped, TakenBack
from vcrecovery.core.failback import is_copied
from vcrecovery.core.move import BALANCE
from vcrecovery.core.service_state import Side
from vcrecovery.core.text import span
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.drivers.lxd.copies import CopyAgainError
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.drivers.probe import Result
from vcrecovery.errors import BusyError, CalledOffError, ExternalError
from vcrecovery.keeping import spaced
from vcrecovery.operations import records
from vcrecovery.operations.host_fence import fence_host
from vcrecovery.operations.places import is_being_given_back, why_nothing_goes_there
from vcrecovery.operations.room import no_room_for_a_copy
from vcrecovery.operations.serving import failing_over, targets
from vcrecovery.operations.steps import memory
from vcrecovery.operations.steps.subject import Subject
from vcrecovery.plan.model import Spare
from vcrecovery.standby import copies
from vcrecovery.standby.container import ACTIVE, EPOCH_KEY, ROLE_KEY, boots_with_its_machine
from vcrecovery.standby.promote import promote_again
from vcrecovery.store.lock import KEEPER_PATIENCE, one_keeper

#: Seconds for one pass. It serves meanwhile.
PASS_WITHIN = 86400.0
#: So many times it is tried in a pass, where files vanish, or it does not begin in time.
TRIES = 8
#: Seconds between two looks whether it still serves.
LOOK_EVERY = 5.0
#: Seconds for the last pass: so many, or so many times as long as the one before.
LAST_WITHIN, LAST_TAKES = 120.0, 5.0
#: Seconds for which whoever else is at work on it is waited for then.
LAST_PATIENCE = 15.0


def where_it_was(subject: Subject) -> tuple[LxdServer, Spare]:
    spare = subject.service.standby.spare
    assert spare is not None  # noqa: S101  whoever changes places has one
    return subject.env.lxd[spare.secondary], spare


def keeps_address(subject: Subject) -> bool:
    """Whether its clients reach it there at an address that it had where it was."""
    standby, (_, spare) = subject.service.standby, where_it_was(subject)
    same6 = standby.address6 is not None and standby.address6 == spare.address6
    return standby.address == spare.address or same6


# -- what speaks against it ----------------------------------------------------------------------------------------


def problem_of_the_copy(subject: Subject, episode: Episode) -> str:
    """Why the service cannot go on there; empty when it can. Raises ExternalError when LXD there does not answer."""
    name, lxd, request = subject.name, subject.lxd, episode.request
    # Whoever gives it back has written that down before looking for what is open: one of the two sees the other.
    if is_being_given_back(subject.env, lxd.name):
        return f"{lxd.name} is being given back, and may be gone at any moment"
    found = subject.read_standby()
    if request.moves:
        if found is not None:
            from vcrecovery.standby.restore_points import gone_with_a_copy  # a failover to it does without

            return gone_with_a_copy(lxd, name)
        source, spare = where_it_was(subject)
        whose_pool, pool = subject.env.plan.secondaries[spare.secondary].storage_pool, subject.secondary.storage_pool
        return no_room_for_a_copy(source, whose_pool, name, lxd, pool)
    if found is None:
        return f"secondary {lxd.name} has no copy of it yet"
    if where := serves_on(subject, episode):
        return f"it serves on {where}; `vcrecovery move {name} --to {lxd.name}` moves it, and loses nothing"
    if not copies.is_whole(found) and (filled_by := lxd.filled_by(name)) is not None:
        # It would write into what is started.
        product = lxd.flavour.product
        return (
            f"{product} on {lxd.name} still fills its copy (operation {filled_by['id']}): wait for that, or restart "
            f"{product} there (containers go on meanwhile)"
        )
    if request.force:
        return ""
    if not copies.is_whole(found):
        return f"its copy on {lxd.name} was being refreshed, and may be a mixture; `--force` starts it as it is"
    if (copied := copies.copied(found)) is None:
        return f"its container on {lxd.name} is no copy of the one that serves; `--force` starts it as it is"
    age = subject.env.clock.now() - copied.at
    if age > subject.policy.max_staleness:
        limit = span(subject.policy.max_staleness)
        return f"its copy on {lxd.name} is {span(age)} old, more than its max_staleness of {limit}; `--force` starts it"
    return ""


def against_a_move(subject: Subject, episode: Episode) -> list[str]:
    """Beside what is known of the copy."""
    source, _ = where_it_was(subject)
    found = records.problems(subject.names_after(episode))
    if not _answers_everywhere(subject):
        found.append(f"it does not answer on {source.name}; `vcrecovery failover {subject.name}` brings it up")
    if episode.request.carries_memory:
        found += memory.problems(subject, source)
    return found


def serves_on(subject: Subject, episode: Episode) -> str:
    """The secondary on which it served, if every port answers there; else empty.

    For an automatic failover one port is enough: by itself it ends nothing that answers.
    """
    found = _asked_where_it_served(subject)
    answers = any(r.reached for r in found) if episode.request.automatic else all(r.ok for r in found)
    return where_it_was(subject)[0].name if answers else ""


def _answers_everywhere(subject: Subject) -> bool:
    """Whether every port answers where it served."""
    return all(result.ok for result in _asked_where_it_served(subject))


def _asked_where_it_served(subject: Subject) -> list[Result]:
    _, spare = where_it_was(subject)
    service, probes = subject.service, subject.env.probes
    addresses = [str(address) for address in (spare.address, spare.address6) if address]
    asked = [(address, port) for address in addresses for port in service.ports]
    return probes.ask_all(asked, service.timeouts.confirm)


# -- a move --------------------------------------------------------------------------------------------------------


def copy(subject: Subject, episode: Episode, tell: Callable[[str], None]) -> Copied:
    """Pass after pass, until so little is left that it may stop."""
    source, _ = where_it_was(subject)

    def refuse_one_that_ended() -> None:
        found = source.get(subject.name)
        if found is not None and found.status == STOPPED:
            raise ExternalError(f"container {subject.name} on {source.name} has ended while it was copied")

    def look_at_it() -> None:
        refuse_one_that_ended()
        refuse_what_was_called_off(subject, episode)

    look = spaced(look_at_it, LOOK_EVERY, subject.env.clock.steady)
    copied = passes(subject, "", tell, look, with_memory=episode.request.carries_memory)
    refuse_what_was_called_off(subject, episode)
    return copied


def passes(
    subject: Subject,
    waits_on: str,
    tell: Callable[[str], None],
    look: Callable[[], None],
    *,
    with_memory: bool = False,
) -> Copied:
    """Until little is left; `look` is called meanwhile, and may raise what ends it.

    `waits_on`, `with_memory`: see `copies.copy`.
    """
    # The move's own epoch is not spent before the stop.
    epoch, took = subject.env.journal.state(subject.name).epoch, list[float]()
    while not is_copied(took):
        number = len(took) + 1
        said = partial(_say_of, tell, number)
        took.append(one_pass(subject, epoch, PASS_WITHIN, said, look, waits_on, with_memory=with_memory))
        tell(f"pass {number}: {took[-1]:.1f} s")
    return Copied(f"{len(took)} passes, the last in {took[-1]:.1f} s", seconds=took[-1])


def refuse_what_was_called_off(subject: Subject, episode: Episode) -> None:
    """A copy may take hours. Raises CalledOffError."""
    env, there = subject.env, subject.lxd.name
    if (why := why_nothing_goes_there(env, there)) is not None:
        raise CalledOffError(*why)
    if episode.request.by != BALANCE:
        return
    if others := failing_over(env):
        raise CalledOffError(f"{', '.join(others)} fails over, which comes first")
    if env.journal.state(subject.name).suspension_at(env.clock.now()) is not None:
        raise CalledOffError(f"{subject.name} is suspended")


def stop(subject: Subject, episode: Episode) -> Stopped:
    # Who drains has written that down before looking for what is stopped: one of the two sees the other.
    refuse_what_was_called_off(subject, episode)
    source, _ = where_it_was(subject)
    limit = subject.service.timeouts.shutdown
    with_memory = episode.request.carries_memory
    if with_memory:
        memory.refuse_a_copy_without(subject)
        limit = max(limit, memory.WRITTEN_WITHIN)
    ended = copies.put_aside(source, subject.name, episode.epoch, limit, with_memory=with_memory)
    if ended is None:
        raise ExternalError(f"secondary {source.name} has no container {subject.name}")
    if with_memory and not ended.stateful:
        raise ExternalError(f"container {subject.name} on {source.name} has ended without its memory")
    said = ", its memory kept" if with_memory else ""
    return Stopped(f"container {subject.name} on {source.name}{said}", ended.started_at)


def last_copy(subject: Subject, episode: Episode) -> Copied:
    """Raises ExternalError when not everything is there, such as since it has run again."""
    copied = episode.done(Step.COPY)
    before = copied.evidence.seconds if copied is not None and isinstance(copied.evidence, Copied) else 0.0
    _refuse_one_that_ran(subject, episode)
    within = max(LAST_WITHIN, LAST_TAKES * before)
    took = last_pass(subject, episode.epoch, within, LAST_PATIENCE, with_memory=episode.request.carries_memory)
    _refuse_one_that_ran(subject, episode)
    return Copied(f"the rest in {took:.1f} s", seconds=took)


def take_back(subject: Subject, episode: Episode) -> TakenBack:
    """Raises ExternalError while it is not proved that it does not run on the other side."""
    env, name = subject.env, subject.name
    source, _ = where_it_was(subject)
    if episode.tried(Step.START):
        try:
            copies.put_aside(subject.lxd, name, episode.epoch)
        except ExternalError as error:
            there = subject.lxd.name
            raise ExternalError(
                f"nobody knows whether {name} serves on {there} by now: {error.message}",
                f"once {there} is off for certain: `vcrecovery failover {name} --to {source.name} --secondary-is-down "
                f"{there} --force`",
            ) from error
    found = source.get(name)
    if found is None:
        raise ExternalError(f"secondary {source.name} has no container {name} any more", f"`vcrecovery history {name}`")
    keys = {ROLE_KEY: ACTIVE, EPOCH_KEY: str(episode.epoch), **boots_with_its_machine(env.plan, name)}

    instance = source.reconfigure(
        lambda: copies.of_no_later_epoch(source, source.get(name) or found, episode.epoch), lambda _now: keys
    )
    how = memory.goes_on(subject, source, instance) if episode.request.carries_memory else ""
    how = how or promote_again(source, instance, subject.service.timeouts.start)
    return TakenBack(f"container {name} on {source.name}: {how}")


def _say_of(tell: Callable[[str], None], number: int, text: str) -> None:
    tell(f"pass {number}: {text}")


def last_pass(
    subject: Subject, epoch: int, timeout: float, patience: float, waits_on: str = "", *, with_memory: bool = False
) -> float:
    """The same of the rest, after the stop. Raises ExternalError also where another is at work on it: it goes back."""
    try:
        return one_pass(subject, epoch, timeout, waits_on=waits_on, with_memory=with_memory, patience=patience)
    except BusyError as error:
        raise ExternalError(error.message, error.hint) from error


def one_pass(
    subject: Subject,
    epoch: int,
    timeout: float,
    tell: Callable[[str], None] = lambda _text: None,
    look: Callable[[], None] = lambda: None,
    waits_on: str = "",
    *,
    with_memory: bool = False,
    patience: float = KEEPER_PATIENCE,
) -> float:
    """Seconds that it took."""
    source, _ = where_it_was(subject)
    clock = subject.env.clock
    begun = clock.steady()
    with one_keeper(subject.env.plan.state_dir, subject.name, patience, clock):
        for left in reversed(range(TRIES)):
            try:
                copies.copy(
                    subject.env.plan,
                    subject.name,
                    source,
                    subject.lxd,
                    epoch,
                    clock,
                    timeout=timeout,
                    waits_on=waits_on,
                    with_memory=with_memory,
                    tell=tell,
                    look=look,
                )
                break
            except CopyAgainError:
                # Of one that serves, or takes files, some come and go; a busy server is slow to begin.
                if not left:
                    raise
    return clock.steady() - begun


def _refuse_one_that_ran(subject: Subject, episode: Episode) -> None:
    source, _ = where_it_was(subject)
    stopped, found = episode.done(Step.STOP), source.get(subject.name)
    proof = stopped.evidence if stopped is not None else None
    started_at = proof.started_at if isinstance(proof, Stopped) else None
    if found is None or found.status != STOPPED or found.started_at != started_at:
        raise ExternalError(f"container {subject.name} on {source.name} has run after its stop: it may have written")


# -- a failover to the spare ---------------------------------------------------------------------------------------


def end_it_where_it_served(subject: Subject, episode: Episode) -> str:
    """How it is proved that it does not serve there. Raises ExternalError when it is not."""
    source, spare = where_it_was(subject)
    request, name = episode.request, subject.name
    try:
        copies.put_aside(source, name, episode.epoch, subject.service.timeouts.fence)
    except ExternalError as error:
        if request.secondary_is_down:
            _refuse_what_runs(source, name)
            return f"{spare.secondary} is down on the word of {request.by}"
        return _powered_off(subject, episode, spare.secondary, error.message)
    return f"container {name} on {source.name} is stopped"


def _refuse_what_runs(lxd: LxdServer, name: str) -> None:
    """Nobody's word stands against LXD's."""
    try:
        found = lxd.get(name)
    except ExternalError:
        return
    if found is not None and found.status != STOPPED:
        raise ExternalError(
            f"you say that {lxd.name} is down, but {lxd.flavour.product} there says that container {name} is "
            f"{found.status}",
            f"`{lxd.client} stop --force {name}` there, then run it again",
        )


def _powered_off(subject: Subject, episode: Episode, secondary: str, why: str) -> str:
    command = subject.env.plan.secondaries[secondary].fence
    if command is not None:
        spared = partial(_refuse_what_answers, subject, episode, secondary)
        still = partial(_still_answering, subject)
        try:
            return fence_host(subject.env, secondary, command, episode.opened_at, spared, still, "secondaries")
        except ExternalError as error:
            why = f"{why}; {error.message.removeprefix('hypervisor ')}"
    name, to = subject.name, episode.request.to
    raise ExternalError(
        f"nobody knows whether {name} still serves on {secondary}: {why}",
        f"once {secondary} is off for certain: `vcrecovery failover {name} --to {to} --secondary-is-down {secondary}`",
    )


def _refuse_what_answers(subject: Subject, episode: Episode, secondary: str) -> None:
    """Powering it off would end the other standbys that serve there."""
    if episode.request.force:
        return
    env = subject.env
    serving = {name for name, found in env.journal.who_serves().items() if found.side is Side.STANDBY}
    others = [
        name
        for name, service in env.plan.services.items()
        if name in serving - {subject.name} and service.standby.secondary == secondary
    ]
    answering = [name for name in others if _answers_at_its_standby(subject, name)]
    if answering:
        raise ExternalError(f"powering {secondary} off would end what still answers there: {', '.join(answering)}")


def _answers_at_its_standby(subject: Subject, name: str) -> bool:
    service = subject.env.plan.services[name]
    found = subject.env.probes.ask_all(targets(service, Side.STANDBY), service.timeouts.confirm)
    return any(result.reached for result in found)


def _still_answering(subject: Subject) -> list[str]:
    return [subject.name] if any(result.reached for result in _asked_where_it_served(subject)) else []
