"""Figures for Prometheus: the format to the letter, the names by Prometheus' conventions, the alerts that use them."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import yaml
from view_cases import DONE, DOWN, NOW, OPEN, PLAN, SLOW, standby, view

from vcrecovery.balance.amounts import Amounts
from vcrecovery.balance.devices import DiskLoad, NetworkLoad, Traffic
from vcrecovery.balance.load import Load
from vcrecovery.core.domain import DomainReading
from vcrecovery.core.drill import Drill, DrillOutcome, DrillsOf
from vcrecovery.core.episode import Outcome
from vcrecovery.core.health import Course, Latencies
from vcrecovery.core.power import Power
from vcrecovery.core.returning import Quarantine
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.report.exposition import Family, Sample, number, render
from vcrecovery.report.metrics import families, latencies, outages, secondaries
from vcrecovery.store.load_book import Seen
from vcrecovery.store.outages import Total

ALERTS = Path(__file__).resolve().parents[3] / "templates/prometheus/alerts.yml"
_LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
_SAMPLE = re.compile(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{{((?:{_LABEL})(?:,{_LABEL})*)\}})? (\S+)")
_UNITS = ("_seconds", "_total", "_info", "_bytes")


def check_exposition(text: str) -> dict[str, dict[str, float]]:
    """family -> labels -> value. Strict: each line must be what the format's description allows."""
    assert text.endswith("\n")
    found: dict[str, dict[str, float]] = {}
    kinds: dict[str, str] = {}
    helped: set[str] = set()
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, _, meaning = line.removeprefix("# HELP ").partition(" ")
            assert meaning, line
            assert name not in helped, f"{name} has two HELP lines"
            helped.add(name)
        elif line.startswith("# TYPE "):
            name, kind = line.removeprefix("# TYPE ").split(" ")
            assert kind in ("counter", "gauge", "histogram"), line
            assert name in helped, line
            assert name not in kinds, f"{name} comes twice"
            kinds[name] = kind
            current = name
        else:
            matched = _SAMPLE.fullmatch(line)
            assert matched, line
            suffixes = ("_bucket", "_sum", "_count") if kinds[current] == "histogram" else ("",)
            assert matched[1] in [current + suffix for suffix in suffixes], f"{line} does not stand with its family"
            labels = found.setdefault(matched[1], {})
            assert (matched[2] or "") not in labels, f"{line} comes twice"
            labels[matched[2] or ""] = float(matched[3])
    of_histograms = {name for name, kind in kinds.items() if kind == "histogram"}
    found_families = {name.rpartition("_")[0] if name.rpartition("_")[0] in of_histograms else name for name in found}
    assert found_families == set(kinds)
    for name, kind in kinds.items():
        assert name.startswith("vcrecovery_"), name
        assert name.endswith("_total") == (kind == "counter"), name
        if re.search(r"_(age|duration|timestamp|max_staleness)(_|$)", name):
            assert name.endswith("_seconds"), name
    return found


def test_how_long_answers_take() -> None:
    """A histogram counts cumulatively, up to +Inf, which is the count."""
    measured = Latencies()
    for seconds in (0.0009, 0.003, 0.003, 7.0):
        measured.add(seconds)
    found = check_exposition(render([latencies({"web": measured})]))
    buckets = found["vcrecovery_probe_duration_seconds_bucket"]
    assert [buckets[f'service="web",le="{bound}"'] for bound in ("0.001", "0.0025", "0.005", "5", "+Inf")] == [
        1,
        1,
        3,
        3,
        4,
    ]
    assert list(buckets.values()) == sorted(buckets.values())
    assert found["vcrecovery_probe_duration_seconds_count"] == {'service="web"': 4}
    assert math.isclose(found["vcrecovery_probe_duration_seconds_sum"]['service="web"'], 7.0069)


def test_outages() -> None:
    found = check_exposition(render(outages(["web", "mail"], {"web": Total(2, 65.5)})))
    assert found["vcrecovery_outages_total"] == {'service="web"': 2, 'service="mail"': 0}
    assert found["vcrecovery_outage_seconds_total"] == {'service="web"': 65.5, 'service="mail"': 0}


LOAD = Load(
    Amounts(2.0, 4e9, 9e9),
    Amounts(1.5, 3e9, 1e9),
    {"web": Amounts(0.5, 1e9)},
    whole=True,
    stolen=0.2,
    pressure={"cpu": 30.0},
    disk=DiskLoad("vda", 0.06, 0.9, 5e6),
    network=NetworkLoad(7e6, 2e6, 0.5),
    traffic={"web": Traffic(4e6), "db": Traffic(None, 3.0, 8.0)},
)
SEEN = {"sec1": Seen(NOW, LOAD, NOW - 60, "95 % of its cores"), "sec2": Seen(NOW, trouble="no answer")}


def test_how_loaded_secondaries_are() -> None:
    found = check_exposition(render(secondaries(SEEN, {"sec2"}, ["sec1", "sec2"])))
    assert found["vcrecovery_secondary_cores_used"] == {'secondary="sec1"': 1.5}
    assert found["vcrecovery_secondary_memory_used_bytes"] == {'secondary="sec1"': 3e9}
    assert found["vcrecovery_secondary_pressure_ratio"] == {'secondary="sec1",resource="cpu"': 0.3}
    assert found["vcrecovery_container_cores_used"] == {'secondary="sec1",container="web"': 0.5}
    assert found["vcrecovery_secondary_disk_latency_seconds"] == {'secondary="sec1"': 0.06}
    assert found["vcrecovery_secondary_disk_busy_ratio"] == {'secondary="sec1"': 0.9}
    assert found["vcrecovery_secondary_network_receive_bytes_per_second"] == {'secondary="sec1"': 7e6}
    assert found["vcrecovery_secondary_network_dropped_packets_per_second"] == {'secondary="sec1"': 0.5}
    assert found["vcrecovery_container_disk_bytes_per_second"] == {'secondary="sec1",container="web"': 4e6}
    assert found["vcrecovery_container_network_bytes_per_second"] == {'secondary="sec1",container="db"': 8.0}
    # What is not known has no sample.
    assert "vcrecovery_secondary_network_used_ratio" not in found
    assert found["vcrecovery_secondary_overloaded"] == {'secondary="sec1"': 1.0}
    assert found["vcrecovery_secondary_drained"] == {'secondary="sec1"': 0.0, 'secondary="sec2"': 1.0}


