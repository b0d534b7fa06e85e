"""A standby is elsewhere, and its container at home has restore points: no copy to that one takes them away."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulated.looking import seen
from simulated.observed import Observed
from simulated.site import Site
from vcrecovery.core.episode import Outcome
from vcrecovery.report.findings import findings

POINTS = ("vcr-20261101T000000Z", "vcr-20261102T000000Z")
SAYS = (
    "its container on sec1 has 2 restore points, which a copy to it would remove: `lxc rename web web-before` there "
    "keeps them, and has the copy made anew; or remove them"
)


def site_with_points(folder: Path, *points: str) -> Site:
    site = Observed(folder, world={"spare": "sec2", "spare_every": "20s"})
    site.change(["web"], {"restore_points": points})
    site.watch(3.0)
    return site


def points(site: Site) -> tuple[str, ...]:
    return site.world.services["web"].restore_points


def move(site: Site, to: str) -> None:
    site.do(site.begin_failover(verb="move", to=to))


@pytest.mark.parametrize("serves", [True, False])
def test_a_move_home_is_refused_before_anything_is_copied(serves: bool, memory_path: Path) -> None:
    site = site_with_points(memory_path, *POINTS)
    if serves:
        site.crash("web")
        site.watch(10.0)
    site.kill_watcher()
    move(site, "sec2")
    assert site.journal.history("web")[0].outcome is Outcome.DONE, site.log
    move(site, "sec1")
    refused = site.journal.history("web")[0]
    assert refused.outcome is Outcome.REFUSED, site.log
    assert SAYS in refused.reason
    assert points(site) == POINTS
    # As it is typed there.
    site.change(["web"], {"restore_points": ()})
    move(site, "sec1")
    assert site.journal.history("web")[0].outcome is Outcome.DONE, site.log


def test_the_watcher_refreshes_no_spare_that_has_some(memory_path: Path) -> None:
    site = site_with_points(memory_path, *POINTS)
    site.crash("web")
    site.watch(10.0)
    move(site, "sec2")
    site.watch(60.0)
    assert points(site) == POINTS
    assert any(f"its copy is not refreshed: web is not copied: {SAYS}" in line for line in site.log), site.log
    (finding,) = [one for one in findings(seen(site)) if "serving from the standby" in one.sentence]
    assert f"unprotected: its copy on sec1: {SAYS}" in finding.sentence
    home = site.world.services["web"].container
    assert "user.vcrecovery.copied" not in home.config
    site.change(["web"], {"restore_points": ()})
    site.watch(60.0)
    assert "user.vcrecovery.copied" in home.config, site.log


def test_what_a_failback_has_kept_holds_up_none(memory_path: Path) -> None:
    """It is removed within the hour anyway, and what has served since has not gone back."""
    site = site_with_points(memory_path, f"{POINTS[0]}-before-failback", f"vcr-new-{POINTS[1]}")
    site.crash("web")
    site.watch(10.0)
    move(site, "sec2")
    site.watch(60.0)
    assert "user.vcrecovery.copied" in site.world.services["web"].container.config, site.log
