"""The watcher's refresh of a spare and a move of the same standby: the service is not down for the refresh."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulated.observed import Observed
from simulated.site import Site
from vcrecovery.core.episode import Episode, Outcome, Step
from vcrecovery.errors import VCRecoveryError
from vcrecovery.operations.spare_loop import see_to
from vcrecovery.store.lock import one_keeper

#: Seconds of a copy: each pass of the move, and a refresh. More than `every`, as of what LXD sends whole each time.
TAKES = 400.0


def site_that_serves(folder: Path) -> Site:
    site = Observed(folder, world={"spare": "sec2", "spare_every": "20s"})
    site.watch(3.0)
    site.crash("web")
    site.watch(10.0)
    site.kill_watcher()
    site.world.copy_takes = TAKES
    return site


def refresh(site: Site, name: str) -> None:
    """As the watcher's, at its turn."""
    process, env = site.process(name)

    def work() -> None:
        try:
            see_to(env, "web")
        except VCRecoveryError as error:
            site.say(f"{name}: {type(error).__name__}: {error}")

    site.scheduler.spawn(process, work, name)


def down_for(episode: Episode) -> float:
    stop, probe = episode.done(Step.STOP), episode.ports_opened
    assert stop is not None
    assert probe is not None
    assert probe.ended_at is not None
    return probe.ended_at - stop.begun_at


def test_none_begins_once_the_move_has_copied(memory_path: Path) -> None:
    """It would have the last copy wait, with nobody serving."""
    site = site_that_serves(memory_path)
    # The look before the stop is made anew after so long a copy.
    site.then["ended copy"] = [lambda: refresh(site, "refresh")]
    process = site.begin_failover(verb="move", to="sec2")
    site.run(5000.0, lambda: process.is_over)
    move = site.journal.history("web")[0]
    assert move.outcome is Outcome.DONE, site.log
    assert down_for(move) < TAKES + 30.0, site.log


def test_one_that_has_begun_is_waited_for_before_anything_is_stopped(memory_path: Path) -> None:
    site = site_that_serves(memory_path)
    site.world.copy_takes = 100.0
    refresh(site, "refresh")
    site.run(10.0)
    process = site.begin_failover(verb="move", to="sec2")
    site.run(5000.0, lambda: process.is_over)
    move = site.journal.history("web")[0]
    assert move.outcome is Outcome.DONE, site.log
    assert down_for(move) < 130.0, site.log


def test_who_is_at_work_on_it_after_the_stop_has_it_serve_again_where_it_was(memory_path: Path) -> None:
    """Such as the keeping of a standby by hand, which a move does not see before."""
    site = site_that_serves(memory_path)
    site.world.copy_takes = 2.0

    def keeps() -> None:
        process, env = site.process("keeping")

        def work() -> None:
            with one_keeper(env.plan.state_dir, "web", clock=env.clock):
                env.clock.sleep(1000.0)

        site.scheduler.spawn(process, work, "keeping")

    site.then["before stop"] = [keeps]
    process = site.begin_failover(verb="move", to="sec2")
    site.run(5000.0, lambda: process.is_over)
    move = site.journal.history("web")[0]
    assert move.outcome is Outcome.TAKEN_BACK, site.log
    stop, back = move.done(Step.STOP), move.done(Step.TAKE_BACK)
    assert stop is not None
    assert back is not None
    assert back.begun_at - stop.begun_at < 60.0
    assert site.world.services["web"].serves


@pytest.mark.parametrize("place", ["in the middle of copy", "ended copy"])
def test_where_a_move_was_cut_off_the_spare_is_refreshed_as_ever(place: str, memory_path: Path) -> None:
    site = site_that_serves(memory_path)
    site.world.copy_takes = 30.0
    site.kill_at = place
    site.do(site.begin_failover(verb="move", to="sec2"))
    site.kill_at = None
    before = site.world.services["web"].other
    assert before is not None
    copied = before.container.config.get("user.vcrecovery.copied")
    site.run(30.0)
    refresh(site, "refresh")
    site.run(60.0)
    assert before.container.config.get("user.vcrecovery.copied") not in (None, copied), site.log
