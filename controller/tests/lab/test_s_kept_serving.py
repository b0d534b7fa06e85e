"""A real LXD, a real watcher, containers that serve: they end in every way there is. Not all are started again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from vcrecovery.errors import ExternalError
from vcrecovery_lab.stand_still import stand_still

from .small_site import SERVE, SmallSite, small_site
from .waiting import wait_for

pytestmark = pytest.mark.lab

DB, WEB = "db", "web"
#: Says why, and ends two seconds later, for as long as the file /ill is there. For one that ends at once LXD takes ten
#: seconds to say so, and five tries may take longer than a minute: then a silent hypervisor counts as fenced no more.
ILL = f"[ ! -e /ill ] || {{ /bin/busybox sleep 2; echo 'web: no space left on device'; exit 1; }}\n{SERVE}"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallSite]:
    with small_site(tmp_path_factory.mktemp("kept-serving"), [DB, WEB]) as site:
        yield site


@pytest.fixture
def site(made: SmallSite) -> Iterator[SmallSite]:
    """The hypervisor has failed, and was powered off once. Both standbys serve; `web` needs `db`."""
    made.write_plan(web={"needs": [DB], "timeouts": {"ports": "10s"}})
    made.fill(WEB, ILL)
    done = made.vcrecovery("failover", "--host", "hv1")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert made.fenced.read_text() == "hv1\n"
    yield made
    file(made, "ill").unlink(missing_ok=True)
    made.back()


def init_of(site: SmallSite, name: str) -> int:
    return int(json.loads(site.lxd.lxc("query", f"/1.0/instances/{name}/state"))["pid"])


def kill(site: SmallSite, name: str) -> None:
    os.kill(init_of(site, name), signal.SIGKILL)


def epochs(site: SmallSite, name: str) -> list[int]:
    """Those at which it was brought up, the first failover's first."""
    return [episode["epoch"] for episode in site.episodes() if episode["service"] == name]


def serves(site: SmallSite, name: str, epoch: int) -> bool:
    done = [episode["epoch"] for episode in site.episodes() if episode["service"] == name and episode["outcome"]]
    return site.page(name) == name and done[-1] == epoch


def status(site: SmallSite, name: str) -> dict[str, Any]:
    found = json.loads(site.vcrecovery("status", name, "--json").stdout)["services"]
    assert isinstance(found[0], dict)
    return found[0]


def outages(site: SmallSite, since: float) -> list[dict[str, Any]]:
    """Those of `web` that have ended after that."""
    found = json.loads(site.vcrecovery("history", "--json").stdout)["outages"]
    return [o for o in found if o["service"] == WEB and (o["ended_at"] or 0.0) > since]


def file(site: SmallSite, name: str) -> Path:
    return site.rootfs(WEB) / name


def test_one_that_ends_is_started_again_and_no_hypervisor_is_powered_off(site: SmallSite) -> None:
    with site.watched() as said:
        wait_for(lambda: status(site, WEB)["health"] == "answers" and "watching" in said(), "the watcher")
        began = time.time()
        kill(site, WEB)
        wait_for(lambda: serves(site, WEB, 2), "its page")
        wait_for(lambda: outages(site, began), "the outage's end")
    assert site.fenced.read_text() == "hv1\n"
    assert epochs(site, DB) == [1]
    episode = site.episodes()[-1]
    assert (episode["service"], episode["request"]["symptom"]) == (WEB, "standby-ended")
    (fence,) = [step for step in episode["steps"] if step["step"] == "fence"]
    assert fence["evidence"]["by"] == "standby"
    (outage,) = outages(site, began)
    assert outage["ended_at"] < began + 60


def test_one_that_somebody_stops_is_left_alone(site: SmallSite) -> None:
    with site.watched() as said:
        wait_for(lambda: "watching" in said(), "the watcher")
        wait_for(lambda: status(site, WEB)["health"] == "answers", "its page")
        site.lxd.lxc("stop", "--force", WEB)
        wait_for(lambda: "web: the standby is to serve, and was stopped by root over unix" in said(), "its word")
        shown = site.vcrecovery("status", WEB)
        assert "its container is stopped: so wanted by root over unix at" in shown.stdout
        assert site.vcrecovery("status", "--check").returncode == 6
    # Nor by a watcher that begins now, although nobody tells that one.
    with site.watched() as said:
        wait_for(lambda: "web: the standby is to serve, and was stopped by root over unix" in said(), "its word")
        kill(site, DB)
        wait_for(lambda: serves(site, DB, 2), "the other one")
        assert epochs(site, WEB) == [1]
        assert site.instance(WEB).status == "Stopped"
        done = site.vcrecovery("failover", WEB, "--primary-is-down", WEB)
        assert done.returncode == 0, done.stderr
        assert site.page(WEB) == WEB
        kill(site, WEB)
        wait_for(lambda: serves(site, WEB, 3), "its page")
    assert "so wanted by" not in site.vcrecovery("status", WEB).stdout


