"""The section of a service that says how soon it is to be back, and how much it may lose."""

from __future__ import annotations

from pydantic import Field

from vcrecovery.plan.fields import Duration, Section


class Targets(Section):
    """What `vcrecovery report` compares with: nothing is done sooner or later for it."""

    rto: Duration | None = Field(
        None, description="how long a failure, a planned move or a drill may take the service away", examples=["30s"]
    )
    rpo: Duration | None = Field(None, description="how old the standby's files may be when it fails", examples=["1m"])
