"""The section that says when a secondary is overloaded, and what is done about it."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from vcrecovery.plan.elastic import Elastic
from vcrecovery.plan.fields import Duration, Name, Section

#: Per cent.
Share = Annotated[float, Field(gt=0, le=100)]


class Balance(Section):
    """Standbys that serve leave a secondary that is overloaded, for their spares. See `vcrecovery rebalance`."""

    do: Literal["nothing", "propose", "move"] = Field(
        "propose",
        description="what the watcher does: look at no load, say what `vcrecovery rebalance` would move, or move it",
    )
    cpu_high: Share = Field(90.0, description="per cent of its cores in use, at which a secondary has too much to do")
    memory_high: Share = Field(90.0, description="the same of its memory")
    disk_latency_high: Duration | None = Field(
        None,
        description="mean time for a read or write, at which its disks have too much to do; null: they are not judged",
        examples=["50ms"],
    )
    network_high: Share | None = Field(
        None,
        description="per cent of a network card's speed, in the direction in which there is more; null: not judged",
        examples=[90],
    )
    high_for: Duration = Field(120.0, description="for which it is so, before it counts as overloaded")
    target: Share = Field(
        70.0,
        description="per cent of its cores, memory and network, and of disk_latency_high, that moves leave in use, "
        "there and where they go",
    )
    again_after: Duration = Field(
        900.0, description="do: move: from one move to the next from or to the same secondary"
    )
    apart: list[Annotated[list[Name], Field(min_length=2)]] = Field(
        [],
        description="services that `rebalance` does not move to where another of them serves",
        examples=[[["db1", "db2"]]],
    )
    pinned: list[Name] = Field([], description="services that `rebalance` does not move")
    elastic: Elastic | None = Field(
        None, description="do: move: secondaries that are made when there is no room; null: none"
    )

    @model_validator(mode="after")
    def _has_room_between(self) -> Self:
        if self.target >= min(self.cpu_high, self.memory_high, self.network_high or 100):
            raise ValueError(
                "target has to be below cpu_high, memory_high and network_high, or moves would go back and forth"
            )
        if self.elastic is not None and self.do == "nothing":
            raise ValueError("elastic needs somebody who looks at the loads: `do: move`, or leave elastic out")
        return self
