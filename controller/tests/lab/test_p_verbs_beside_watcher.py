"""Every verb of `vcrecovery standby` while a real watcher keeps the same standby, on a real LXD."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from vcrecovery.standby.container import ROLE_KEY, STANDBY
from vcrecovery.store.lock import one_keeper

from .small_site import ZONE, SmallSite, page_at, small_site
from .waiting import wait_for

pytestmark = pytest.mark.lab

WEB = "web"
#: The shell in which a refresh runs. That takes longer than the watcher's keeper leaves between two looks, and tells of
#: a second keeper beside it.
SLOW = """\
#!/bin/busybox sh
if [ "$4" = refresh ]; then
  mkdir /at-work || : >/two-at-work
  sleep 3
  rmdir /at-work
fi
exec /bin/busybox sh "$@"
"""
SERVICE = {
    "mode": "cold",
    "refresh": {"every": "1h"},
    "restore_points": {"keep": 2, "every": "2s"},
    "sync": {"exclude_profile": None},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallSite]:
    with small_site(tmp_path_factory.mktemp("verbs"), [WEB]) as site:
        site.write_plan(web=SERVICE)
        shell = site.rootfs(WEB) / "bin/sh"
        shell.unlink()
        shell.write_text(SLOW)
        shell.chmod(0o755)
        site.fill(WEB)
        yield site


@pytest.fixture(scope="module")
def said(made: SmallSite) -> Iterator[Callable[[], str]]:
    with ExitStack() as held, made.watched() as said:
        wait_for(lambda: "watching 1 service" in said(), "the watcher")
        yield said
        # It ends while LXD is not in the middle of a copy for it.
        held.enter_context(one_keeper(made.state, WEB, 60.0))


@pytest.fixture
def site(made: SmallSite, said: Callable[[], str]) -> Iterator[SmallSite]:
    """The standby waits in the plan's mode, and the watcher runs."""
    made.stamp(WEB)
    yield made
    done(made, "set", WEB, "plan")
    assert made.instance(WEB).status == "Stopped"
    assert not (made.rootfs(WEB) / "two-at-work").exists()
    assert [line for line in said().splitlines() if re.search("not in its mode|no restore point:", line)] == []


def done(site: SmallSite, *words: str) -> str:
    """What the verb says, when it has done what it was to do. In the time of one that hangs it would fail."""
    found = site.vcrecovery("standby", *words, timeout=60)
    assert found.returncode == 0, (found.stdout, found.stderr)
    return found.stdout


def at_work(site: SmallSite) -> bool:
    return (site.rootfs(WEB) / "at-work").exists()


def booted_by_the_watcher(site: SmallSite) -> None:
    """Until its keeper is at work inside the container, which somebody has just stopped."""
    if site.instance(WEB).status != "Stopped":
        site.lxd.lxc("stop", "--force", WEB)
    wait_for(lambda: at_work(site), "the watcher's refresh")


def test_set(site: SmallSite) -> None:
    for mode, status in (("frozen", "Frozen"), ("hot", "Running")):
        done(site, "set", WEB, mode)
        assert site.instance(WEB).status == status
        assert not at_work(site)


def test_those_that_change_it_wait_for_the_watcher_and_those_that_read_it_do_not(site: SmallSite) -> None:
    done(site, "set", WEB, "hot")
    booted_by_the_watcher(site)
    assert done(site, "modes") == f"{WEB}  hot (the plan says cold), running\n"
    assert "in sync" in done(site, "wait", WEB, "--any")
    done(site, "snapshots", WEB)
    assert at_work(site)
    assert done(site, "apply", WEB) == "web: nothing to do\n"
    assert not at_work(site)
    booted_by_the_watcher(site)
    assert done(site, "reset", WEB) == "web: nothing to do: its primary serves\n"
    assert not at_work(site)
    assert done(site, "snapshot", WEB) == "web: not now: the container is running\n"


def test_snapshot(site: SmallSite) -> None:
    def points() -> set[str]:
        shown = json.loads(done(site, "snapshots", WEB, "--json"))["restore_points"]
        return {point["name"] for point in shown}

    # The watcher makes them too, at the same times.
    seen = points()
    for _ in range(3):
        wait_for(lambda: "made" in done(site, "snapshot", WEB) or points() - seen, "another")
        seen.update(points())
    assert len(points()) == 2
    assert "vcr-new" not in site.lxd.lxc("query", f"/1.0/instances/{WEB}/snapshots")


def test_seed(site: SmallSite, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(site.rootfs(WEB), tree, symlinks=True)
    (tree / "www/index.html").write_text("seeded\n")
    done(site, "seed", WEB, "--from", str(tree))
    done(site, "set", WEB, "hot")
    assert page_at(site.address(WEB)) == "seeded"


def test_reset(site: SmallSite, said: Callable[[], str]) -> None:
    failover = site.vcrecovery("failover", "--host", "hv1")
    assert failover.returncode == 0, (failover.stdout, failover.stderr)
    site.lxd.lxc("stop", "--force", WEB)
    site.ns1.change(f"update delete {WEB}.{ZONE} A", f"update add {WEB}.{ZONE} 5 A {site.primary(WEB)}")
    site.stamp(WEB)
    made = said().count("restore point")
    assert "its primary serves, and is protected" in done(site, "reset", WEB)
    assert site.instance(WEB).config[ROLE_KEY] == STANDBY
    wait_for(lambda: said().count("restore point") > made, "the watcher's next restore point")
