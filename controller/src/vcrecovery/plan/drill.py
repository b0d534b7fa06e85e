"""The section of a service that says how its failover is rehearsed."""

from typing import Annotated

from pydantic import Field

from vcrecovery.plan.fields import Duration, Section


class Drill(Section):
    """A drill boots a clone of the standby in a network of its own, and removes it. See `vcrecovery drill`."""

    command: list[Annotated[str, Field(min_length=1)]] = Field(
        [],
        description="your own check, run without a shell in the clone once its ports answer: the drill has failed "
        "unless its exit status is 0",
        examples=[["mariadb", "-e", "SELECT count(*) FROM shop.orders"]],
    )
    timeout: Duration = Field(60.0, description="for that command")
    every: Duration | None = Field(
        None, description="how often the watcher rehearses, and `status` wants a good drill; null: only by hand"
    )
