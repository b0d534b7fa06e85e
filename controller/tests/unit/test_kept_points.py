"""What a standby was before a failback: kept whole, until it is committed, and never at the cost of its protection."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simulated.lxd import SimulatedLxd, losing_one_answer
from simulated.observed import Observed
from simulated.site import Site
from vcrecovery.core.episode import Episode, Outcome, Request, Step
from vcrecovery.core.failback import is_to_be_committed, kept_by
from vcrecovery.core.service_state import Side
from vcrecovery.drivers.lxd import TryAgainError
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.standby.container import KEEPING_KEY
from vcrecovery.standby.restore_points import RestorePoint, find
from vcrecovery.transfer.changed_files import NAMED, changed_since


def served_by_its_standby(folder: Path, **world: object) -> Site:
    site = Observed(folder, world={**world})
    site.watch(1)
    site.crash("web")
    site.watch(3)
    return site


def handed_over(folder: Path, **words: Any) -> Site:
    """The controller of a failback was killed right after its hand-over."""
    site = served_by_its_standby(folder)
    site.kill_at = "ended hand over"
    site.do(site.begin_failover(verb="failback", **words))
    assert takes_no_files(site)
    return site


def takes_no_files(site: Site) -> bool:
    return KEEPING_KEY in site.world.services["web"].container.config


def summary_of(site: Site) -> str:
    kept = next(kept for episode in site.journal.history("web") if (kept := kept_by(episode)))
    return kept.summary


def test_a_reset_lets_files_in(memory_path: Path) -> None:
    site = handed_over(memory_path)
    site.world.services["web"].records["ns1"]["A"] = {site.world.services["web"].address}
    site.reset("web")
    assert not takes_no_files(site)
    assert site.journal.history("web", 1)[0].outcome is Outcome.GIVEN_UP


@pytest.mark.parametrize("words", [{"force": True}, {"force": True, "restore_point": "monday"}])
def test_a_failover_for_which_it_is_given_up_lets_files_in(words: dict[str, Any], memory_path: Path) -> None:
    """One that is refused gives nothing up: the failback is brought to its end."""
    site = handed_over(memory_path)
    site.failover(**words)
    refused = "restore_point" in words
    if refused:
        open_one = site.journal.state("web").open_episode
        assert open_one is not None
        assert open_one.request.back
        site.watch(5)
    assert not takes_no_files(site), site.log
    assert site.journal.state("web").side is (Side.PRIMARY if refused else Side.STANDBY)
    assert any("no restore point 'monday'" in line for line in site.log) is refused


@pytest.mark.parametrize("method", ["take_snapshot", "rename_snapshot"])
def test_what_is_kept_is_told_also_if_an_answer_was_lost(
    method: str, memory_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or nobody would ever remove it, and its rollback would be refused."""
    site = served_by_its_standby(memory_path)
    monkeypatch.setattr(SimulatedLxd, method, losing_one_answer(method))
    site.failback()
    kept = [point for episode in site.journal.history("web") if (point := kept_by(episode)) and point.restore_point]
    assert [point.restore_point for point in kept] == list(site.world.services["web"].restore_points), site.log
    assert not takes_no_files(site)


@pytest.mark.parametrize("place", ["journalled keep", "in the middle of snapshot", "in the middle of renaming"])
def test_the_watcher_goes_on_and_lets_files_in(place: str, memory_path: Path) -> None:
    site = served_by_its_standby(memory_path)
    site.kill_at = place
    site.failback()
    site.kill_watcher()
    site.watch(5)
    assert not takes_no_files(site)
    assert len(site.world.services["web"].restore_points) == 1
    assert site.journal.history("web", 1)[0].outcome is Outcome.DONE


def test_the_watcher_lets_files_in_where_no_failback_is_open(memory_path: Path) -> None:
    """A journal that was put back, say, knows of none."""
    site = Observed(memory_path)
    site.world.services["web"].container.config[KEEPING_KEY] = "true"
    site.watch(5)
    assert not takes_no_files(site)
    assert any("web: the standby takes files again" in line for line in site.log)


def failing(monkeypatch: pytest.MonkeyPatch, *errors: ExternalError) -> None:
    """Its first snapshots do."""
    left, take = list(errors), SimulatedLxd.take_snapshot

    def take_snapshot(lxd: SimulatedLxd, instance: str, snapshot: str, timeout: float) -> None:
        if left:
            raise left.pop(0)
        take(lxd, instance, snapshot, timeout)

    monkeypatch.setattr(SimulatedLxd, "take_snapshot", take_snapshot)


