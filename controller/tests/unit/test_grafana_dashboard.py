"""The dashboard for Grafana, without Grafana: it asks for figures that there are, and says what it does not know."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from view_cases import CRASHED, DONE, NOW, OPEN, PLAN, SLOW, standby, view

from vcrecovery.balance.amounts import Amounts
from vcrecovery.balance.devices import DiskLoad, NetworkLoad, Traffic
from vcrecovery.balance.load import Load
from vcrecovery.cli.main import VERBS
from vcrecovery.core.drill import Drill, DrillOutcome, DrillsOf, DrillStep, StepDone
from vcrecovery.core.health import Course, Latencies
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.core.verdict import Kind
from vcrecovery.report.exposition import Family
from vcrecovery.report.metrics import families, latencies, outages, secondaries
from vcrecovery.report.view import SpareView
from vcrecovery.store.load_book import Seen

FILE = Path(__file__).resolve().parents[3] / "templates/grafana/vcrecovery.json"
DASHBOARD: dict[str, Any] = json.loads(FILE.read_text())
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
TABLES = [panel for panel in PANELS if panel["type"] == "table"]
OURS = {"type": "prometheus", "uid": "${datasource}"}
#: What a table has from one of the metrics whose samples are 1 for the word that holds, and the words' own list.
WORDS = {"side": Side, "verdict": Kind, "power": Power}
#: Labels of which the page has all the values, so that a choice among them can be checked.
CLOSED = {"side", "power", "verdict", "outcome", "level", "state"}


def everything() -> list[Family]:
    """A page on which no family is empty."""
    took = (StepDone(DrillStep.START, NOW - 8, 1.0), StepDone(DrillStep.PORTS, NOW - 7, 1.0))
    drill = Drill(1, "web", NOW - 9, "root", NOW, DrillOutcome.PASSED, steps=took)
    counted = standby()
    assert counted.fresh is not None
    views = [
        view(
            drills=DrillsOf(drill, drill),
            plan=replace(PLAN, drill_every=86400.0),
            standby=replace(counted, fresh=replace(counted.fresh, sent=12)),
        ),
        view("mail", reading=CRASHED, standby=standby(None, "missing")),
        view("app", course=SLOW, standby=standby(None, "unreachable")),
        view(
            "db",
            state=ServiceState("db", epoch=3, side=Side.STANDBY, open_episode=OPEN),
            done=DONE,
            spare=SpareView("sec2", "stopped", 3600.0, NOW - 60, whole=True),
        ),
    ]
    load = Load(
        Amounts(2.0, 4e9),
        Amounts(1.0, 1e9),
        {"web": Amounts(1.0)},
        stolen=0.2,
        pressure={"cpu": 30.0},
        disk=DiskLoad("vda", 0.06, 0.9, 5e6),
        network=NetworkLoad(7e6, 2e6, 0.5, 0.5, 125e6),
        traffic={"web": Traffic(4e6, 3.0, 8.0)},
    )
    seen = {"sec1": Seen(NOW, load)}
    return [
        *families(views, {}, "0.1.0", 0.1),
        *outages(["web"], {}),
        *secondaries(seen, (), seen),
        latencies({"web": Latencies()}),
    ]


def labels_of(found: list[Family]) -> dict[str, dict[str, set[str]]]:
    """The name of a series -> its labels -> their values; with what Prometheus itself says of what it scrapes."""
    known: dict[str, dict[str, set[str]]] = {"up": {"job": {"vcrecovery"}}}
    for family in found:
        for sample in family.samples:
            labels = known.setdefault(family.name + sample.suffix, {})
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
    return known


def next_to_nothing() -> list[Family]:
    """A page on which nothing is known but what the plan says, and nothing has ever happened."""
    nothing = view(course=Course(), standby=standby(None, detail="no heartbeat"))
    unread = {"sec1": Seen(NOW, trouble="no answer")}
    return [*families([nothing], {}, "0.1.0", 0.1), *outages(["web"], {}), *secondaries(unread, (), unread)]


KNOWN = labels_of(everything())
ALWAYS = labels_of(next_to_nothing())


def asked(panel: dict[str, Any]) -> list[str]:
    return [target["expr"] for target in panel["targets"]]


def expressions() -> list[str]:
    of_variables = [one["query"]["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"]
    of_marks = [
        expr
        for one in DASHBOARD["annotations"]["list"]
        if "expr" in one
        for expr in (one["expr"], one["target"]["expr"])
    ]
    return [*(expr for panel in PANELS for expr in asked(panel)), *of_variables, *of_marks]


def inside(tree: Any) -> Iterator[tuple[str, Any]]:
    """Each key with its value, anywhere."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield key, value
            yield from inside(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from inside(value)


def columns(panel: dict[str, Any]) -> dict[str, str]:
    """What a table names each of its columns, by what the query or the transformations before call it."""
    (organize,) = [one["options"] for one in panel["transformations"] if one["id"] == "organize"]
    named: dict[str, str] = organize["renameByName"]
    return named


def mappings(panel: dict[str, Any], column: str) -> list[dict[str, Any]]:
    return [
        mapping
        for override in panel["fieldConfig"]["overrides"]
        if override["matcher"] == {"id": "byName", "options": column}
        for one in override["properties"]
        if one["id"] == "mappings"
        for mapping in one["value"]
    ]


def test_the_page_that_it_is_held_against_has_everything() -> None:
    assert [family.name for family in everything() if not family.samples] == []


def test_it_can_be_imported() -> None:
    """Without an id of the Grafana that it was made in, and for every Prometheus."""
    assert DASHBOARD["id"] is None
    assert DASHBOARD["uid"] == "vcrecovery"
    assert 38 <= DASHBOARD["schemaVersion"] <= 40
    variables = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
    assert list(variables) == ["datasource", "service"]
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    assert variables["service"]["multi"]
    assert variables["service"]["includeAll"]
    assert FILE.read_text() == json.dumps(DASHBOARD, indent=2, ensure_ascii=False) + "\n"


def test_it_asks_the_chosen_prometheus_only() -> None:
    for panel in PANELS:
        assert panel["datasource"] == OURS, panel["title"]
        assert all(target["datasource"] == OURS for target in panel["targets"]), panel["title"]
    others = [value for key, value in inside(DASHBOARD) if key == "datasource" and value != OURS]
    assert others == [{"type": "grafana", "uid": "-- Grafana --"}]


@pytest.mark.parametrize("expr", expressions())
def test_expressions_use_series_and_labels_that_there_are(expr: str) -> None:
    selected = re.findall(r"\b(vcrecovery_\w+|up)\b(?:\{([^}]*)\})?", expr)
    assert selected
    having: set[str] = set()
    for name, selectors in selected:
        assert name in KNOWN, expr
        having |= set(KNOWN[name])
        for label, how, value in re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', selectors):
            assert label in KNOWN[name], expr
            if label in CLOSED:
                chosen = value.split("|") if "~" in how else [value]
                assert set(chosen) <= KNOWN[name][label], expr
    for group in re.findall(r"\b(?:by|on|without|ignoring|group_left|group_right) \(([^)]*)\)", expr):
        assert set(re.split(r", ?", group)) <= having, expr
    assert not re.findall(r"\b(?:by|on|without|ignoring|group_left|group_right)\(", expr), "the look above misses it"
    for opening, closing in ("()", "{}", "[]"):
        assert expr.count(opening) == expr.count(closing)
    assert expr.count('"') % 2 == 0


def test_services_are_those_chosen() -> None:
    """What is about a service follows the variable, but for the number of those that are watched."""
    for panel in PANELS:
        for expr in asked(panel):
            for name, selectors in re.findall(r"(vcrecovery_\w+)(?:\{([^}]*)\})?", expr):
                if "service" in KNOWN[name] and panel["title"] != "Services watched":
                    assert 'service=~"$service"' in selectors, panel["title"]


def test_two_controllers_that_are_scraped_are_one() -> None:
    """Each series is aggregated over the labels that Prometheus adds: a second scrape doubles no row and no sum."""
    for panel in PANELS:
        for expr in asked(panel):
            for before in re.split(r"\b(?:vcrecovery_\w+|up\{)", expr)[:-1]:
                assert re.search(r"\b(?:max|min|sum)(?: by \([^)]*\))? ?\((?:rate\()?$", before), panel["title"]


def test_legends_name_labels_that_there_are() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            used = set(re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")))
            named = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", target["expr"]))))
            assert used <= named, panel["title"]


def test_panels_say_what_they_show() -> None:
    assert all(panel["title"] for panel in DASHBOARD["panels"])
    assert [panel["title"] for panel in PANELS if not panel.get("description", "").endswith((".", "`."))] == []
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)


def test_commands_that_it_tells_exist() -> None:
    told = set(re.findall(r"vcrecovery ([a-z]+)", FILE.read_text()))
    assert told >= {"status", "explain"}
    assert told <= set(VERBS)


def test_panels_have_places_and_ids_of_their_own() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] >= 0 <= at["y"], panel["title"]
        assert at["w"] > 0 < at["h"], panel["title"]
        assert at["x"] + at["w"] <= 24, panel["title"]
    for one, other in combinations(DASHBOARD["panels"], 2):
        a, b = one["gridPos"], other["gridPos"]
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        above = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        assert beside or above, f"{one['title']} and {other['title']} overlap"


