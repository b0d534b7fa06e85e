"""A standby that serves is moved with its memory and its connections: two real LXDs, a real CRIU, one network."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from vcrecovery.errors import ExitCode

from .shared_network import Counting, SharedNetwork
from .small_site import started

pytestmark = pytest.mark.lab

WEB = "web"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedNetwork]:
    with started(SharedNetwork(tmp_path_factory.mktemp("memory"), [WEB])) as site:
        yield site


@pytest.fixture
def site(made: SharedNetwork) -> Iterator[SharedNetwork]:
    made.write_plan()
    done = made.vcrecovery("failover", WEB)
    assert done.returncode == 0, (done.stdout, done.stderr)
    yield made
    made.back()


@contextmanager
def counting(address: str) -> Iterator[list[float]]:
    """A client counts all the time, over one connection; the seconds that each answer took."""
    took: list[float] = []
    stop, failed = threading.Event(), list[BaseException]()

    def go_on() -> None:
        try:
            with closing(Counting(address)) as client:
                while not stop.wait(0.005):
                    before = time.monotonic()
                    client.ask()
                    took.append(time.monotonic() - before)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield took
    finally:
        stop.set()
        thread.join()
    assert not failed, failed


def moved(site: SharedNetwork, to: str, *words: str) -> str:
    done = site.vcrecovery("move", WEB, "--to", to, "--how", "stateful", *words)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout


def test_a_connection_survives_moves_there_and_back(site: SharedNetwork) -> None:
    with counting(site.address(WEB)) as took:
        dry = moved(site, "sec2", "--dry-run")
        assert "copy" in dry
        told = moved(site, "sec2")
        print(told)
        assert site.on_spare_status() == "Running"
        assert site.instance(WEB).status == "Stopped"
        assert "went on with its memory" in told
        assert ", stateful" in told
        print(moved(site, "sec1"))
        assert site.instance(WEB).status == "Running"
    print("longest", sorted(took)[-3:])
    assert len(took) > 100
    assert site.page(WEB) == WEB


def test_what_speaks_against_it_is_said_in_one_line(site: SharedNetwork) -> None:
    site.spare_lxd.lxc("project", "unset", "default", "user.vcrecovery.criu")
    try:
        refused = site.vcrecovery("move", WEB, "--to", "sec2", "--how", "stateful", "--dry-run")
    finally:
        site.spare_lxd.note_checkpoints()
    assert refused.returncode == ExitCode.REFUSED
    assert "secondary sec2 has no CRIU that was set up" in refused.stdout
    assert site.instance(WEB).status == "Running"
