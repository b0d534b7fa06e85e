"""A host fails with all its fifty services: they come up side by side, no more at once than the secondary can take."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from vcrecovery.errors import ExitCode
from vcrecovery.operations.host_fence import PROVEN_FOR
from vcrecovery.operations.start_conditions import starts_at_once

from .small_site import SERVE, SmallSite, small_site

pytestmark = pytest.mark.lab

log = logging.getLogger(__name__)

COUNT = 50
NAMES = [f"svc{number:02d}" for number in range(COUNT)]
#: `BROKEN` runs, but serves nothing; `IN_VAIN` needs it. `BEHIND` needs `BEFORE`, which is well.
BROKEN, IN_VAIN, BEFORE, BEHIND = NAMES[3], NAMES[4], NAMES[5], NAMES[6]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallSite]:
    with small_site(tmp_path_factory.mktemp("host"), NAMES) as site:
        changes: dict[str, dict[str, Any]] = {
            BROKEN: {"timeouts": {"ports": "5s"}},
            IN_VAIN: {"needs": [BROKEN]},
            BEHIND: {"needs": [BEFORE]},
        }
        site.write_plan(**changes)
        yield site


def steps(site: SmallSite) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Service -> step -> its last record."""
    return {e["service"]: {step["step"]: step for step in e["steps"]} for e in site.episodes()}


def most_at_once(found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> int:
    """How many were between the start of their standby and its open ports at the same time."""
    changes = []
    for of_service in found.values():
        if "probe" in of_service:
            changes.append((of_service["start"]["begun_at"], 1))
            changes.append((of_service["probe"]["ended_at"], -1))
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


def test_fifty_services_of_a_failed_host(site: SmallSite) -> None:
    site.fill(BROKEN, serve="")
    for name in NAMES:
        site.stamp(name)
    begun = time.monotonic()
    done = site.vcrecovery("failover", "--host", "hv1", "--json")
    took = time.monotonic() - begun
    assert done.returncode == ExitCode.EXTERNAL, (done.stdout, done.stderr)
    results = {entry["service"]: entry for entry in json.loads(done.stdout)["services"]}
    assert list(results) == NAMES
    assert "does not answer after 5 s" in results[BROKEN]["reason"]
    assert results[IN_VAIN]["result"] == "not started"
    assert f"needs {BROKEN}, which is not up" in results[IN_VAIN]["reason"]
    assert f"2 of {COUNT} services are not served by their standbys: {BROKEN}, {IN_VAIN}" in done.stderr
    well = [name for name in NAMES if name not in (BROKEN, IN_VAIN)]
    assert {results[name]["result"] for name in well} == {"done"}
    # From outside: by its name, each answers as itself.
    assert {name: site.page(name) for name in well} == {name: name for name in well}
    assert [site.address_in_dns(name) for name in (BROKEN, IN_VAIN)] == [[site.primary(n)] for n in (BROKEN, IN_VAIN)]
    assert site.instance(IN_VAIN).status == "Stopped"
    # The host was ended once for all of them, before the first standby was started; and on a slow machine once more for
    # those whose turn comes when that does not count any more.
    found = steps(site)
    assert 1 <= site.fenced.read_text().count("hv1\n") <= 1 + took // PROVEN_FOR
    assert all(s["fence"]["ended_at"] <= s["start"]["begun_at"] for s in found.values() if "start" in s)
    size = site.lxd.server.size()
    limit = starts_at_once(size.cores, size.memory)
    assert min(2, limit) <= most_at_once(found) <= limit
    assert found[BEHIND]["start"]["begun_at"] >= found[BEFORE]["probe"]["ended_at"]
    log.info("%d services, %d at once: %.1f s", COUNT, limit, took)

    # Once it is mended, the same call does what is left, and nothing else.
    started = {name: site.instance(name).started_at for name in well}
    serial = site.serial()
    site.lxd.lxc("exec", BROKEN, "--", "/bin/busybox", *SERVE.split()[1:])
    again = site.vcrecovery("failover", "--host", "hv1", "--json")
    assert again.returncode == 0, (again.stdout, again.stderr)
    results = {entry["service"]: entry["result"] for entry in json.loads(again.stdout)["services"]}
    assert results == dict.fromkeys(well, "nothing to do") | {BROKEN: "done", IN_VAIN: "done"}
    assert {name: site.instance(name).started_at for name in well} == started
    assert site.serial() == serial + 2
    assert (site.page(BROKEN), site.page(IN_VAIN)) == (BROKEN, IN_VAIN)

    # And a third time there is nothing to do.
    serial, history = site.serial(), site.episodes()
    third = site.vcrecovery("failover", "--host", "hv1")
    assert third.returncode == 0, third.stderr
    assert third.stdout.count("nothing to do") == COUNT
    assert (site.serial(), site.episodes()) == (serial, history)
    assert {entry["epoch"] for entry in history} == {1}
    assert {entry["outcome"] for entry in history} == {"done"}
