"""`docs/reference/metrics.md`: what Prometheus is told, and the alerts that come with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from view_cases import DONE, DOWN, OPEN, view

from reference_pages.markdown import code, head, table
from vcrecovery.balance.amounts import Amounts
from vcrecovery.balance.devices import DiskLoad, NetworkLoad, Traffic
from vcrecovery.balance.load import Load
from vcrecovery.core.health import Latencies
from vcrecovery.core.service_state import ServiceState
from vcrecovery.report.exposition import Family
from vcrecovery.report.metrics import families, latencies, outages, secondaries
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


def page() -> str:
    views = [view(course=DOWN), view(state=ServiceState("web", open_episode=OPEN), done=DONE)]
    found = [
        *families(views, {}, "0.1.0", 0.1),
        *outages(["web"], {}),
        *secondaries(SEEN, (), SEEN),
        latencies({"web": Latencies()}),
    ]
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    return (
        head("Metrics", "`controller/src/vcrecovery/report/metrics.py`", _ABOUT)
        + "\n"
        + table(("metric", "type", "labels", "meaning"), ((code(f.name), f.kind, _labels(f), f.meaning) for f in found))
        + _ALERTS_HEAD
        + table(("alert", "severity", "after", "expression"), map(_alert, rules))
    )
