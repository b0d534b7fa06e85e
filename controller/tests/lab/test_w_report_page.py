"""The report's page in a real browser: on a phone, in the dark, on paper. Its pictures are kept for whoever looks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report_cases import CHANGED, HOSTILE, report

from vcrecovery.core.text import plain
from vcrecovery.report.periodic import charts
from vcrecovery.report.periodic.contents import document
from vcrecovery.report.periodic.page import page as html_of

from .browser import Page, browser

pytestmark = pytest.mark.lab

#: Kept by CI; `tests/conftest.py` says where they are.
SCREENSHOTS = Path(__file__).resolve().parents[3] / ".cache/screenshots"
PHONE, DESK = 360, 1200
#: CSS pixels between the margins of A4: 180 mm.
PAPER = 680

#: Each text's contrast with what is behind it, as WCAG reckons it; the worst first.
CONTRASTS = """
(() => {
  const parsed = text => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return {rgb: found.slice(0, 3), alpha: found.length > 3 ? found[3] : 1};
  };
  const light = rgb => {
    const [r, g, b] = rgb.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = element => {
    for (let at = element; at; at = at.parentElement) {
      const found = parsed(getComputedStyle(at).backgroundColor);
      if (found.alpha === 1) return found.rgb;
    }
    return [255, 255, 255];
  };
  const ratio = (front, back) => {
    const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    if (!text || ['STYLE', 'TITLE', 'title', 'desc'].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const ink = parsed(element.closest('svg') ? style.fill : style.color);
    found.push({text, ratio: ink.alpha === 1 ? ratio(ink.rgb, behind(element)) : 0});
  }
  for (const cell of document.querySelectorAll('td')) {
    const label = getComputedStyle(cell, '::before');
    if (label.content === 'none') continue;
    found.push({text: label.content, ratio: ratio(parsed(label.color).rgb, behind(cell))});
  }
  return found.sort((a, b) => a.ratio - b.ratio);
})()
"""
#: The same for what charts are drawn with.
STROKES = """
[...document.querySelectorAll('svg path, svg use')].map(element => getComputedStyle(element).stroke)
"""
#: What sticks out of the page, or of its own box.
STICKS_OUT = """
[...document.querySelectorAll('body *')].filter(element => !element.closest('thead, svg')).filter(element => {
  const box = element.getBoundingClientRect();
  return box.width && (box.right > innerWidth + 1 || box.left < -1 || element.scrollWidth > element.clientWidth + 1
    && getComputedStyle(element).display !== 'inline');
}).map(element => element.outerHTML.slice(0, 100))
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("report") / "report.html"
    text = html_of(document(report(), CHANGED, "report-2026-10-22"), charts.svg, charts.COLOURS)
    made.write_text(text)
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
    page.screenshot(SCREENSHOTS / f"report-{width}-{'dark' if dark else 'light'}.png")
    assert page.asked("document.documentElement.scrollWidth") <= width
    assert page.asked(STICKS_OUT) == []
    found: list[dict[str, Any]] = page.asked(CONTRASTS)
    assert len(found) > 100
    assert [entry for entry in found if entry["ratio"] < 4.5] == []
    # Dark is dark.
    shade = page.asked("getComputedStyle(document.body).backgroundColor")
    assert shade == ("rgb(18, 22, 27)" if dark else "rgb(255, 255, 255)")


def test_its_text_is_there_and_no_script(page: Page, file: Path) -> None:
    page.show(file, DESK)
    text = page.asked("document.body.innerText")
    for part in (
        "VCRecovery report 2026-11-22",
        "Failovers and planned moves",
        "88 s (DNS checked), MISSED 30 s",
        "40 d 1 h (so far), MISSED 60 s",
        "This plan costs 120.50 USD a month",
        plain(HOSTILE).partition("`")[0],
    ):
        assert part in text
    assert page.asked("document.scripts.length + document.images.length + document.links.length") <= 7
    assert page.asked("document.querySelectorAll('script, img, iframe, [onerror]').length") == 0
    assert page.asked("document.querySelectorAll('svg text').length") > 20
    assert page.asked("[...document.querySelectorAll('nav a')].every(a => document.querySelector(a.hash))")
    # Nothing was fetched beside the page itself.
    assert page.asked("performance.getEntriesByType('resource').length") == 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_charts_are_drawn_in_the_colours_of_the_page(page: Page, file: Path, dark: bool) -> None:
    page.show(file, DESK, dark=dark)
    ink = page.asked("getComputedStyle(document.body).color")
    strokes = set(page.asked(STROKES)) - {"none"}
    shades = set(
        page.asked("""
        [0, 1, 2, 3].map(n => {
          const probe = document.body.appendChild(document.createElement('i'));
          probe.style.color = `var(--shade-${n})`;
          const found = getComputedStyle(probe).color;
          probe.remove();
          return found;
        })
    """)
    )
    assert len(shades) == 4
    assert strokes <= shades | {ink}
    assert ink in strokes


def test_on_paper(page: Page, file: Path) -> None:
    page.show(file, PAPER, media="print", dark=True)
    page.print(SCREENSHOTS / "report.pdf")
    assert (SCREENSHOTS / "report.pdf").read_bytes().startswith(b"%PDF-")
    # Ink is dark and paper is light, whatever the screen is; tables are tables, and end at the margin.
    assert page.asked("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.asked("[...document.querySelectorAll('table')].every(t => getComputedStyle(t).display === 'table')")
    assert page.asked(STICKS_OUT) == []
    assert [entry for entry in page.asked(CONTRASTS) if entry["ratio"] < 4.5] == []
    # No row is cut by the end of a page, and each page has the table's head.
    assert page.asked(
        "[...document.querySelectorAll('tr, figure')].every(e => getComputedStyle(e).breakInside === 'avoid')"
    )
    assert page.asked(
        "[...document.querySelectorAll('thead')].every(e => getComputedStyle(e).display === 'table-header-group')"
    )
