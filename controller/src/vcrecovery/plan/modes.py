"""The sections of the plan that say how a standby waits: its mode, what runs meanwhile, how often it is refreshed."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from vcrecovery.plan.fields import Duration, Section


class Mode(StrEnum):
    """How a standby waits for its primary's failure, the quickest first."""

    HOT = "hot"
    FROZEN = "frozen"
    WARM = "warm"
    COLD = "cold"


MODE_DESCRIPTION = (
    "how the standby waits; hot: it runs with all its services but the `masked_units`; frozen: the same, then frozen, "
    "so that it takes memory but no CPU; warm: it is booted, but no service runs except `warm_units`; cold: it is off. "
    "One that runs does what its services do by themselves (cron, mail, queues): mask what must not run twice"
)

#: Not a target: those order themselves after what they pull in, which the first units have to come before.
FirstUnit = Annotated[str, Field(pattern=r"^[A-Za-z0-9:_.\\@-]+\.(service|socket)$")]
UnitName = Annotated[str, Field(pattern=r"^[A-Za-z0-9:_.\\@-]+\.(service|socket|timer|path|mount|target)$")]


class Refresh(Section):
    """When a standby that runs or is frozen is brought up to the files that have arrived since."""

    every: Duration = Field(
        3600.0,
        description="how often its services whose programs, settings or open files changed are restarted; one that is "
        "frozen is thawed for that",
    )
