"""The status page in a real browser: on a phone, in the dark, and with what others say on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from view_cases import DOWN, NOW, OPEN, standby, view

from vcrecovery.core.domain import DomainReading
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import ServiceState
from vcrecovery.report.status_html import html_page

from .browser import Page, browser
from .test_w_report_page import CONTRASTS, DESK, PHONE, SCREENSHOTS, STICKS_OUT

pytestmark = pytest.mark.lab

BAD = '<img src=x onerror="document.title=1"> ' + "long" * 60


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("status") / "status.html"
    views = [
        view(),
        view("db", reading=DomainReading(Power.SHUTOFF, "crashed"), course=DOWN),
        view("wiki", state=ServiceState("wiki", 1, open_episode=replace(OPEN, service="wiki"))),
        view("shop", standby=standby(None, "unreachable", BAD), reading=DomainReading(Power.UNREACHABLE, detail=BAD)),
    ]
    made.write_text(html_page(views, NOW, refreshes=False))
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    return made


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as opened:
        yield opened


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_can_be_read(page: Page, file: Path, width: int, dark: bool) -> None:
    page.show(file, width, dark=dark)
    page.asked("document.querySelectorAll('details').forEach(each => each.open = true)")
    page.screenshot(SCREENSHOTS / f"status-{width}-{'dark' if dark else 'light'}.png")
    assert page.asked("document.documentElement.scrollWidth") <= width
    assert page.asked(STICKS_OUT) == []
    found = page.asked(CONTRASTS)
    assert len(found) > 50
    assert [entry for entry in found if entry["ratio"] < 4.5] == []


def test_its_text_is_there_and_nothing_of_others_runs(page: Page, file: Path) -> None:
    page.show(file, DESK)
    text = page.asked("document.body.innerText")
    for part in ("Needs attention now", "Under way", "down since", "<img src=x onerror="):
        assert part in text
    assert page.asked("document.querySelectorAll('script, img, iframe, form').length") == 0
    assert page.asked("document.title").startswith("(")
