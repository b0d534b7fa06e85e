"""Which page is made by what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import vm_states
from reference_pages import cli_page, code_page, man_page, metric_page, plan_page, role_page

CHECKOUT = Path(__file__).parents[3]
DOCS = CHECKOUT / "docs"
PAGES: Mapping[Path, Callable[[], str]] = {
    DOCS / "reference/plan.md": plan_page.page,
    DOCS / "reference/cli.md": cli_page.page,
    DOCS / "reference/exit-codes.md": code_page.page,
    DOCS / "reference/metrics.md": metric_page.page,
    DOCS / "reference/roles.md": role_page.page,
    CHECKOUT / "controller/man/vcrecovery.1": man_page.page,
    vm_states.PAGE: vm_states.page,
    **{folder / "README.md": partial(role_page.readme, folder) for folder in sorted(role_page.ROLES.iterdir())},
}
