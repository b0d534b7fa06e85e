"""The pages that are made of the code are current."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reference_pages import metric_page
from reference_pages.pages import CHECKOUT, PAGES


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_a_page_made_of_code_is_current(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What may differ between machines and terminals.
    for name, value in {"COLUMNS": "40", "LC_ALL": "C.UTF-8", "NO_COLOR": "", "VCRECOVERY_PLAN": "/elsewhere"}.items():
        monkeypatch.setenv(name, value)
    made = PAGES[path]()
    if os.environ.get("VCRECOVERY_REWRITE"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made)
    written = path.read_text() if path.exists() else ""
    assert made == written, f"{path.relative_to(CHECKOUT)} is not current: run `make docs`, and commit what it writes"


def test_every_metric_shows_its_labels() -> None:
    assert [family.name for family in metric_page.shown() if not family.samples] == []