def test_its_questions_come_in_the_order_in_which_an_operator_asks() -> None:
    rows = [panel for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert [row["title"][:2] for row in rows[:5]] == ["1.", "2.", "3.", "4.", "5."]
    places = [panel["gridPos"]["y"] for panel in DASHBOARD["panels"]]
    assert places == sorted(places)


def test_what_is_not_known_is_never_zero() -> None:
    for panel in PANELS:
        assert panel["fieldConfig"]["defaults"]["noValue"] not in ("", "0"), panel["title"]
    for key, value in inside(DASHBOARD):
        assert value != "null as zero", key
        assert not (key in ("spanNulls", "insertNulls") and value), "a gap is to be seen"
        assert not (key == "emptyValue" and value != "null")
    for expr in expressions():
        assert "vector(" not in expr, expr
        assert "absent" not in expr, expr


def test_tables_are_made_of_what_is_asked() -> None:
    for panel in TABLES:
        taken = {name for name in columns(panel) if name.startswith("Value #")}
        asked_for = {f"Value #{target['refId']}" for target in panel["targets"]}
        assert taken <= asked_for, panel["title"]
        labels = set(re.findall(r"\w+", " ".join(" ".join(re.findall(r"by \(([^)]*)\)", e)) for e in asked(panel))))
        labels |= {"command"} | {"service\\outcome"} | KNOWN["vcrecovery_episodes_total"]["outcome"]
        assert set(columns(panel)) - taken <= labels, panel["title"]
        (kept,) = [one["options"] for one in panel["transformations"] if one["id"] == "filterFieldsByName"]
        assert set(kept["include"]["names"]) == set(columns(panel)), panel["title"]
        of_overrides = {override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]}
        assert of_overrides <= set(columns(panel).values()), panel["title"]
        assert all(one["displayName"] in columns(panel).values() for one in panel["options"]["sortBy"])
        assert all(target["instant"] and target["format"] == "table" for target in panel["targets"])


