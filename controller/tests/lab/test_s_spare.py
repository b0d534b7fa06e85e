"""A standby that serves is copied to its spare, moved there and back, and failed over to it. Two real LXDs, a BIND."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vcrecovery.errors import ExitCode
from vcrecovery.standby.container import EPOCH_KEY, ROLE_KEY

from .two_secondaries import TwoSecondaries, two_secondaries
from .waiting import wait_for

pytestmark = pytest.mark.lab

WEB = "web"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoSecondaries]:
    with two_secondaries(tmp_path_factory.mktemp("spare"), [WEB]) as site:
        yield site


@pytest.fixture
def site(made: TwoSecondaries) -> Iterator[TwoSecondaries]:
    """The hypervisor has failed; the standby serves."""
    made.write_plan()
    done = made.vcrecovery("failover", WEB)
    assert done.returncode == 0, (done.stdout, done.stderr)
    yield made
    made.back()


def write(site: TwoSecondaries, text: str) -> None:
    """Into the page, as a client's write changes what a service keeps."""
    site.lxd.lxc("exec", WEB, "--", "/bin/busybox", "sh", "-c", f"echo {text} > /www/index.html")


def role(site: TwoSecondaries, *, spare: bool) -> str:
    found = site.on_spare(WEB) if spare else site.instance(WEB)
    assert found is not None
    return found.config[ROLE_KEY]


def test_a_move_there_and_back_loses_nothing(site: TwoSecondaries) -> None:
    write(site, "written")
    moved = site.vcrecovery("move", WEB, "--to", "sec2")
    assert moved.returncode == 0, (moved.stdout, moved.stderr)
    assert "web: served by its standby on sec2" in moved.stdout
    assert site.pages(WEB) == (None, "written")
    assert site.page(WEB) == "written"
    assert (role(site, spare=False), role(site, spare=True)) == ("spare", "active")
    status = site.status_of(WEB)
    assert (status["secondary"], status["serves"], status["spare"]["secondary"]) == ("sec2", "standby", "sec1")
    again = site.vcrecovery("move", WEB, "--to", "sec2")
    assert again.returncode == 0, again.stderr
    assert again.stdout == "web: nothing to do: its standby serves on sec2 since epoch 2\n"
    refused = site.vcrecovery("failback", WEB)
    assert refused.returncode == ExitCode.REFUSED
    assert "`vcrecovery move web --to sec1` first" in refused.stderr
    site.spare_lxd.lxc("exec", WEB, "--", "/bin/busybox", "sh", "-c", "echo later > /www/index.html")
    home = site.vcrecovery("move", WEB, "--to", "sec1")
    assert home.returncode == 0, (home.stdout, home.stderr)
    assert site.pages(WEB) == ("later", None)
    assert site.page(WEB) == "later"
    assert (role(site, spare=False), role(site, spare=True)) == ("active", "spare")
    verbs = [(entry["request"].get("to"), entry["outcome"]) for entry in site.episodes()]
    assert verbs == [(None, "done"), ("sec2", "done"), ("sec1", "done")]
    assert int(site.instance(WEB).config[EPOCH_KEY]) == 3


def test_the_watcher_copies_it_and_its_secondary_fails(site: TwoSecondaries) -> None:
    """Whatever was written up to the last refresh is there; the fence command is run once."""
    write(site, "copied")
    with site.watched() as said:
        wait_for(lambda: "web: copied to sec2" in said(), "the copy", 120)
        status = site.vcrecovery("status", WEB)
        assert "its copy on sec2 is" in status.stdout, status.stdout
        assert "unprotected" not in status.stdout
        site.lxd.kill()
        # Of a machine without power nothing answers: the LXD that was killed leaves its containers alive.
        stop_at_home(site)
        wait_for(lambda: site.page(WEB) == "copied", "its page on the spare", 120)
        wait_for(lambda: "done: web is served by its standby on sec2" in said(), "the end", 60)
        assert site.ended.read_text() == "sec1\n"
        assert site.status_of(WEB)["secondary"] == "sec2"
        # It comes back: nothing starts there, and it is the spare from then on.
        site.lxd.start()
        wait_for(lambda: "web: copied to sec1" in said(), "the copy the other way", 120)
    assert (role(site, spare=False), role(site, spare=True)) == ("spare", "active")
    home = site.vcrecovery("move", WEB, "--to", "sec1")
    assert home.returncode == 0, (home.stdout, home.stderr)
    assert site.pages(WEB) == ("copied", None)


def stop_at_home(site: TwoSecondaries) -> None:
    site.lxd.start()
    site.lxd.stop_all()
    site.lxd.kill()
