"""Whether something would take over a service if whoever serves it failed now. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from vcrecovery.core.notice import Topic
from vcrecovery.core.text import day_and_time
from vcrecovery.core.verdict import Kind
from vcrecovery.report.findings import Finding, Level, findings, of_the_spare
from vcrecovery.report.view import ServiceView


class Protection(StrEnum):
    """DEGRADED: a failover would work, but not by itself, or with less than it should have."""

    PROTECTED = "protected"
    DEGRADED = "degraded"
    UNPROTECTED = "unprotected"


@dataclass(frozen=True)
class Protected:
    """`why`: what is missing; empty when nothing is."""

    level: Protection
    why: str = ""


def protection(view: ServiceView) -> Protected:
    """By what is found of the service; while its standby serves, the copy on a spare protects it."""
    if (episode := view.state.open_episode) is not None and not episode.leaves_it_alone:
        return Protected(Protection.UNPROTECTED, f"a {episode.request.verb} is not finished")
    if view.no_place:
        return Protected(Protection.UNPROTECTED, view.no_place[0])
    if not view.protected:
        protects, what = of_the_spare(view)
        if not protects:
            return Protected(Protection.UNPROTECTED, what or "nothing stands in for its standby")
        return Protected(Protection.DEGRADED, f"its standby serves; {what}")
    missing = [found for found in findings(view) if found.topic is Topic.UNPROTECTED]
    if any(found.level is Level.ATTENTION for found in missing):
        return Protected(Protection.UNPROTECTED, _first(missing))
    if view.verdict.kind is Kind.UNKNOWN:
        return Protected(Protection.UNPROTECTED, view.verdict.sentence)
    if (cools := view.cools_until) is not None:
        return Protected(Protection.DEGRADED, f"no automatic failover until {day_and_time(cools)}")
    if (suspended := view.suspension) is not None:
        return Protected(Protection.DEGRADED, f"automatic failover is suspended: {suspended.reason}")
    if missing:
        return Protected(Protection.DEGRADED, _first(missing))
    return Protected(Protection.PROTECTED)


def _first(found: list[Finding]) -> str:
    return found[0].sentence if found else ""
