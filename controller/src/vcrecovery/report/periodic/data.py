"""A report as data. Pure. The next report reads it, to say what has changed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from vcrecovery.core.ages import Ages
from vcrecovery.report.costs import as_data as costs_as_data
from vcrecovery.report.periodic.view import ReportView
from vcrecovery.report.periodic.words import moment
from vcrecovery.report.targets import Reached

FORMAT = 1
PARTS = (0.5, 0.95, 0.99)


def as_data(view: ReportView) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "made_at": view.made_at,
        "begin": view.begin,
        "made": moment(view.made_at),
        "scheduled": view.scheduled,
        "services": {
            one.name: {
                "mode": one.mode,
                "provider": one.provider or None,
                "rto_target": one.rto,
                "rpo_target": one.rpo,
                "max_staleness": one.max_staleness,
            }
            for one in view.services
        },
        "findings": [
            {"level": one.level.value, "service": one.service, "sentence": one.sentence, "hint": one.hint}
            for one in view.findings
        ],
        "operations": [_reached(one) for one in view.operations],
        "operations_left_out": view.left_out,
        "drills": [_reached(one) for one in view.drills],
        "drills_left_out": sum(view.drills_left_out.values()),
        "freshness": {
            one.service: {
                **ages_as_data(one.whole),
                "days": {day.isoformat(): ages_as_data(ages) for day, ages in one.days.items()},
            }
            for one in view.freshness
        },
        "freshness_trouble": view.freshness_trouble or None,
        "availability": {
            one.service: {"outages": one.outages, "seconds": one.seconds, "goes_on": one.goes_on}
            for one in view.availability
        },
        "costs": costs_as_data(view.costs) if view.costs is not None else None,
        "cost_trouble": view.cost_trouble or None,
    }


def ages_as_data(ages: Ages) -> dict[str, Any]:
    told = {f"p{round(part * 100)}": ages.percentile(part) for part in PARTS}
    return {**told, "most": ages.most if ages.count else None, "looks": ages.count, "unknown": ages.unknown}


def _reached(one: Reached) -> dict[str, Any]:
    data = asdict(one)
    data["kind"] = one.kind.value
    return {**data, "rto_verdict": one.rto_verdict.value, "rpo_verdict": one.rpo_verdict.value}
