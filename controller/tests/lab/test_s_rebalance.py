"""Services leave a secondary that has too much to do, or that is to be worked on. Two real LXDs, a BIND, real load.

Both LXDs are on this machine, and so is all other work: the first one's load is the machine's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from vcrecovery.errors import ExitCode

from .two_secondaries import TwoSecondaries, two_secondaries
from .waiting import wait_for

pytestmark = pytest.mark.lab

WEB, DB = "web", "db"
NAMES = (WEB, DB)
#: Per cent of two cores: what both use together is too much, and what one uses is not, there or elsewhere. On a machine
#: that is busy both use less, and both would fit there: so one is pinned.
BALANCE = {"cpu_high": 30, "target": 25, "high_for": "2s", "memory_high": 100, "pinned": [DB]}
ALLOWED = "35ms/100ms"
#: What else this machine does may be more than all its services.
ENOUGH = (ExitCode.DONE, ExitCode.REFUSED)
BURN = "(while :; do :; done) >/dev/null 2>&1 </dev/null &"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoSecondaries]:
    with two_secondaries(tmp_path_factory.mktemp("balance"), NAMES) as site:
        yield site


@pytest.fixture
def site(made: TwoSecondaries) -> Iterator[TwoSecondaries]:
    """Both services are served on the first one, and use what they may."""
    balance(made)
    for name in NAMES:
        done = made.vcrecovery("failover", name)
        assert done.returncode == 0, (done.stdout, done.stderr)
        made.lxd.lxc("config", "set", name, "limits.cpu.allowance", ALLOWED)
        made.lxd.lxc(
            "exec", name, "--", "/bin/busybox", "sh", "-c", "(while :; do :; done) >/dev/null 2>&1 </dev/null &"
        )
    yield made
    for name in NAMES:
        made.lxd.lxc("config", "unset", name, "limits.cpu.allowance")
    made.back()


def balance(site: TwoSecondaries, **more: Any) -> None:
    site.write_plan()
    site.data["balance"] = {**BALANCE, **more}
    site.save_plan()


def on_each(site: TwoSecondaries) -> list[str]:
    return [site.status_of(name)["secondary"] for name in NAMES]


def test_one_of_two_leaves_it_and_nothing_more(site: TwoSecondaries) -> None:
    dry = site.vcrecovery("rebalance", "--dry-run")
    assert dry.returncode in ENOUGH, dry.stderr
    assert "overloaded: " in dry.stdout
    assert "dry run: nothing was touched" in dry.stdout
    assert on_each(site) == ["sec1", "sec1"]
    data = json.loads(site.vcrecovery("rebalance", "--dry-run", "--json").stdout)
    (move,) = data["moves"]
    assert (move["service"], move["from"], move["to"]) == (WEB, "sec1", "sec2")
    assert data["kept"] == {DB: "pinned by the plan"}
    assert 0.01 < data["secondaries"]["sec1"]["containers"][WEB]["cores"] < 0.5
    done = site.vcrecovery("rebalance")
    assert done.returncode in ENOUGH, (done.stdout, done.stderr)
    assert on_each(site) == ["sec2", "sec1"]
    assert site.pages(WEB) == (None, WEB)
    assert site.page(WEB) == WEB
    (entry,) = [e for e in site.episodes() if e["request"].get("to")]
    assert entry["cause"].startswith("secondary sec1 is overloaded (")


def test_the_watcher_proposes(site: TwoSecondaries) -> None:
    with site.watched() as said:
        wait_for(lambda: "secondary sec1 is overloaded (" in said(), "its word", 120)
        assert "`vcrecovery rebalance` does it" in said()
        assert on_each(site) == ["sec1", "sec1"]
        status = site.vcrecovery("status").stdout
        assert "sec1: overloaded" in status, status
        assert "to sec2: takes" in site.vcrecovery("rebalance", "--dry-run").stdout


def test_the_watcher_moves(site: TwoSecondaries) -> None:
    balance(site, do="move", again_after="1h")
    with site.watched() as said:
        wait_for(lambda: "done: " in said() and "is served on sec2" in said(), "the move", 180)
        assert on_each(site) == ["sec2", "sec1"]


def test_a_secondary_is_drained_for_work(site: TwoSecondaries) -> None:
    dry = site.vcrecovery("drain", "sec1", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "web: would be moved to sec2" in dry.stdout
    assert on_each(site) == ["sec1", "sec1"]
    done = site.vcrecovery("drain", "sec1")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert on_each(site) == ["sec2", "sec2"]
    for name in NAMES:
        assert site.pages(name) == (None, name)
    again = site.vcrecovery("drain", "sec1")
    assert (again.returncode, again.stdout) == (0, "sec1: nothing is to be moved\n")
    assert "sec1: drained" in site.vcrecovery("status").stdout
    refused = site.vcrecovery("move", WEB, "--to", "sec1")
    assert refused.returncode == ExitCode.REFUSED
    assert "`vcrecovery undrain sec1` when the work there is over" in refused.stderr
    over = site.vcrecovery("undrain", "sec1")
    assert over.returncode == 0, over.stderr
    assert "`vcrecovery move web --to sec1` brings it back" in over.stdout
    assert site.vcrecovery("undrain", "sec1").stdout == "sec1: nothing to do: it is not drained\n"
    home = site.vcrecovery("move", WEB, "--to", "sec1")
    assert home.returncode == 0, (home.stdout, home.stderr)
    assert site.pages(WEB) == (WEB, None)
