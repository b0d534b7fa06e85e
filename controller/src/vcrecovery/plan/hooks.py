"""The section of the plan that names the operator's own commands beside an operation's steps."""

from typing import Annotated

from pydantic import AfterValidator, Field

from vcrecovery.plan.fields import Duration, Section

#: Seconds. Whoever needs longer begins something that goes on by itself.
_LONGEST = 300.0


def _short(seconds: float) -> float:
    if seconds > _LONGEST:
        raise ValueError(f"is longer than {_LONGEST:.0f} s; have the command begin what takes longer, such as a unit")
    return seconds


class HookCommand(Section):
    """One command of the operator's. It gets the facts as JSON on its standard input."""

    command: list[Annotated[str, Field(min_length=1)]] = Field(
        min_length=1, description="run without a shell", examples=[["/usr/local/sbin/open-firewall", "web"]]
    )
    timeout: Annotated[Duration, AfterValidator(_short)] = Field(
        30.0, description="after which it is killed, with its children; at most 5 minutes"
    )


class GateCommand(HookCommand):
    """One that runs before the start."""

    gate: bool = Field(False, description="the standby starts only when it has ended with status 0, or by `--force`")


class Hooks(Section):
    """Commands beside the steps of an operation. Those of a service run after those of the whole plan."""

    before_start: list[GateCommand] = Field([], description="between the fence and the start of the standby")
    after_switch: list[HookCommand] = Field([], description="once the names point at who serves, and that is checked")
    on_refused: list[HookCommand] = Field([], description="when an operation is refused")