def test_what_cannot_be_kept_holds_no_failback_up(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = served_by_its_standby(memory_path)
    failing(monkeypatch, ExternalError("LXD on secondary sec1: no space left on device"))
    site.failback()
    assert summary_of(site) == "nothing, so no rollback is possible: LXD on secondary sec1: no space left on device"
    assert not takes_no_files(site)
    site.rollback()
    assert "has kept nothing: LXD on secondary sec1: no space left on device" in site.log[-1]


def test_one_with_which_the_server_is_busy_is_tried_again(memory_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = served_by_its_standby(memory_path)
    failing(monkeypatch, TryAgainError("LXD on secondary sec1: Instance is busy running a snapshot operation"))
    site.failback()
    assert takes_no_files(site)
    assert "ExternalError" in site.log[-1] or "TryAgainError" in site.log[-1]
    site.failback()
    assert not takes_no_files(site)
    assert len(site.world.services["web"].restore_points) == 1


def test_what_has_run_meanwhile_is_not_kept(memory_path: Path) -> None:
    site = served_by_its_standby(memory_path)
    site.then["journalled keep"] = [lambda: site.change(["web"], {"standby_restarted": True})]
    site.failback()
    assert summary_of(site).endswith("its container has run since its stop")
    assert (site.world.services["web"].restore_points, takes_no_files(site)) == ((), False)


def test_how_long_it_is_kept_stays_as_it_was_said(memory_path: Path) -> None:
    """Whoever goes on need not say it again."""
    site = handed_over(memory_path, commit_after=60.0)
    site.failback()
    assert summary_of(site).endswith("until 1 min after the end")
    site.watch(40)
    assert len(site.world.services["web"].restore_points) == 1
    site.watch(100)
    assert not site.world.services["web"].restore_points


def test_what_services_of_a_group_keep_of_the_same_second_is_committed_for_each(memory_path: Path) -> None:
    """Their restore points have the same name."""
    site = Observed(memory_path, {"web": {}, "db": {}})
    site.watch(1)
    both = [site.world.services[name] for name in ("web", "db")]
    for service in both:
        site.crash(service.name)
    site.watch(5)
    for service in both:
        site.begin_failover(verb="failback", name=service.name, commit_after=60.0)
    site.watch(30)
    (kept,) = {service.restore_points for service in both}
    assert len(kept) == 1, site.log
    site.watch(100)
    assert [service.restore_points for service in both] == [(), ()], site.log


def test_a_failover_of_later_leaves_it_until_its_time(memory_path: Path) -> None:
    site = served_by_its_standby(memory_path)
    site.do(site.begin_failover(verb="failback", commit_after=60.0))
    (kept,) = site.world.services["web"].restore_points
    site.watch(20)
    site.crash("web")
    site.watch(10)
    assert site.journal.state("web").side is Side.STANDBY
    site.rollback()
    assert "web is served by its standby since epoch 3: a rollback leads there from its VM" in site.log[-1]
    assert site.world.services["web"].restore_points == (kept,)
    site.watch(100)
    assert not site.world.services["web"].restore_points


def test_only_the_services_name_is_the_word(memory_path: Path) -> None:
    site = served_by_its_standby(memory_path)
    site.failback()
    from vcrecovery.cli.undo import roll_back

    said: list[str] = []

    def mistyped(env: Any) -> None:
        try:
            roll_back(env, site.folder / "plan.yml", "web", "wbe", as_json=False)
        except Exception as error:  # noqa: BLE001  looked at below
            said.append(str(error))

    site.by_hand(mistyped)
    assert said == ["--drop-new-writes wbe is not the service's name; type web to mean it"]


CLOSED = Episode(1, "web", 2, "asked", Request(back=True, commit_after=60.0), 0.0, closed_at=1000.0)


@pytest.mark.parametrize(("now", "due"), [(1059.0, False), (1060.0, True), (-1e6, False)])
def test_a_clock_that_was_set_back_commits_nothing(now: float, due: bool) -> None:
    assert is_to_be_committed(CLOSED, now) is due


def test_the_newest_restore_point_is_one_that_the_primary_has_sent() -> None:
    points = [RestorePoint(1.0, "a"), RestorePoint(2.0, "b", kept=True)]
    assert find(points, "web", "latest").name == "a"
    assert find(points, "web", "b").kept
    with pytest.raises(RefusedError, match=r"web has no restore point \(there are: b\)"):
        find(points[1:], "web", "latest")


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[str], Path]:
    def write(name: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        return path

    return write


def test_what_has_changed_since(tree: Callable[[str], Path], tmp_path: Path) -> None:
    old = tree("etc/old")
    outside = tmp_path / "link"
    outside.symlink_to("/etc")
    moment = max(old.stat().st_ctime, outside.lstat().st_ctime)
    while tree("probe").stat().st_ctime <= moment:
        pass  # the file system's clock is coarse
    (tmp_path / "probe").unlink()
    names = [f"srv/{number:02}" for number in range(NAMED + 2)]
    for name in names:
        os.utime(tree(name), (0, 0))  # the VM's files come with the VM's times
    tree("var/lib/vcrecovery/heartbeat")
    found = changed_since(tmp_path, moment)
    assert found.count == len(names)
    assert len(found.newest) == NAMED
    assert {name for _, name in found.newest} <= {f"/{name}" for name in names}
    assert list(found.newest) == sorted(found.newest, reverse=True)
    assert changed_since(tmp_path / "none", 0.0).count == 0


def test_the_step_is_part_of_every_failback(memory_path: Path) -> None:
    site = served_by_its_standby(memory_path)
    site.failback()
    steps = [record.step for record in site.journal.history("web", 1)[0].steps]
    assert steps[-1] is Step.KEEP
