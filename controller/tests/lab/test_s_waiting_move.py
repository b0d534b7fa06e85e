"""A standby that waits is moved to another secondary and back, under a real sync; then it serves from there."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from vcrecovery.drivers.lxd.copies import INCOMPLETE_KEY
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.errors import ExitCode
from vcrecovery.primary.transfer import KEPT

from .small_site import page_at
from .synced_site import NAME, SyncedSite, synced_site
from .waiting import wait_for

pytestmark = pytest.mark.lab

BURN = "(while :; do :; done) >/dev/null 2>&1 </dev/null &"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SyncedSite]:
    with synced_site(tmp_path_factory.mktemp("waiting")) as site:
        yield site


def moved(site: SyncedSite, to: str) -> None:
    done = site.vcrecovery("move", NAME, "--to", to)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert f"{NAME}: its standby waits on {to}, after" in done.stdout
    assert site.take_files() == [to]
    assert site.freshness_on(to).receiver == to


def test_it_is_moved_and_its_sync_follows(site: SyncedSite) -> None:
    for number in range(200):
        site.write(f"srv/{number % 7}/{number}", f"{number}\n" * 50)
    site.arrives("srv/3/199", "sec1")
    rehearsed = json.loads(site.vcrecovery("move", NAME, "--to", "sec2", "--dry-run", "--json").stdout)
    assert [step["step"] for step in rehearsed["services"][0]["steps"]] == [
        "copy", "stop", "last copy", "receive", "sync",
    ]  # fmt: skip
    moved(site, "sec2")
    assert site.differences_on("sec2") == []
    assert site.asked("sec1").split()[0] == "elsewhere"
    assert site.asked("sec2").split()[0] == "primary"
    site.write("srv/after", "the move\n")
    site.arrives("srv/after", "sec2")
    assert not (site.rootfs_on("sec1") / "srv/after").exists()
    assert "on sec2" in site.vcrecovery("status", NAME).stdout
    again = site.vcrecovery("move", NAME, "--to", "sec2")
    assert (again.returncode, again.stdout) == (0, f"{NAME}: nothing to do: its standby waits on sec2\n")


def test_it_is_moved_back_while_a_session_sends(site: SyncedSite, tmp_path: Path) -> None:
    """What was let in before counts for nothing once the standby has moved on."""
    (site.tree / "srv/after").unlink()
    big = tmp_path / "big"
    big.write_bytes(os.urandom(8 << 20))
    shell = f"ssh -F {site.primary_side.ssh_config} -o ControlPath=none"
    words = ["rsync", *KEPT, "--timeout=300", "--bwlimit=250", "-e", shell, str(big), "receiver-sec2:/"]
    with subprocess.Popen(words, stderr=subprocess.PIPE) as session:
        wait_for(lambda: any(site.rootfs_on("sec2").glob(".big.*")), "the session")
        moved(site, "sec1")
        assert session.wait(60) != 0
    refused = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode != 0
    assert "the standby of a waits on sec1 now" in refused.stderr
    assert not (site.rootfs_on("sec2") / "big").exists()


def test_restore_points_at_home_outlive_it(site: SyncedSite) -> None:
    """LXD would remove them with the copy back."""
    home = site.lxd.server
    home.take_snapshot(NAME, "by-hand", 60)
    moved(site, "sec2")
    refused = site.vcrecovery("move", NAME, "--to", "sec1")
    assert refused.returncode == ExitCode.REFUSED
    assert f"has 1 restore point, which a copy to it would remove: `lxc rename {NAME} {NAME}-before`" in refused.stderr
    assert home.snapshots(NAME) == ["by-hand"]
    site.lxd.lxc("rename", NAME, f"{NAME}-before")
    moved(site, "sec1")
    assert home.snapshots(f"{NAME}-before") == ["by-hand"]
    site.lxd.lxc("delete", f"{NAME}-before")


@pytest.mark.parametrize("frozen", [False, True])
def test_one_that_runs_stops_where_it_was(site: SyncedSite, frozen: bool) -> None:
    home = site.server("sec1")
    home.start(NAME, 60)
    if frozen:
        home.freeze(NAME, 60)
    moved(site, "sec2")
    found = home.get(NAME)
    assert found is not None
    assert found.status == STOPPED
    moved(site, "sec1")


def test_a_rebalance_takes_one_along_that_runs(site: SyncedSite) -> None:
    """It uses what it may while it waits. Both LXDs are on this machine, whose load is the first one's."""
    site.write_plan()
    site.data["balance"] = {"cpu_high": 60, "target": 55, "memory_high": 100}
    site.data["services"][NAME]["mode"] = "hot"
    site.save_plan()
    site.lxd.lxc("config", "set", NAME, "limits.cpu.allowance", "40ms/100ms")
    others = [subprocess.Popen(["/bin/busybox", "sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count() or 1)]
    try:
        site.server("sec1").start(NAME, 60)
        site.lxd.lxc("exec", NAME, "--", "/bin/busybox", "sh", "-c", BURN)
        done = site.vcrecovery("rebalance")
        assert done.returncode in (ExitCode.DONE, ExitCode.REFUSED), (done.stdout, done.stderr)
        assert f"{NAME} to sec2: takes 0." in done.stdout
        assert "its primary serves meanwhile" in done.stdout
        assert site.take_files() == ["sec2"]
    finally:
        for other in others:
            other.kill()
            other.wait()
        site.lxd.lxc("config", "unset", NAME, "limits.cpu.allowance")
        site.write_plan()
        site.save_plan()
    moved(site, "sec1")


def test_a_drain_takes_it_along(site: SyncedSite) -> None:
    drained = site.vcrecovery("drain", "sec1")
    assert drained.returncode == 0, (drained.stdout, drained.stderr)
    assert f"{NAME}: is moved to sec2\n" in drained.stdout
    assert site.take_files() == ["sec2"]
    refused = site.vcrecovery("move", NAME, "--to", "sec1")
    assert (refused.returncode, "sec1 is drained, by root" in refused.stderr) == (3, True)
    undrained = site.vcrecovery("undrain", "sec1")
    assert f"{NAME} waits on sec2: `vcrecovery move {NAME} --to sec1` brings it back\n" in undrained.stdout
    moved(site, "sec1")
    assert site.differences_on("sec1") == []
    site.write("srv/back", "home\n")
    site.arrives("srv/back", "sec1")


def test_a_vm_that_does_not_know_the_other_secondary_keeps_its_standby(site: SyncedSite) -> None:
    site.primary_side.kill()
    settings = site.primary_side.folder / "sync.json"
    before = settings.read_text()
    try:
        settings.write_text(json.dumps({**json.loads(before), "receivers": []}))
        site.primary_side.start()
        wait_for(lambda: site.freshness_on("sec1").whole and not site.freshness_on("sec1").knows, "a heartbeat")
        done = site.vcrecovery("move", NAME, "--to", "sec2")
        assert done.returncode == 3, (done.stdout, done.stderr)
        assert "its VM does not know sec2: run site.yml" in done.stderr
        assert site.take_files() == ["sec1"]
    finally:
        site.primary_side.kill()
        settings.write_text(before)
        site.primary_side.start()
        site.wait_whole("sec1")


def test_a_failover_that_begins_while_it_is_copied_comes_first(site: SyncedSite) -> None:
    """On a real LXD a container that is copied from can be started."""
    for number in range(8):
        (site.tree / f"srv/large-{number}").write_bytes(os.urandom(48 << 20))
    wait_for(lambda: (site.rootfs_on("sec1") / "srv/large-7").exists(), "the large files")
    site.wait_whole("sec1")
    words = site.command("move", NAME, "--to", "sec2")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as move:

        def copies() -> bool:
            there = site.on_spare(NAME)
            return there is not None and bool(there.config.get(INCOMPLETE_KEY))

        wait_for(copies, "the copy")
        site.primary_side.kill()
        done = site.vcrecovery("failover", NAME, "--force")
        assert done.returncode == 0, (done.stdout, done.stderr)
        _, said = move.communicate(timeout=120)
    assert move.returncode == 4
    assert "something else comes first" in said
    assert page_at(site.address(NAME)) == "written by the primary"
    assert site.take_files() == []
    for number in range(8):
        (site.tree / f"srv/large-{number}").unlink()
    site.returned_by_hand("sec1")


def test_it_serves_from_where_it_waits(site: SyncedSite) -> None:
    moved(site, "sec2")
    site.write("www/index.html", "the last words\n")
    site.arrives("www/index.html", "sec2")
    site.primary_side.kill()
    done = site.vcrecovery("failover", NAME, "--force")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert page_at(site.spare_address(NAME)) == "the last words"
    assert site.address_in_dns(NAME) == [site.spare_address(NAME)]
    home = site.server("sec1").get(NAME)
    assert home is not None
    assert home.status == STOPPED
    assert site.asked("sec1").split()[0] == "elsewhere"
    assert site.asked("sec2").split()[0] == "standby"
