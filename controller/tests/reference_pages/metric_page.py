"""`docs/reference/metrics.md`: what Prometheus is told, and the alerts that come with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from view_cases import DONE, DOWN, NOW, OPEN, PLAN, standby, view

from reference_pages.markdown import code, head, table
from vcrecovery.balance.amounts import Amounts
from vcrecovery.balance.devices import DiskLoad, NetworkLoad, Traffic
from vcrecovery.balance.load import Load
from vcrecovery.core.drill import Drill, DrillOutcome, DrillsOf, DrillStep, StepDone
from vcrecovery.core.health import Latencies
from vcrecovery.core.service_state import ServiceState
from vcrecovery.report.exposition import Family
from vcrecovery.report.metrics import families, latencies, outages, secondaries
from vcrecovery.report.view import SpareView
from vcrecovery.store.load_book import Seen

ALERTS = Path(__file__).parents[3] / "templates/prometheus/alerts.yml"
_ABOUT = (
    "With `metrics: {}` in the plan, `vcrecovery watch` serves these at <http://127.0.0.1:9870/metrics>; "
    "`vcrecovery metrics` prints them. What is not known has no sample."
)
_ALERTS_HEAD = """
## Alerts

In `templates/prometheus/alerts.yml`, to copy.

"""
_LOAD = Load(
    Amounts(2.0),
    Amounts(1.0),
    {"web": Amounts(1.0)},
    pressure={"cpu": 1.0, "memory": 1.0, "io": 1.0},
    disk=DiskLoad("vda", 0.01, 0.5, 1.0),
    stolen=0.0,
    network=NetworkLoad(1.0, 1.0, 0.0, 0.5, 2.0),
    traffic={"web": Traffic(1.0, 1.0, 1.0)},
)
_ARRIVED = standby()
_STANDBY = replace(_ARRIVED, fresh=replace(_ARRIVED.fresh, sent=1) if _ARRIVED.fresh is not None else None)
_STEPS = (StepDone(DrillStep.START, 1.0, 1.0), StepDone(DrillStep.PORTS, 2.0, 2.0))
_GOOD = Drill(1, "web", 0.0, "the watcher", 9.0, DrillOutcome.PASSED, "", _STEPS)
_SPARE = SpareView("sec2", "stopped", 60.0, NOW, whole=True)
SEEN = {"sec1": Seen(0.0, _LOAD)}
#: More words than these are data, such as a version or an address.
_WORDS = {"side", "power", "verdict", "outcome", "level", "resource"}


def _labels(family: Family) -> str:
    values: dict[str, list[str]] = {}
    for sample in family.samples:
        for label, value in sample.labels.items():
            values.setdefault(label, []).append(value)
    return "; ".join(
        f"{code(label)}: {', '.join(dict.fromkeys(words))}" if label in _WORDS else code(label)
        for label, words in values.items()
    )


def _alert(rule: dict[str, Any]) -> tuple[str, ...]:
    expression = code(" ".join(rule["expr"].split()))
    return code(rule["alert"]), rule["labels"]["severity"], rule.get("for", "at once"), expression


def shown() -> list[Family]:
    """Each with a sample, which shows its labels."""
    views = [
        view(course=DOWN, standby=_STANDBY, spare=_SPARE),
        view(
            state=ServiceState("web", open_episode=OPEN),
            done=DONE,
            drills=DrillsOf(_GOOD, _GOOD),
            plan=replace(PLAN, drill_every=86400.0),
        ),
    ]
    return [
        *families(views, {}, "0.1.0", 0.1),
        *outages(["web"], {}),
        *secondaries(SEEN, (), SEEN),
        latencies({"web": Latencies()}),
    ]


def page() -> str:
    found = shown()
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    return (
        head("Metrics", "`controller/src/vcrecovery/report/metrics.py`", _ABOUT)
        + "\n"
        + table(("metric", "type", "labels", "meaning"), ((code(f.name), f.kind, _labels(f), f.meaning) for f in found))
        + _ALERTS_HEAD
        + table(("alert", "severity", "after", "expression"), map(_alert, rules))
    )
