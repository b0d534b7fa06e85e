"""The controller is killed with SIGKILL at every step of every verb that changes something; the next call goes on."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from .killable_site import KillableSite, killable_site

pytestmark = pytest.mark.lab

#: `b` needs `a`.
NAMES = ("a", "b")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KillableSite]:
    with killable_site(tmp_path_factory.mktemp("killed"), NAMES) as site:
        yield site


@pytest.fixture
def site(made: KillableSite) -> Iterator[KillableSite]:
    made.back()
    made.start_primaries()
    yield made
    made.end_primaries()


def serves(site: KillableSite) -> None:
    """Each standby serves by its name, after one failover."""
    for name in site.names:
        assert site.is_live(name)
        assert site.page(name) == name
        assert site.epoch(name) == ['"epoch=1"']
        assert not site.primary_serves(name)
    assert sorted((e["service"], e["epoch"], e["outcome"]) for e in site.episodes()) == [
        (name, 1, "done") for name in site.names
    ]


def test_failover_of_several(site: KillableSite) -> None:
    turns = itertools.cycle((["--group", "all"], ["--host", "hv1"], ["--site", "main"]))
    site.write_plan(b={"needs": ["a"]})
    for name in site.names:
        site.lxd.server.start(name, timeout=60)
    boundaries = site.killed_everywhere(
        lambda: ["failover", *next(turns), "--force"], site.afresh, lambda: serves(site)
    )
    # Two services: opened, six steps with a beginning and an end, closed; LXD twice, DNS once; one fence for both.
    assert boundaries >= 2 * (1 + 6 * 2 + 1 + 2 + 1) + 1 + 1
