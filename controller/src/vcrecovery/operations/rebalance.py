"""Standbys leave a secondary that is overloaded: what is known of them, the choice, and the move of each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from statistics import median

from vcrecovery.balance.amounts import Amounts
from vcrecovery.balance.choice import Choice, Container, Machine, choose
from vcrecovery.balance.load import Load, MachineReading, Reading, load_between
from vcrecovery.balance.overload import Limits, container_amounts, machine_amounts, not_told
from vcrecovery.core.episode import Episode, Outcome, Request, Step
from vcrecovery.core.move import BALANCE
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.core.text import day_and_time
from vcrecovery.drivers.lxd.flavour import INCUS
from vcrecovery.errors import ExternalError
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover import ALONE, ProgressReporter
from vcrecovery.operations.locked import fail_over_locked
from vcrecovery.plan.balance import Balance
from vcrecovery.plan.leased import leased_of
from vcrecovery.plan.modes import Mode
from vcrecovery.plan.on_demand import domain_of, is_on_demand
from vcrecovery.plan.places import may_be_lent, places_of
from vcrecovery.plan.vms import host_of
from vcrecovery.standby.modes import ChosenModes
from vcrecovery.store.drained import DrainedBook
from vcrecovery.store.lock import service_lock

#: Seconds that a move takes a service down where it has never been moved: docs/benchmarks.md.
_DOWN = 5.0
#: So many of its episodes are looked through for that.
_LOOKED_THROUGH = 50
#: Seconds after which one that was moved in vain is moved again at the latest.
_NOT_LONGER = 86400.0
#: So many of the newest episodes of all services are looked through for moves of a while ago.
_LATEST = 1000
#: How the reason of a move begins that was given up for something else, and has not failed.
CALLED_OFF = "called off: "
#: Of a pool that may be in use, where something goes.
_POOL = 0.9


def limits_of(balance: Balance) -> Limits:
    network = None if balance.network_high is None else balance.network_high / 100
    return Limits(
        balance.cpu_high / 100,
        balance.memory_high / 100,
        balance.target / 100,
        balance.high_for,
        balance.disk_latency_high,
        network,
    )


def read_load(env: Environment, secondary: str) -> Reading:
    """Raises ExternalError."""
    lxd = env.lxd[secondary]
    found = lxd.reading(env.plan.secondaries[secondary].storage_pool)
    # The disk of one that is off is here; its machine is not.
    here = lxd.is_here and not is_on_demand(env.plan.secondaries[secondary])
    return replace(found, machine=env.machine() if here else _by_its_hypervisor(env, secondary))


def _by_its_hypervisor(env: Environment, secondary: str) -> MachineReading | None:
    """None where that is unknown, or does not answer: what LXD tells is known all the same."""
    entry = env.plan.secondaries[secondary]
    if entry.vm is None:
        return None
    try:
        return env.hosts[entry.vm.hypervisor].machine(domain_of(secondary, entry))
    except ExternalError:
        return None


def loads_over(
    env: Environment, secondaries: Collection[str], wait: Callable[[], None]
) -> dict[str, Load | ExternalError]:
    """What was used while `wait` waited."""
    before = {name: _read_quietly(env, name) for name in secondaries}
    wait()
    found: dict[str, Load | ExternalError] = {}
    for name, first in before.items():
        second = first if isinstance(first, ExternalError) else _read_quietly(env, name)
        if isinstance(first, ExternalError) or isinstance(second, ExternalError):
            found[name] = second if isinstance(second, ExternalError) else ExternalError(f"{name} does not answer")
        else:
            found[name] = load_between(first, second) or ExternalError(f"the machine of {name} has just begun anew")
    return found


def _read_quietly(env: Environment, secondary: str) -> Reading | ExternalError:
    try:
        return read_load(env, secondary)
    except ExternalError as error:
        return error


@dataclass(frozen=True)
class Question:
    """What the choice of moves is made by."""

    machines: Sequence[Machine]
    containers: Sequence[Container]
    targets: Amounts
    relieve: Sequence[str]


def question(env: Environment, loads: Mapping[str, Load], relieve: Collection[str], *, unasked: bool) -> Question:
    """`loads`: of all secondaries of which it is known. Raises ExternalError.

    `unasked`: nobody has asked for it, so what was moved just now, or in vain, is left alone for a while.
    """
    env.place_standbys()
    drained = DrainedBook(env.journal).all()
    share = env.plan.balance.target / 100
    targets = Amounts(share, share, _POOL, share, share)
    limits = limits_of(env.plan.balance)
    machines = []
    for name, load in loads.items():
        size, used = machine_amounts(load, limits)
        # What moves leaves its files behind, as the spare of where it goes: no pool is relieved.
        used = used._replace(disk=0.0) if name in relieve else used
        machines.append(Machine(name, size, used, name not in drained))
    containers = _containers(env, loads, relieve, unasked=unasked)
    return _once_moved(env, Question(machines, containers, targets, [name for name in relieve if name in loads]))


def _once_moved(env: Environment, asked: Question) -> Question:
    """As it will be once the moves that go on have ended: what they relieve is relieved, and what they fill is full."""
    on_their_way = {one.service: one.request.to for one in env.journal.open_episodes() if one.request.moves}
    used, containers = {machine.name: machine.used for machine in asked.machines}, []
    for one in asked.containers:
        to = on_their_way.get(one.name)
        if to is not None and to != one.on:
            for place, change in ((one.on, Amounts.minus), (to, Amounts.plus)):
                if place in used:
                    used[place] = change(used[place], one.uses if place == to else one.uses._replace(disk=0.0))
        containers.append(one if to is None else replace(one, on=to))
    machines = [replace(machine, used=used[machine.name]) for machine in asked.machines]
    return replace(asked, machines=machines, containers=containers)


def proposed(env: Environment, loads: Mapping[str, Load], relieve: Collection[str], *, unasked: bool = False) -> Choice:
    """What to move off those. The rest as above."""
    asked = question(env, loads, relieve, unasked=unasked)
    return choose(asked.machines, asked.containers, asked.targets, asked.relieve)


def _containers(
    env: Environment, loads: Mapping[str, Load], relieve: Collection[str], *, unasked: bool
) -> list[Container]:
    """Those on the secondaries to be relieved, and elsewhere those that others are to be apart from.

    One that waits and does not run takes nothing that could be taken off.
    """
    serve = serving(env)
    groups = [frozenset(group) for group in env.plan.balance.apart]
    limits, lent, modes = limits_of(env.plan.balance), leased_of(env.plan), ChosenModes(env.plan.state_dir)
    services = env.plan.services.items()
    # Those that wait, and are not moved, keep nobody away.
    counted = serve | {name for name, service in services if service.standby.secondary in relieve}
    found = []
    for name, service in services:
        on, spare, serves = service.standby.secondary, service.standby.spare, name in serve
        apart = frozenset[str]().union(*(group for group in groups if name in group)) - {name}
        uses = container_amounts(loads[on], name, limits) if on in loads else None
        if on not in relieve and not (serves and apart):
            continue
        if uses is None and not serves:
            continue
        mode = None if serves else modes.of(name, service)
        found.append(
            Container(
                name,
                on,
                _while_it_waits(uses or Amounts(), mode),
                (
                    *((spare.secondary,) if spare is not None else ()),
                    *(there for there in lent if serves and may_be_lent(env.plan, name, there)),
                ),
                uses.disk if uses is not None else 0.0,
                _down(env, name) if serves and on in relieve else 0.0,
                apart & counted,
                _why_it_stays(env, env.journal.state(name), mode, known=uses is not None)
                or (_why_not_again(env, name) if unasked and on in relieve else ""),
                _what_is_none(mode) or (not_told(loads[on], name, limits) if on in loads else ""),
            )
        )
    return found


def serving(env: Environment) -> set[str]:
    return {name for name, who in env.journal.who_serves().items() if who.side is Side.STANDBY}


def _while_it_waits(uses: Amounts, mode: Mode | None) -> Amounts:
    """What a move takes along, whatever it does just now: one that is frozen is thawed for moments. None: it serves."""
    match mode:
        case Mode.FROZEN:
            return Amounts(memory=uses.memory, disk=uses.disk)
        case Mode.COLD:
            return Amounts(disk=uses.disk)
        case _:
            return uses


def _what_is_none(mode: Mode | None) -> str:
    return "it is frozen while it waits, and takes memory only" if mode is Mode.FROZEN else ""


def _why_it_stays(env: Environment, state: ServiceState, mode: Mode | None, *, known: bool) -> str:
    """`mode`: in which it waits; None: it serves."""
    if mode is Mode.COLD:
        return "it is off while it waits, and takes disk only"
    if state.service in env.plan.balance.pinned:
        return "pinned by the plan"
    if state.open_episode is not None:
        return f"a {state.open_episode.request.verb} of it is under way"
    if state.suspension_at(env.clock.now()) is not None:
        return "suspended"
    if mode is not None and (why := _why_it_waits_there(env, state.service)):
        return why
    return "" if known else "what it uses is not known"


def _why_it_waits_there(env: Environment, name: str) -> str:
    """What speaks against a move of one that waits, and not of one that serves."""
    service = env.plan.services[name]
    spare, host = service.standby.spare, service.primary.hypervisor
    if env.lxd[service.standby.secondary].flavour is INCUS:
        return "Incus moves none that waits"
    if spare is not None and host_of(env.plan, spare.secondary) == host:
        return f"its spare, {spare.secondary}, is a VM of {host}, as its primary is: both would fail together"
    return ""


def _why_not_again(env: Environment, name: str) -> str:
    """Of one that was moved unasked, and in vain: each time twice as long. An operator's move begins anew."""
    ended = [one for one in env.journal.history(name, _LOOKED_THROUGH) if one.closed_at is not None]
    moves = [one for one in ended if one.request.moves and not one.reason.startswith(CALLED_OFF)]
    tries = list(takewhile(_came_to_nothing, moves))
    if not tries:
        return ""
    at, wait = tries[0].closed_at or 0.0, min(env.plan.balance.again_after * 2 ** len(tries), _NOT_LONGER)
    if not 0 <= env.clock.now() - at < wait:
        # Or the clock was set back since.
        return ""
    return f"it was moved in vain ({tries[0].reason}): not again before {day_and_time(at + wait)}"