def test_states_in_tables_have_words_and_colours() -> None:
    seen = set()
    for panel in TABLES:
        for column, name in columns(panel).items():
            if column in WORDS:
                seen.add(column)
                options = mappings(panel, name)[0]["options"]
                assert set(options) == {word.value for word in WORDS[column]}, name
    assert seen == set(WORDS)
    for key, value in inside(DASHBOARD):
        if key == "mappings":
            for mapping in value:
                shown = mapping["options"].values() if mapping["type"] == "value" else [mapping["options"]["result"]]
                assert all(one["text"] and one["color"] for one in shown)


def test_columns_are_there_when_nothing_is_known() -> None:
    """Grafana leaves out the column of a series that no service has: so each asks last for one that is always there."""
    assert "vcrecovery_standby_freshness_age_seconds" not in ALWAYS
    for panel in TABLES:
        for expr in asked(panel):
            last = expr.rsplit(" or ", 1)[-1]
            assert set(re.findall(r"vcrecovery_\w+", last)) <= set(ALWAYS), f"{panel['title']}: {expr}"


def test_numbers_that_stand_for_states_have_words() -> None:
    """Those for what is not known are below zero, and never shown as they are."""
    for panel in TABLES:
        for target in panel["targets"]:
            name = columns(panel).get(f"Value #{target['refId']}", "")
            codes = set(re.findall(r"(-\d) \* ", target["expr"])) | set(re.findall(r" - (1)\b", target["expr"]))
            if codes:
                of_values, of_nothing = mappings(panel, name)
                shown = of_values["options"]
                assert {f"-{code.lstrip('-')}" for code in codes} <= set(shown), name
                assert of_nothing["options"]["match"] == "null+nan", name
                words = [one["text"] for one in [*shown.values(), of_nothing["options"]["result"]]]
                assert not any(re.search(r"\d", text) for text in words), name
    (services,) = [panel for panel in TABLES if panel["title"] == "Services and their standbys"]
    numbers = {"Answers": "-1 0 1 2", "Protection": "0 1 2 3 4 5", "Standby's age": "-1 -2", "Drills": "-1 0 1 2 3"}
    for column, wanted in numbers.items():
        assert sorted(mappings(services, column)[0]["options"]) == sorted(wanted.split()), column
    age, of_nothing = mappings(services, "Standby's age")
    assert age["options"]["-2"]["text"] == of_nothing["options"]["result"]["text"] == "not known"


def test_colours_go_with_words_or_numbers() -> None:
    """A cell that is only a colour would say nothing to whoever does not see it."""
    kinds = {
        one["value"]["type"]
        for panel in TABLES
        for override in panel["fieldConfig"]["overrides"]
        for one in override["properties"]
        if one["id"] == "custom.cellOptions"
    }
    assert kinds <= {"color-text", "color-background"}
    assert {panel["options"]["textMode"] for panel in PANELS if panel["type"] == "stat"} <= {"value", "name"}
