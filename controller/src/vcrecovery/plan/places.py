"""Where a standby is: on its secondary, or on its spare. A plan is of the one moment for which it was placed."""

from __future__ import annotations

from vcrecovery.errors import RefusedError
from vcrecovery.plan.model import Plan, Service, Spare, Standby


class Elsewhere(Standby):
    """One that serves on its spare. What is its spare now is the secondary on which it stands by for its VM."""


def place(plan: Plan, name: str, secondary: str | None) -> bool:
    """Has the plan say that the standby of service `name` is on that secondary; None: where it stands by.

    False when the plan has no such place for it, and stays as it was. Whoever shares the plan sees it from then on.
    """
    service = plan.services[name]
    here, spare = service.standby, service.standby.spare
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


def put(plan: Plan, name: str, secondary: str | None) -> None:
    """The same. Raises RefusedError where it has no such place."""
    if not place(plan, name, secondary):
        raise RefusedError(
            f"the standby of {name} serves on {secondary}, which the plan does not name as its spare",
            f"put `spare: {{secondary: {secondary}, address: ...}}` back into its standby",
        )


def is_elsewhere(service: Service) -> bool:
    """Whether it serves on its spare."""
    return isinstance(service.standby, Elsewhere)


def places_of(service: Service) -> list[str]:
    """The secondaries on which its standby may be: where it is, and its spare."""
    spare = service.standby.spare
    return [service.standby.secondary, *([spare.secondary] if spare is not None else [])]