@contextlib.contextmanager
def hanging_monitor(site: SmallSite, name: str) -> Iterator[None]:
    """LXD's own process beside the container hangs, as where it gets no time: LXD says "Error" of it then."""
    monitor = int(Path(f"/proc/{init_of(site, name)}/stat").read_text().rpartition(") ")[2].split()[1])
    assert b"[lxc monitor]" in Path(f"/proc/{monitor}/cmdline").read_bytes()
    stand_still(monitor)
    try:
        wait_for(lambda: site.instance(name).status == "Error", "LXD's word for it")
        yield
    finally:
        os.kill(monitor, signal.SIGCONT)


def test_one_of_which_lxd_cannot_tell_whether_it_runs_is_left_alone(site: SmallSite) -> None:
    with site.watched() as said:
        wait_for(lambda: status(site, WEB)["health"] == "answers" and "watching" in said(), "the watcher")
        init = init_of(site, WEB)
        with hanging_monitor(site, WEB):
            assert site.page(WEB) == WEB
            done = site.vcrecovery("failover", WEB)
            assert (done.returncode, done.stderr) == (0, ""), done.stdout
        wait_for(lambda: site.instance(WEB).status == "Running", "LXD's word for it")
    assert epochs(site, WEB) == [1]
    assert init_of(site, WEB) == init


def test_a_start_waits_until_lxd_can_tell(site: SmallSite) -> None:
    """Of one that a killed controller has just started, on a busy machine."""
    server = site.lxd.server
    init = init_of(site, WEB)
    with ThreadPoolExecutor() as pool:
        with hanging_monitor(site, WEB):
            start = pool.submit(server.start, WEB, 60)
            with pytest.raises(TimeoutError):
                start.result(timeout=8)  # it takes LXD 5 s to say so
        start.result(timeout=60)
    assert init_of(site, WEB) == init
    with hanging_monitor(site, WEB), pytest.raises(ExternalError, match="in Error status") as raised:
        server.start(WEB, 7)  # of which LXD takes 5 s to say so
    assert raised.value.hint == f"see `{site.lxd.client} info --show-log web`, then run it again"


def test_one_that_ends_each_time_is_given_up_with_its_last_words(site: SmallSite) -> None:
    with site.watched() as said:
        wait_for(lambda: status(site, WEB)["health"] == "answers" and "watching" in said(), "the watcher")
        file(site, "ill").touch()
        kill(site, WEB)
        wait_for(lambda: "given up after 5 tries" in said(), "its word", 300)
        assert "web: no space left on device" in said()
        # Once nobody is at work on it.
        wait_for(lambda: "web: no space left on device" in site.vcrecovery("status", WEB).stdout, "the reason")
        assert site.fenced.read_text() == "hv1\n"
        tried = said().count("waiting for its ports") + said().count("starting the standby")
        file(site, "ill").unlink()
        # Nothing without an operator, who mends it and calls.
        assert said().count("waiting for its ports") + said().count("starting the standby") == tried
        done = site.vcrecovery("failover", WEB)
        assert done.returncode == 0, (done.stdout, done.stderr)
        assert site.page(WEB) == WEB


def test_a_secondary_that_reboots_starts_those_first_that_others_need(site: SmallSite) -> None:
    with site.watched() as said:
        wait_for(lambda: status(site, WEB)["health"] == "answers" and "watching" in said(), "the watcher")
        site.lxd.lxd("shutdown", "--timeout", "60")
        wait_for(lambda: not site.lxd.runs, "the end of LXD")
        assert site.page(WEB) is None
        site.lxd.start()
        wait_for(lambda: site.page(WEB) == WEB and site.page(DB) == DB, "both")
        wait_for(lambda: status(site, WEB)["health"] == "answers", "its health")
        assert site.instance(DB).started_at < site.instance(WEB).started_at
        assert (epochs(site, DB), epochs(site, WEB)) == ([1], [1])
