"""The section of the plan that says who is told what happens. The ways to them hold secrets, and lie elsewhere."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from vcrecovery.plan.fields import AbsolutePath, Duration, Name, Section

#: As `core.notice.Topic` has them.
TopicName = Literal["failover", "refused", "down", "unprotected", "drill", "pool", "load", "watcher"]


class Destination(Section):
    """Somebody who is told: by mail, ntfy, Matrix, Slack, Teams, a webhook, or whatever else Apprise knows."""

    url_file: AbsolutePath = Field(
        description="holds Apprise's URLs, one per line, with their secrets; mode 0600",
        examples=["/etc/vcrecovery/notify/ops"],
    )
    about: list[TopicName] = Field(
        ["failover", "refused", "down", "unprotected", "drill", "pool", "load", "watcher"],
        min_length=1,
        description="failover: operations that begin and are done; refused: those that are refused, stuck or called "
        "off; down: a service that nobody fails over; unprotected: no fresh standby waits; drill: overdue or failed; "
        "pool: nearly full; load: a secondary that is overloaded; watcher: times without one, destinations that cannot "
        "be reached",
    )
    services: list[Name] = Field([], description="whose; empty: all")
    after: Duration = Field(
        300.0,
        description="for which a service has to be down or unprotected, a drill overdue, a pool full or a secondary "
        "overloaded, before that is told; operations are told at once",
    )
    most_per_hour: int = Field(20, ge=1, le=1000, description="more than so many messages are gathered into one")


def notify_problems(destinations: Sequence[Destination]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What one destination alone does not show."""
    seen: dict[Path, int] = {}
    for number, destination in enumerate(destinations):
        if (first := seen.setdefault(destination.url_file, number)) != number:
            # What was told is remembered by the file's name.
            yield ("notify", number, "url_file"), f"{destination.url_file} is given twice, first in notify[{first}]"
