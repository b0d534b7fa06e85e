"""What `vcrecovery rebalance` does, once it is called."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vcrecovery.balance.choice import Choice, told
from vcrecovery.balance.load import Load
from vcrecovery.balance.new_machines import Growth
from vcrecovery.balance.overload import high_in
from vcrecovery.balance.words import in_use, load_as_data
from vcrecovery.cli.moves import Wanted, all_moved, begun_moves, move_all, tell_all
from vcrecovery.cli.options import colour, operator, read_plan
from vcrecovery.cli.output import say
from vcrecovery.core.text import day_and_time
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.operations.elastic.room import growth_of, would_make
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.rebalance import limits_of, loads_over, proposed
from vcrecovery.operations.several import Result, as_data
from vcrecovery.plan.places import places_of
from vcrecovery.store.leases import LeaseBook
from vcrecovery.store.load_book import LoadBook

#: Seconds of a measurement, where no watcher looks all the time.
_MEASURED_FOR = 5.0
#: Seconds, and episodes, for which it is looked back for what has changed.
_LOOKED_BACK, _LOOKED_THROUGH = 86400.0, 1000


@dataclass(frozen=True)
class _Found:
    """`why`: of the overloaded. `trouble`: why the load of others is not known."""

    loads: dict[str, Load]
    why: dict[str, str]
    trouble: dict[str, str]


def run(plan_path: Path, *, dry_run: bool, as_json: bool) -> None:
    env = Environment(read_plan(plan_path))
    begun = begun_moves(env)
    found = _found(env, quietly=as_json)
    choice = proposed(env, found.loads, list(found.why))
    elastic = env.plan.balance.elastic
    growth = (
        growth_of(env, elastic, found.loads, list(found.why), found.trouble)
        if elastic is not None and choice.short
        else Growth(choice)
    )
    makes = would_make(elastic, growth) if elastic is not None else []
    wanted = begun + [
        Wanted(move.container, move.to, f"secondary {move.source} is overloaded ({found.why[move.source]})")
        for move in choice.moves
    ]
    if not as_json:
        for line in [*_lines(found, begun, choice), *_of_leases(env, makes)]:
            say(line)
    results = [] if dry_run else move_all(env, wanted, operator(), as_json=as_json)
    if as_json:
        data = _data(found, begun, choice, results, dry_run=dry_run)
        say(json.dumps({**data, "would_make": makes}, indent=2))
    elif dry_run:
        say("dry run: nothing was touched")
    else:
        tell_all(results)
    if not dry_run:
        all_moved("rebalance", results)
    _refuse_what_is_left(found, choice)


def _of_leases(env: Environment, makes: Sequence[str]) -> list[str]:
    """What is being made, or would be."""
    if env.plan.balance.elastic is None:
        return []
    coming = [lease for lease in LeaseBook(env.journal).open() if lease.is_coming]
    lines = [f"{lease.name} is being made since {day_and_time(lease.asked_at)}: {lease.why}" for lease in coming]
    if makes and env.plan.balance.do != "move":
        lines += [*makes, "  with `balance: {do: move}` the watcher does that"]
    elif makes:
        lines += [*makes, "  the watcher does that"]
    return lines


def _found(env: Environment, *, quietly: bool) -> _Found:
    seen = LoadBook(env.plan.state_dir).read(env.clock.now())
    found = _Found({}, {}, {})
    changed = _changed(env)
    for name, one in seen.items():
        if one.load is not None and name in env.plan.secondaries and one.at - one.load.seconds > changed.get(name, 0.0):
            found.loads[name] = one.load
    if unknown := [name for name in env.plan.secondaries if name not in found.loads]:
        if not quietly:
            say(f"measuring the load of {', '.join(unknown)} for {_MEASURED_FOR:.0f} s")
        for name, load in loads_over(env, unknown, lambda: env.clock.sleep(_MEASURED_FOR)).items():
            if isinstance(load, ExternalError):
                found.trouble[name] = load.message
            else:
                found.loads[name] = load
    for name, load in found.loads.items():
        lasting = seen[name].why if name in seen and seen[name].since is not None else ""
        if why := high_in(load, limits_of(env.plan.balance)) or lasting:
            found.why[name] = why
    return found


def _changed(env: Environment) -> dict[str, float]:
    """When something last came to each secondary, or left it: what was seen before says nothing of now."""
    found: dict[str, float] = {}
    for one in env.journal.since(env.clock.now() - _LOOKED_BACK, _LOOKED_THROUGH):
        if one.has_acted and one.service in env.plan.services:
            for place in places_of(env.plan.services[one.service]):
                found[place] = max(found.get(place, 0.0), one.closed_at or env.clock.now())
    return found


def _refuse_what_is_left(found: _Found, choice: Choice) -> None:
    if choice.short:
        kept = "; ".join(f"{name}: {why}" for name, why in choice.kept.items())
        raise RefusedError(
            f"{'; '.join(choice.short.values())}{f' ({kept})' if kept else ''}",
            "give services there a spare with room, or the machine more",
        )
    if found.trouble:
        raise ExternalError("; ".join(f"{name}: its load is not known: {why}" for name, why in found.trouble.items()))


def _lines(found: _Found, begun: Sequence[Wanted], choice: Choice) -> list[str]:
    size = max(len(name) for name in [*found.loads, *found.trouble])
    lines = []
    for name, load in found.loads.items():
        high = colour(f"  overloaded: {found.why[name]}", "red") if name in found.why else ""
        lines.append(f"{name:<{size}}  {in_use(load)}{high}")
    lines += [f"{name:<{size}}  not known: {reason}" for name, reason in found.trouble.items()]
    lines += [f"{one.service} to {one.to}: goes on: {one.why}" for one in begun]
    lines += [told(move) for move in choice.moves]
    if choice.moves or choice.short:
        lines += [f"{name} stays: {reason}" for name, reason in choice.kept.items()]
    if not found.why and not begun:
        lines.append("nothing to do: no secondary of which the load is known is overloaded")
    return lines


def _data(
    found: _Found, begun: Sequence[Wanted], choice: Choice, results: Sequence[Result], *, dry_run: bool
) -> dict[str, object]:
    known = {n: {**load_as_data(load), "overloaded": found.why.get(n, "")} for n, load in found.loads.items()}
    return {
        "dry_run": dry_run,
        "secondaries": {**known, **{name: {"trouble": reason} for name, reason in found.trouble.items()}},
        "begun": [{"service": one.service, "to": one.to, "why": one.why} for one in begun],
        "moves": [
            {"service": m.container, "from": m.source, "to": m.to, "bytes": m.to_copy, "down": m.down, "why": m.why}
            for m in choice.moves
        ],
        "short": dict(choice.short),
        "kept": dict(choice.kept),
        "services": as_data(results),
    }