def _came_to_nothing(move: Episode) -> bool:
    return move.request.by == BALANCE and move.outcome is not Outcome.DONE


def moves_lately(env: Environment) -> dict[int, list[str]]:
    """Those that go on, or ended within `again_after`, whoever asked: between which secondaries. Raises ExternalError.

    By the number of the episode.
    """
    now, calm = env.clock.now(), env.plan.balance.again_after
    return {
        one.id: [*places_of(env.plan.services[one.service]), *([one.request.to] if one.request.to else [])]
        for one in env.journal.since(now - calm - _NOT_LONGER, _LATEST)
        if one.request.moves and one.service in env.plan.services
        if one.closed_at is None or 0 <= now - one.closed_at < calm
    }


def _down(env: Environment, name: str) -> float:
    """Seconds, by the moves of it that there were."""
    taken = [
        probe.ended_at - stop.begun_at
        for episode in env.journal.history(name, _LOOKED_THROUGH)
        if episode.request.moves and episode.outcome is Outcome.DONE
        if (stop := episode.done(Step.STOP)) is not None and (probe := episode.ports_opened) is not None
        if probe.ended_at is not None
    ]
    return max(0.0, median(taken)) if taken else _DOWN


def request_of(to: str, by: str) -> Request:
    return Request(planned=True, to=to, by=by)


def carry_out(env: Environment, service: str, to: str, why: str, by: str, reporter: ProgressReporter) -> Episode | None:
    """The closed episode; None where it is there already. Raises as `fail_over_locked` does."""
    return fail_over_locked(env, service, why, request_of(to, by), reporter=reporter, gate=ALONE)


def give_up(env: Environment, service: str, why: str) -> None:
    """Ends a move that nobody asked for and that has done nothing yet: the next choice is free. Raises BusyError.

    One that waits is taken from where it was by the stop: from then on somebody has to bring it to its end.
    """
    with service_lock(env.plan.state_dir, service, brief=True, clock=env.clock):
        episode = env.journal.state(service).open_episode
        if episode is None or not (episode.request.moves and episode.request.by == BALANCE):
            return
        if not (episode.has_acted or episode.tried(Step.STOP)):
            env.journal.close(episode, Outcome.GIVEN_UP, why, env.clock.now())
