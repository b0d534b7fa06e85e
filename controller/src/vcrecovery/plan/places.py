"""Where a standby is: on its secondary, on its spare, or on one that was made for a while.

A plan is of the one moment for which it was placed.
"""

from __future__ import annotations

from vcrecovery.errors import RefusedError
from vcrecovery.plan.leased import LeasedSecondary, is_made_for_a_while
from vcrecovery.plan.model import Plan, Service, Spare, Standby


class Elsewhere(Standby):
    """One that serves on its spare, or waits there. What is its spare now is the secondary on which it is at home."""


class OnLeased(Elsewhere):
    """One that serves on a secondary that was made for a while. `origin`: as it is at home, with its spare."""

    origin: Standby


class FromLeased(Standby):
    """One that goes home from there: where it served is its spare until it has done so."""

    origin: Standby


#: Seconds between two copies home, of a service that has no spare.
_EVERY = 600.0


def place(plan: Plan, name: str, secondary: str | None) -> bool:
    """Has the plan say that the standby of service `name` is on that secondary; None: where it stands by.

    False when the plan has no such place for it, and stays as it was. Whoever shares the plan sees it from then on.
    """
    service = plan.services[name]
    here = service.standby
    if isinstance(here, OnLeased | FromLeased):
        if isinstance(here, OnLeased) and secondary == here.secondary:
            return True
        service = service.model_copy(update={"standby": here.origin})
        plan.services[name], here = service, here.origin
    if secondary is not None and isinstance(leased := plan.secondaries.get(secondary), LeasedSecondary):
        return _lend(plan, name, secondary, leased)
    spare = here.spare
    home = spare.secondary if isinstance(here, Elsewhere) and spare is not None else here.secondary
    wanted = secondary or home
    if wanted == here.secondary:
        return True
    if spare is None or wanted != spare.secondary:
        return False
    kind = Standby if wanted == home else Elsewhere
    moved = kind.model_construct(
        secondary=spare.secondary,
        address=spare.address,
        address6=spare.address6,
        host_keys=here.host_keys,
        spare=Spare.model_construct(
            secondary=here.secondary,
            address=here.address,
            address6=here.address6,
            every=spare.every,
            pause=spare.pause,
        ),
    )
    plan.services[name] = service.model_copy(update={"standby": moved})
    return True


def _lend(plan: Plan, name: str, secondary: str, leased: LeasedSecondary) -> bool:
    """It goes there from home only: that is its spare then."""
    place(plan, name, None)
    service, address = plan.services[name], leased.addresses.get(name)
    if address is None:
        return False
    home = service.standby
    spare = Spare.model_construct(
        secondary=home.secondary,
        address=home.address,
        address6=home.address6,
        every=home.spare.every if home.spare is not None else _EVERY,
        pause=home.spare.pause if home.spare is not None else True,
    )
    standby = OnLeased.model_construct(
        secondary=secondary, address=address, address6=None, host_keys=home.host_keys, spare=spare, origin=home
    )
    plan.services[name] = service.model_copy(update={"standby": standby})
    return True


def comes_from(plan: Plan, name: str, secondary: str | None) -> None:
    """Has the plan say where one served that is at home now, if that was made for a while."""
    if secondary is None:
        return
    service, leased = plan.services[name], plan.secondaries.get(secondary)
    address = leased.addresses.get(name) if isinstance(leased, LeasedSecondary) else None
    home = service.standby
    if address is None or isinstance(home, Elsewhere | FromLeased):
        return
    spare = Spare.model_construct(secondary=secondary, address=address, address6=None, every=_EVERY, pause=True)
    standby = FromLeased.model_construct(
        secondary=home.secondary,
        address=home.address,
        address6=home.address6,
        host_keys=home.host_keys,
        spare=spare,
        origin=home,
    )
    plan.services[name] = service.model_copy(update={"standby": standby})


def may_be_lent(plan: Plan, name: str, secondary: str) -> bool:
    """Whether it may go on on that secondary, which was made for a while."""
    leased = plan.secondaries.get(secondary)
    return isinstance(leased, LeasedSecondary) and name in leased.addresses and not is_elsewhere(plan.services[name])


def put(plan: Plan, name: str, secondary: str | None) -> None:
    """The same. Raises RefusedError where it has no such place."""
    if not place(plan, name, secondary):
        back = (
            f"put `spare: {{secondary: {secondary}, address: ...}}` back into its standby; while its primary serves, "
            f"`vcrecovery standby reset {name}` has one wait where the plan has it"
        )
        if secondary is not None and is_made_for_a_while(secondary):
            back = f"put `balance.elastic` back, then `vcrecovery drain {secondary}` has it go home"
        raise RefusedError(f"the standby of {name} is on {secondary}, where the plan has no place for it", back)


def is_elsewhere(service: Service) -> bool:
    """Whether it is on its spare."""
    return isinstance(service.standby, Elsewhere)


def places_of(service: Service) -> list[str]:
    """The secondaries on which its standby may be: where it is, and its spare."""
    spare = service.standby.spare
    return [service.standby.secondary, *([spare.secondary] if spare is not None else [])]
