"""What a report says, from values alone. Golden pages stand in `golden/`; `VCRECOVERY_REWRITE=1` writes them anew."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from report_cases import BEGIN, CHANGED, HOSTILE, report
from view_cases import NOW, OPEN

from vcrecovery.core.ages import of_ages
from vcrecovery.core.text import plain
from vcrecovery.errors import ExternalError
from vcrecovery.report.periodic import charts, files
from vcrecovery.report.periodic.changes import changes
from vcrecovery.report.periodic.contents import document
from vcrecovery.report.periodic.data import as_data
from vcrecovery.report.periodic.document import Bars, Document, Lines, Points, Section, Table
from vcrecovery.report.periodic.gather import begin_after, begin_of
from vcrecovery.report.periodic.markdown import escaped, markdown
from vcrecovery.report.periodic.page import page
from vcrecovery.report.periodic.view import Availability, FreshnessOf, ReportView
from vcrecovery.report.periodic.words import day_of, days, percent, seconds
from vcrecovery.report.targets import of_episode
from vcrecovery.store.freshness_book import KEPT

GOLDEN = Path(__file__).parent / "golden"
pytestmark = pytest.mark.usefixtures("in_utc")


def made(view: ReportView | None = None) -> Document:
    return document(view or report(), CHANGED, "report-2026-10-22")


def golden(name: str, text: str) -> None:
    file = GOLDEN / name
    if os.environ.get("VCRECOVERY_REWRITE"):
        file.write_text(text)
    assert text == file.read_text()


def test_markdown() -> None:
    golden("report.md", markdown(made()))


def test_page() -> None:
    golden("report.html", page(made(), None, {}))


def test_data() -> None:
    golden("report.json", json.dumps(as_data(report()), indent=2) + "\n")


# -- text from anywhere ------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: dict[str, set[str]] = {}
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, set()).add(value or "")

    def handle_data(self, data: str) -> None:
        self.text += data


def tags_of(text: str) -> Tags:
    found = Tags()
    found.feed(text)
    return found


@pytest.mark.parametrize("draw", [None, charts.svg], ids=["tables", "charts"])
def test_nothing_of_a_reason_is_markup(draw: Any) -> None:
    found = tags_of(page(made(), draw, charts.COLOURS))
    assert not found.tags & {"script", "img", "iframe", "object", "link", "base", "form"}
    assert not any(name.startswith("on") for name in found.attributes)
    assert not any("javascript:" in value for value in found.attributes.get("href", ()))
    assert plain(HOSTILE).replace("`", "") in found.text.replace("`", "")
    assert "\x1b" not in found.text
    assert "\u202e" not in found.text


@pytest.mark.parametrize(
    "said",
    ["</style><script>", "]]>", "--><script>", "&lt;b&gt;", "<" * 50, "a|b", "x\ny", "`", "``` <b>", "\0", "\ud800"],
)
def test_odd_text_stays_text(said: str) -> None:
    document = Document("t", "a", [], [Section("x", "x", [Table("c", ["h", "i"], [[plain(said)] * 2])])], "f")
    found = tags_of(page(document, None, {}))
    assert not found.tags & {"script", "b"}
    assert plain(said).replace("`", "") in found.text.replace("`", "")
    row = markdown(document).splitlines()[-3]
    assert row.count("|") - row.count("\\|") == 3
    assert "<b" not in row.replace("\\<b", "")


def test_commands_are_the_only_markup_of_markdown() -> None:
    assert escaped("a_b `x_y <z>` *c*") == "a\\_b `x_y <z>` \\*c\\*"
    assert escaped("a ` b <c>") == "a \\` b \\<c\\>"


# -- charts ------------------------------------------------------------------------------------------------------


def chart_blocks() -> dict[str, Lines | Points | Bars]:
    blocks = [block for section in made().sections for block in section.blocks]
    return {block.name: block for block in blocks if isinstance(block, Lines | Points | Bars)}


def test_charts_are_the_same_bytes_each_time() -> None:
    for chart in chart_blocks().values():
        assert charts.svg(chart) == charts.svg(chart)


def test_charts_say_in_words_what_they_show() -> None:
    text = page(made(), charts.svg, charts.COLOURS)
    found = tags_of(text)
    assert text.count('role="img"') == 4
    assert {"title", "desc", "figcaption"} <= found.tags
    for chart in chart_blocks().values():
        assert chart.about in found.text
    assert "#0102" not in text
    # Each picture's own names are its own.
    names = [part.split('"')[0] for part in text.split(' id="')[1:]]
    assert len(names) == len(set(names))
    for target in found.attributes["href"]:
        assert target.startswith("#")
        assert target[1:] in names


def test_charts_tell_nothing_by_colour_alone() -> None:
    one = {date(2026, 11, 1) + timedelta(n): 1.0 + n for n in range(5)}
    drawn = charts.svg(Lines("x", "x", "x", {"a": one, "b": {day: 2 * v for day, v in one.items()}}))
    assert "stroke-dasharray" in drawn
    assert "<pattern" in charts.svg(Bars("x", "x", "x", {"a": (1.0, "1"), "b": (2.0, "2")}))
    points = charts.svg(Points("x", "x", "x", {"a": [("failover", 2.0), ("drill", 3.0)]}, {"a": 5.0}))
    for word in ("failover", "drill", "target"):
        assert f">{word}<" in points


def test_a_name_is_no_formula() -> None:
    assert "$x$" in charts.svg(Bars("x", "x", "x", {"$x$ <b>": (1.0, "1")}))


@pytest.mark.parametrize("chart", [Lines("x", "x", "x", {}), Points("x", "x", "x", {}, {}), Bars("x", "x", "x", {})])
def test_a_chart_of_nothing_breaks_nothing(chart: Any) -> None:
    assert "<svg" in charts.svg(chart)


# -- what there may be ---------------------------------------------------------------------------------------------


def test_a_period_without_anything() -> None:
    view = ReportView(NOW, BEGIN, [], cost_trouble="The plan has no `costs`, so nothing is reckoned.")
    text = markdown(document(view, [], ""))
    for part in ("Nothing needs attention", "No failover and no planned move", "no earlier report", "There was none"):
        assert part in text


def test_who_was_not_watched_did_not_answer_all_the_time() -> None:
    nobody = replace(report(), freshness=[FreshnessOf("web")], availability=[Availability("web")])
    text = markdown(made(nobody))
    assert "Not known: `vcrecovery watch` has left nothing of this period" in text
    assert "100 %" not in text.partition("## Availability")[2].partition("\n## ")[0]
    assert "100 %" in markdown(made()).partition("## Availability")[2]


def test_an_episode_that_never_ended() -> None:
    text = markdown(made())
    assert "(so far), MISSED 60 s" in text
    assert "not finished" in text


def test_services_without_samples_are_named() -> None:
    assert "No samples of mail, files" in markdown(made())


def test_what_cannot_be_reckoned_is_a_sentence() -> None:
    view = replace(
        report(), costs=None, cost_trouble="The cost cannot be reckoned: no price.", freshness_trouble="disk"
    )
    text = markdown(made(view))
    assert "The cost cannot be reckoned: no price." in text
    assert "Not known: disk." in text


def test_too_many_operations_are_counted() -> None:
    many = [of_episode(replace(OPEN, id=n), NOW, None, None) for n in range(500)]
    text = markdown(made(replace(report(), operations=many, left_out=999_500)))
    assert "999,500 more operations" in text
    assert "The newest 200 of 500" in text


def test_words() -> None:
    assert [seconds(value) for value in (None, 0.042, 4.71, 192.0)] == ["-", "0.04 s", "4.7 s", "3 min 12 s"]
    assert (percent(1.0), percent(0.9999999), percent(0.5)) == ("100 %", "99.999 %", "50.000 %")


# -- local time ----------------------------------------------------------------------------------------------------


@pytest.fixture
def in_berlin(in_utc: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("in_berlin")
def test_a_month_with_two_offsets() -> None:
    end = datetime(2026, 10, 31, 12).timestamp()  # noqa: DTZ001  local
    begin = begin_of("1mo", end)
    assert datetime.fromtimestamp(begin) == datetime(2026, 9, 30, 12)  # noqa: DTZ001, DTZ006
    assert end - begin == 31 * 86400 + 3600
    assert len(days(begin, end)) == 32
    found = document(ReportView(end, begin, []), [], "")
    assert "2026-09-30 12:00:00 +0200 to 2026-10-31 12:00:00 +0100" in found.about
    assert "(CEST and CET)" in found.about


@pytest.mark.usefixtures("in_berlin")
def test_the_day_of_25_hours_has_each_of_them() -> None:
    first = datetime(2026, 10, 25).timestamp()  # noqa: DTZ001  local
    of_hours = [day_of(first + 3600 * n) for n in range(25)]
    assert set(of_hours) == {date(2026, 10, 25)}
    assert day_of(first + 25 * 3600) == date(2026, 10, 26)
    twice = [f"{datetime.fromtimestamp(first + 3600 * n).astimezone():%H %z}" for n in (2, 3)]
    assert twice == ["02 +0200", "02 +0100"]


@pytest.mark.parametrize("every", ["1d", "1w", "1mo"])
@pytest.mark.usefixtures("in_berlin")
def test_a_period_begins_at_the_same_hour(every: str) -> None:
    for month in range(1, 13):
        for day in (1, 15, 28):
            now = datetime(2026, month, day, 6, 0, 12).timestamp()  # noqa: DTZ001  local
            then = datetime.fromtimestamp(begin_of(every, now))  # noqa: DTZ006
            assert (then.hour, then.minute, then.second) == (6, 0, 12)
            assert then.timestamp() < now


@pytest.mark.parametrize("made_at", [None, "yesterday", True, [], math.nan, math.inf, NOW + 5.0])
def test_an_earlier_report_without_a_time_says_nothing_of_the_period(made_at: object) -> None:
    assert begin_after({"made_at": made_at}, "1w", NOW) == begin_of("1w", NOW)


def test_a_scheduled_report_goes_back_no_further_than_freshness_is_kept() -> None:
    assert begin_after(None, "1w", NOW) == begin_of("1w", NOW)
    assert begin_after({"made_at": NOW - 300 * 86400}, "1w", NOW) == NOW - 300 * 86400
    assert begin_after({"made_at": 5}, "1w", NOW) == NOW - KEPT


# -- what has changed ----------------------------------------------------------------------------------------------


def test_nothing_changes_between_two_of_the_same() -> None:
    assert changes(as_data(report()), as_data(report())) == []


def changed(**fields: Any) -> list[str]:
    return changes(as_data(report()), as_data(replace(report(), **fields)))


def test_a_provider_that_was_renamed_is_the_same_one() -> None:
    services = [
        replace(one, provider="acme-2" if one.provider == "acme" else one.provider) for one in report().services
    ]
    assert changed(services=services) == ["Provider acme is now called acme-2; its services are the same."]


def test_a_provider_that_gives_one_service_away_is_not_renamed() -> None:
    services = [replace(one, provider="new" if one.name == "mail" else one.provider) for one in report().services]
    assert changed(services=services) == ["New providers: new."]


def test_services_modes_and_targets() -> None:
    web, db, *_ = report().services
    files = report().services[3]
    assert changed(services=[replace(web, mode="cold", rto=60.0), db, replace(db, name="shop"), files]) == [
        "New in the plan: shop.",
        "No longer in the plan: mail.",
        "web: its standby waits cold; it was hot.",
        "web: its RTO target is 60 s; it was 30 s.",
    ]


def test_attention_targets_freshness_and_cost() -> None:
    view = report()
    old = replace(view.freshness[0], whole=view.freshness[1].whole)
    first = view.costs.alternatives[0] if view.costs else None
    assert first is not None
    dearer = replace(first, lines=[replace(first.lines[0], quantity=2 * first.lines[0].quantity)])
    assert view.costs is not None
    found = changed(
        findings=[],
        operations=[],
        freshness=[old, *view.freshness[1:]],
        costs=replace(view.costs, alternatives=[dearer, *view.costs.alternatives[1:]]),
    )
    assert found[:2] == ["db needs no attention any more.", "files needs no attention any more."]
    assert found[2] == "Targets missed: 0, after 2 in the report before."
    assert found[3].startswith("web: its standby is older: 95 % of the time up to")
    assert found[4] == "This plan costs 241.00 USD a month: 120.50 more than before."


@pytest.mark.parametrize(
    "before",
    [
        {},
        {"services": 5, "findings": "x", "operations": {}, "freshness": [], "costs": 1},
        {"services": {"web": None}, "costs": {"alternatives": [{"month": "NaN"}], "currency": []}},
        {"costs": {"alternatives": [{"month": "x"}], "currency": "USD"}, "freshness": {"web": {"p95": "1"}}},
        {"findings": [None, {"service": {}}], "operations": [None, {"rto_verdict": []}]},
    ],
)
def test_an_earlier_report_that_is_none(before: dict[str, Any]) -> None:
    assert isinstance(changes(before, as_data(report())), list)


# -- files ---------------------------------------------------------------------------------------------------------


def test_the_newest_of_an_earlier_day(tmp_path: Path) -> None:
    today = date(2026, 11, 25)
    assert files.newest_before(tmp_path / "none", today) == ("", None)
    for day in (date(2026, 11, 1), date(2026, 11, 18), today):
        files.write(tmp_path, day, {"json": json.dumps({"day": str(day)}), "md": "x"})
    assert files.newest_before(tmp_path, today) == ("report-2026-11-18.json", {"day": "2026-11-18"})
    (tmp_path / "report-2026-11-24.json").write_text("[" * 100_000)
    assert files.newest_before(tmp_path, today) == ("report-2026-11-24.json", None)


def test_a_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    day = date(2026, 11, 25)
    files.write(tmp_path, day, {"md": "old"})

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ExternalError, match="No space left on device"):
        files.write(tmp_path, day, {"md": "new"})
    assert [entry.name for entry in tmp_path.iterdir()] == ["report-2026-11-25.md"]
    assert (tmp_path / "report-2026-11-25.md").read_text() == "old"
    assert (tmp_path / "report-2026-11-25.md").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(("unknown", "said"), [(2, "met 99 % of the time"), (300, "met while it was known")])
def test_a_target_is_not_met_while_nobody_knew_the_age(unknown: int, said: str) -> None:
    ages = of_ages([*[2.0] * 300, *[None] * unknown])
    view = replace(report(), freshness=[FreshnessOf("web", ages)])
    assert f"60 s: {said}" in markdown(document(view, [], ""))


def test_an_age_that_was_never_known_is_no_watcher_that_did_not_run() -> None:
    view = replace(report(), freshness=[FreshnessOf("web", of_ages([None] * 5)), FreshnessOf("db")])
    found = markdown(document(view, [], ""))
    assert "No samples of db: " in found
    assert "Never known of web, " in found


def test_freshness_of_a_service_that_left_the_plan() -> None:
    view = report()
    gone = FreshnessOf("gone", view.freshness[0].whole, view.freshness[0].days)
    assert "| gone " in markdown(made(replace(view, freshness=[*view.freshness, gone])))
