"""What `vcrecovery drain` and `undrain` do, once they are called."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from vcrecovery.cli.moves import Wanted, all_moved, begun_moves, move_all, tell_all
from vcrecovery.cli.options import operator, read_plan
from vcrecovery.cli.output import say
from vcrecovery.cli.recovery import refuse_unknown
from vcrecovery.core.episode import Episode, Step
from vcrecovery.core.service_state import Serving, Side
from vcrecovery.errors import RefusedError
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.several import as_data
from vcrecovery.plan.places import is_elsewhere, places_of
from vcrecovery.store.drained import Drained, DrainedBook
from vcrecovery.store.leases import LeaseBook


@dataclass(frozen=True)
class _There:
    """Services whose standbys are on it: those to move and where to, those that serve and have no spare, those that
    wait and cannot go; and those that are on the way to it, and cannot be held up any more.
    """

    go: dict[str, str]
    stay: list[str]
    wait: list[str]
    come: list[str]


def drain_it(plan_path: Path, secondary: str, *, dry_run: bool, as_json: bool) -> None:
    env = Environment(read_plan(plan_path))
    refuse_unknown("secondary", secondary, list(env.plan.secondaries), plan_path)
    by = operator()
    if not dry_run:
        # First of all: a move to it that is still copied ends at that.
        DrainedBook(env.journal).write(secondary, Drained(env.clock.now(), by))
    there = _there(env, secondary)
    wanted = [Wanted(name, to, f"secondary {secondary} is drained") for name, to in there.go.items()]
    if not as_json:
        _tell(there, secondary, dry_run=dry_run)
    results = [] if dry_run else move_all(env, wanted, by, as_json=as_json)
    if as_json:
        data = {
            "dry_run": dry_run,
            "secondary": secondary,
            "moves": [{"service": one.service, "to": one.to} for one in wanted],
            "without_a_spare": there.stay,
            "waiting": there.wait,
            "coming": there.come,
            "services": as_data(results),
        }
        say(json.dumps(data, indent=2))
    else:
        tell_all(results)
    if dry_run:
        return
    all_moved(f"secondary {secondary}", results)
    # What has failed over to it meanwhile is there, too.
    env.place_standbys()
    there = _there(env, secondary)
    if there.come or there.go:
        raise RefusedError(
            f"secondary {secondary} is not empty: {', '.join([*there.come, *there.go])} came, or comes, there",
            f"once `vcrecovery status` shows it there, `vcrecovery drain {secondary}` again",
        )
    if there.stay:
        raise RefusedError(
            f"secondary {secondary} still serves {', '.join(there.stay)}, which have no spare",
            "`vcrecovery failback` returns them to their VMs",
        )


def undrain_it(plan_path: Path, secondary: str) -> None:
    env = Environment(read_plan(plan_path))
    book = DrainedBook(env.journal)
    if secondary not in book.all():
        refuse_unknown("secondary", secondary, list(env.plan.secondaries), plan_path)
        say(f"{secondary}: nothing to do: it is not drained")
        return
    leases = LeaseBook(env.journal)
    if (lease := leases.of(secondary)) is None:
        book.forget(secondary)
    elif not leases.undrain(lease):
        raise RefusedError(
            f"{secondary} is being given back, and takes no standbys any more",
            "`vcrecovery status` shows what takes them; another one is made when the load asks for it",
        )
    say(f"{secondary}: takes standbys again")
    for name, service in env.plan.services.items():
        here, spare = service.standby.secondary, service.standby.spare
        if is_elsewhere(service) and spare is not None and spare.secondary == secondary:
            does = "serves" if env.journal.state(name).side is Side.STANDBY else "waits"
            say(f"{name} {does} on {here}: `vcrecovery move {name} --to {secondary}` brings it back")


def _there(env: Environment, secondary: str) -> _There:
    begun = {one.service: one.to for one in begun_moves(env) if one.to != secondary}
    coming = [one.service for one in env.journal.open_episodes() if _comes(env, one, secondary)]
    own = {name: to for name, to in begun.items() if secondary in places_of(env.plan.services[name])}
    found, drained = _There(own, [], [], coming), DrainedBook(env.journal).all()
    serving = env.journal.who_serves()
    waiting = {name for name in env.plan.services if serving.get(name, Serving()).side is Side.PRIMARY}
    # Those that serve first.
    for name, service in sorted(env.plan.services.items(), key=lambda item: item[0] in waiting):
        if service.standby.secondary != secondary or name in (*found.go, *coming):
            continue
        spare, waits = service.standby.spare, name in waiting
        if spare is None or (waits and spare.secondary in drained):
            (found.wait if waits else found.stay).append(name)
        else:
            found.go[name] = spare.secondary
    return found


def _comes(env: Environment, episode: Episode, secondary: str) -> bool:
    """Whether nothing holds up any more what has it serve there. A drain ends a move that is still copied."""
    request, service = episode.request, env.plan.services.get(episode.service)
    if service is None or request.back:
        return False
    if request.moves:
        return request.to == secondary and episode.tried(Step.STOP)
    return secondary in (request.to, service.standby.secondary if request.to is None else None)


def _tell(there: _There, secondary: str, *, dry_run: bool) -> None:
    would = "would be moved" if dry_run else "is moved"
    for name, to in there.go.items():
        say(f"{name}: {would} to {to}")
    for name in there.stay:
        say(f"{name}: stays: it has no spare")
    if there.wait:
        say(f"unprotected while {secondary} is off: {', '.join(there.wait)}, whose standbys wait there")
    for name in there.come:
        say(f"{name}: on the way to {secondary}")
    if not there.go and not there.stay and not there.come:
        say(f"{secondary}: nothing is to be moved")
    if dry_run:
        say("dry run: nothing was touched")