def test_whether_it_answers() -> None:
    found = page(view(), view("mail", course=DOWN), view("db", course=Course()), view("app", course=SLOW))
    assert found["vcrecovery_service_up"] == {'service="web"': 1, 'service="mail"': 0, 'service="app"': 1}
    assert found["vcrecovery_service_slow"] == {'service="web"': 0, 'service="mail"': 0, 'service="app"': 1}
    assert found["vcrecovery_service_down_since_timestamp_seconds"] == {'service="mail"': NOW - 300}
    assert found["vcrecovery_service_verdict"]['service="mail",verdict="service down"'] == 1


def page(*views: object) -> dict[str, dict[str, float]]:
    outcomes = {("web", Outcome.DONE): 2}
    return check_exposition(render(families(list(views), outcomes, "0.1.0", 0.25)))  # type: ignore[arg-type]


def test_a_service_that_is_well() -> None:
    found = page(view(), view("mail"))
    assert found["vcrecovery_standby_freshness_age_seconds"]['service="web"'] == 5
    assert found["vcrecovery_service_side"]['service="web",side="primary"'] == 1
    assert found["vcrecovery_primary_power"]['service="mail",power="running"'] == 1
    assert sum(found["vcrecovery_primary_power"].values()) == 2
    assert found["vcrecovery_episodes_total"]['service="web",outcome="done"'] == 2
    assert found["vcrecovery_episodes_total"]['service="mail",outcome="done"'] == 0
    assert found["vcrecovery_service_findings"]['service="web",level="attention"'] == 0
    # What is not known, or is not there, has no value.
    assert "vcrecovery_last_failover_duration_seconds" not in found
    assert "vcrecovery_episode_opened_timestamp_seconds" not in found


def test_a_service_whose_failover_is_not_finished() -> None:
    state = ServiceState("web", epoch=3, side=Side.STANDBY, open_episode=OPEN)
    found = page(view(state=state, standby=standby(None), done=DONE))
    assert found["vcrecovery_episode_open"] == {'service="web"': 1}
    assert found["vcrecovery_episode_opened_timestamp_seconds"] == {'service="web"': NOW}
    assert math.isclose(found["vcrecovery_last_failover_duration_seconds"]['service="web"'], 4.701, abs_tol=1e-4)
    assert "vcrecovery_standby_freshness_age_seconds" not in found


def test_an_old_primary_that_is_held() -> None:
    state = ServiceState("web", epoch=3, side=Side.STANDBY)
    quarantine = Quarantine(1, "web", 3, "", NOW - 60, NOW - 60)
    found = page(view(state=state, reading=DomainReading(Power.PAUSED), quarantine=quarantine), view("mail"))
    assert found["vcrecovery_primary_held"] == {'service="web"': 1, 'service="mail"': 0}


def test_labels_are_escaped() -> None:
    evil = 'a"b\\c\nd'
    text = render([Family("vcrecovery_x_info", "gauge", "one\ntwo \\", [Sample({"name": evil}, 1)])])
    assert text.splitlines() == [
        "# HELP vcrecovery_x_info one\\ntwo \\\\",
        "# TYPE vcrecovery_x_info gauge",
        'vcrecovery_x_info{name="a\\"b\\\\c\\nd"} 1',
    ]
    check_exposition(text)


def test_numbers() -> None:
    assert [number(value) for value in (1.0, 0.25, 1795317124.5, 1e300, math.inf, -math.inf, math.nan)] == [
        "1",
        "0.25",
        "1795317124.5",
        "1e+300",
        "+Inf",
        "-Inf",
        "NaN",
    ]


def test_the_alerts_use_figures_that_there_are() -> None:
    state = ServiceState("web", epoch=3, side=Side.STANDBY, open_episode=OPEN)
    failed = Drill(1, "mail", NOW - 9, "root", NOW, DrillOutcome.FAILED, "no table")
    rehearsed = view("mail", drills=DrillsOf(None, failed), plan=replace(PLAN, drill_every=86400.0))
    pages = page(view(state=state, done=DONE), rehearsed)
    assert pages["vcrecovery_drill_failed"] == {'service="mail"': 1.0}
    assert pages["vcrecovery_drill_overdue"] == {'service="mail"': 1.0}
    known = set(pages) | set(check_exposition(render(secondaries(SEEN, {}, SEEN))))
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert len(rules) >= 5
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        used = set(re.findall(r"vcrecovery_\w+", rule["expr"]))
        assert used <= known, f"{rule['alert']}: {used - known}"
        assert used or "up{" in rule["expr"]
        assert rule["expr"].count("(") == rule["expr"].count(")")
        assert rule["annotations"]["summary"]
        assert rule["labels"]["severity"] in ("critical", "warning")
        # The words that alerts choose by are words that the page has.
        for name, label in re.findall(r'(vcrecovery_\w+)\{(\w+="[^"]*")\}', rule["expr"]):
            assert any(label in labels for labels in page(view())[name]), rule["alert"]
