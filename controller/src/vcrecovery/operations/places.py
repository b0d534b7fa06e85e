"""Where standbys are: the plan of this process says it as the journal does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from vcrecovery.core.episode import Request
from vcrecovery.core.lease import LeaseState
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.core.text import day_and_time
from vcrecovery.errors import RefusedError
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.model import Service
from vcrecovery.plan.places import comes_from, is_elsewhere, may_be_lent, places_of, put
from vcrecovery.store.drained import DrainedBook
from vcrecovery.store.leases import LeaseBook


def aimed(env: Environment, state: ServiceState, request: Request) -> Request:
    """What was asked for, with where it is to go on: of a move or a failover that is open, where that goes.

    One that asks for the secondary on which it is already asks for no move. Raises RefusedError for what cannot be had.
    """
    name = state.service
    put(env.plan, name, state.placed_on)
    service, episode = env.plan.services[name], state.open_episode
    if request.moves and state.side is Side.PRIMARY:
        return _of_one_that_waits(env, state, request)
    if episode is not None and episode.has_acted and (going := episode.request.to) is not None:
        if request.to not in (None, going) and (request.moves or episode.request.moves):
            raise RefusedError(*episode.goes_on_first)
        if request.to in (None, going):
            return replace(request, to=going)
    if request.moves and episode is not None and episode.request.back:
        raise RefusedError(*episode.goes_on_first)
    serves = state.side is Side.STANDBY
    if serves and is_elsewhere(service) and (request.back or (request.planned and request.to is None)):
        home = service.standby.spare.secondary if service.standby.spare is not None else ""
        raise RefusedError(
            f"{name} serves on its spare, {service.standby.secondary}", f"`vcrecovery move {name} --to {home}` first"
        )
    if request.to is None:
        return request
    if state.side is Side.PRIMARY and episode is not None and episode.has_acted:
        raise RefusedError(*episode.goes_on_first)
    if state.side is Side.PRIMARY:
        raise RefusedError(
            f"{name} is served by its primary: only a standby that serves fails over to another secondary",
            f"`vcrecovery failover {name}`; `vcrecovery move {name} --to {request.to}` has it wait there",
        )
    if not may_be_lent(env.plan, name, request.to):
        _refuse_no_place(service, name, request.to)
    if request.to == service.standby.secondary:
        return replace(request, to=None)
    if request.moves:
        _refuse_drained(env, request.to)
    return request


def _of_one_that_waits(env: Environment, state: ServiceState, request: Request) -> Request:
    name, to, episode = state.service, request.to or "", state.open_episode
    service = env.plan.services[name]
    if request.carries_memory:
        raise RefusedError(
            f"{name} is served by its primary: its standby has no memory to take along",
            f"`vcrecovery move {name} --to {to}` moves it",
        )
    _refuse_no_place(service, name, to)
    if episode is not None:
        begun = episode.request
        if begun.leaves is not None and begun.to == to:
            return replace(request, leaves=begun.leaves)
        raise RefusedError(*episode.goes_on_first)
    if to == service.standby.secondary:
        return replace(request, to=None)
    _refuse_drained(env, to)
    return replace(request, leaves=service.standby.secondary)


def _refuse_no_place(service: Service, name: str, to: str) -> None:
    if to not in places_of(service):
        raise RefusedError(
            f"the plan has no place for the standby of {name} on {to}",
            f"name it: services.{name}.standby.spare: {{secondary: {to}, address: ...}}",
        )


def _refuse_drained(env: Environment, to: str) -> None:
    if (why := why_nothing_goes_there(env, to)) is not None:
        raise RefusedError(*why)


def why_nothing_goes_there(env: Environment, to: str) -> tuple[str, str] | None:
    """In words, with the way out; None where standbys may be moved there."""
    # First: one that is given back is drained until it is gone.
    if is_being_given_back(env, to):
        return f"{to} is being given back", "name another secondary; `vcrecovery status` shows them"
    if (drained := DrainedBook(env.journal).all().get(to)) is not None:
        return (
            f"{to} is drained, by {drained.asked_by} since {day_and_time(drained.since)}",
            f"`vcrecovery undrain {to}` when the work there is over",
        )
    return None


def is_being_given_back(env: Environment, secondary: str) -> bool:
    """Its machine may be gone at any moment, with all that is on it."""
    lease = LeaseBook(env.journal).of(secondary)
    return lease is not None and lease.state is LeaseState.RELEASING


@contextmanager
def on_its_way(env: Environment, request: Request, name: str) -> Iterator[None]:
    """Within it, the standby is where it is to go on; after it, where the journal has it."""
    if request.to is None:
        yield
        return
    put(env.plan, name, request.to)
    comes_from(env.plan, name, env.journal.state(name).standby_on)
    try:
        yield
    finally:
        put(env.plan, name, env.journal.state(name).placed_on)
