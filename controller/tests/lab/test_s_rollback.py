"""What a real standby was before a failback: kept in a snapshot, and served again after a rollback."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evidence_cases import proof
from vcrecovery.core.episode import Outcome, Request, Step
from vcrecovery.core.evidence import Kept
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover_steps import FailoverSteps
from vcrecovery.operations.steps.back import hand_over
from vcrecovery.plan.load import load_plan
from vcrecovery.standby.container import ACTIVE, KEEPING_KEY, ROLE_KEY, STANDBY
from vcrecovery.transfer.sessions import are_files_arriving

from .small_site import BRIDGE, SmallSite, started
from .waiting import wait_for

pytestmark = pytest.mark.lab

WEB = "web"
OF_THE_STANDBY, OF_THE_VM = "written by the standby", "written by the VM"


class SiteOnBtrfs(SmallSite):
    def make_standbys(self) -> None:
        self.lxd.lxc("storage", "create", BRIDGE, "btrfs", "size=1GiB")
        super().make_standbys()


@pytest.fixture(params=[SmallSite, SiteOnBtrfs])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallSite]:
    with started(request.param(tmp_path, [WEB])) as made:
        yield made


class Failback:
    """Without a VM: what that would do is only written down."""

    def __init__(self, site: SmallSite) -> None:
        self.env = Environment(load_plan(site.plan))
        self._steps = FailoverSteps(self.env, WEB)
        self._episode = self.env.journal.open(WEB, "a test", Request(back=True), self.env.clock.now(), 1)

    def does(self, step: Step, *, killed: bool = False) -> object:
        """`killed`: its controller was, before it could say so."""
        journal, clock = self.env.journal, self.env.clock
        row = journal.begin(self._episode, step, clock.now())
        episode = journal.episode(self._episode.id)
        assert episode is not None
        done = self._steps.carry_out(step, episode)
        if not killed:
            journal.end(row, clock.now(), ok=True, evidence=done)
        return done

    def is_said_to_do(self, *steps: Step) -> None:
        journal, now = self.env.journal, self.env.clock.now()
        for step in steps:
            journal.end(journal.begin(self._episode, step, now), now, ok=True, evidence=proof(step))

    def ends(self) -> None:
        self.env.journal.close(self._episode, Outcome.DONE, "a test", self.env.clock.now())


def sync(site: SmallSite, source: Path) -> subprocess.Popen[str]:
    """As the VM's, through the receiver."""
    receiver = [sys.executable, "-m", "vcrecovery", "receive", "--state-dir", str(site.state), "--local", WEB]
    words = ["rsync", "-aHAXS", "--numeric-ids", "-e", shlex.join(receiver), f"{source}/", "standby:/"]
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True)


def page_in(site: SmallSite) -> Path:
    return site.rootfs(WEB) / "www/index.html"


def test_kept_then_changed_then_served_again(site: SmallSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = site.vcrecovery("failover", WEB, "--force")
    assert done.returncode == 0, done.stderr
    page_in(site).write_text(f"{OF_THE_STANDBY}\n")
    monkeypatch.setattr(hand_over, "is_up", lambda _subject: None)
    failback = Failback(site)
    failback.is_said_to_do(Step.CONFIRM, Step.BOOT, Step.COPY)
    failback.does(Step.STOP)
    failback.is_said_to_do(Step.LAST_COPY)
    failback.does(Step.HAND_OVER)
    assert (site.instance(WEB).config[ROLE_KEY], site.instance(WEB).config[KEEPING_KEY]) == (STANDBY, "true")
    source = tmp_path / "vm"
    (source / "www").mkdir(parents=True)
    (source / "www/index.html").write_text(f"{OF_THE_VM}\n")
    failback.is_said_to_do(Step.PROBE)
    failback.does(Step.SWITCH)
    failback.does(Step.VERIFY)
    # A session waits for a minute at most, and each of those steps starts programs.
    with sync(site, source) as sending:

        def waits() -> bool:
            return are_files_arriving(site.state, WEB) or sending.poll() is not None

        # It has the lock for the few milliseconds of each of its looks, twice a second.
        wait_for(waits, "a session that waits", poll=0.001)
        assert page_in(site).read_text() == f"{OF_THE_STANDBY}\n"
        assert sending.poll() is None
        kept = failback.does(Step.KEEP, killed=True)
        assert failback.does(Step.KEEP) == kept
        assert isinstance(kept, Kept)
        assert kept.restore_point, kept
        assert sending.wait(timeout=100) == 0, sending.stderr and sending.stderr.read()
    assert page_in(site).read_text() == f"{OF_THE_VM}\n"
    failback.ends()
    assert "kept until its failback is committed" in site.vcrecovery("standby", "snapshots", WEB).stdout
    # Each restore point of the plan is of what the VM has sent: that one neither counts nor goes.
    site.write_plan(web={"restore_points": {"keep": 1, "every": "1s"}})
    site.stamp(WEB)
    assert " made" in site.vcrecovery("standby", "snapshot", WEB).stdout
    rolls_back(site, kept.restore_point)


def rolls_back(site: SmallSite, restore_point: str) -> None:
    refused = site.vcrecovery("rollback", WEB)
    assert refused.returncode == 3
    assert f"back to {restore_point}, what its standby was" in refused.stdout
    assert " in its standby has changed since, namely:" in refused.stdout
    assert "  /www/index.html\n" in refused.stdout
    assert "`vcrecovery rollback web --drop-new-writes web` means it" in refused.stderr
    assert site.address_in_dns(WEB) == [site.primary(WEB)]
    done = site.vcrecovery("rollback", WEB, "--drop-new-writes", WEB)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert site.page(WEB) == OF_THE_STANDBY
    config = site.instance(WEB).config
    assert (config[ROLE_KEY], KEEPING_KEY in config) == (ACTIVE, False)
    assert "nothing to do: its standby serves" in site.vcrecovery("rollback", WEB, "--drop-new-writes", WEB).stdout
    assert f"committed: {restore_point} removed" in site.vcrecovery("commit", WEB).stdout
    left = json.loads(site.vcrecovery("standby", "snapshots", WEB, "--json").stdout)["restore_points"]
    assert [point["kept"] for point in left] == [False]
    assert "nothing to commit" in site.vcrecovery("commit", WEB).stdout
    for point in left:
        site.lxd.server.delete_snapshot(WEB, point["name"], 60)
