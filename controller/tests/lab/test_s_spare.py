"""A standby that serves is copied to its spare, moved there and back, and failed over to it. Two real LXDs, a BIND."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest

from vcrecovery.core.episode import Step
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd.copies import INCOMPLETE_KEY
from vcrecovery.errors import ExitCode
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.spare_loop import see_to
from vcrecovery.plan.load import load_plan
from vcrecovery.standby.container import EPOCH_KEY, ROLE_KEY
from vcrecovery.standby.copies import PAUSED_KEY

from .moving_site import begun_move
from .small_site import INIT, SERVE, ZONE
from .two_secondaries import SPARE_BRIDGE, TwoSecondaries, two_secondaries
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
    dry = site.vcrecovery("move", WEB, "--to", "sec2", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert [line.split()[0] for line in dry.stdout.splitlines()[3:6]] == ["copy", "stop", "last"]
    assert site.on_spare(WEB) is None
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
        site.lxd.lose_power()
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


def test_one_that_a_copy_has_left_frozen_is_thawed(site: TwoSecondaries) -> None:
    """As an LXD that ends in the last moments of one leaves it; and one that somebody freezes is left alone."""
    with site.watched() as said:
        wait_for(lambda: "web: copied to sec2" in said(), "the copy")
        assert "frozen" not in said()
        site.lxd.server.reconfigure(lambda: site.instance(WEB), lambda _found: {PAUSED_KEY: "true"})
        site.lxd.lxc("pause", WEB)
        wait_for(lambda: "had left it frozen: thawed" in said(), "its word")
        assert site.instance(WEB).status == "Running"
        site.lxd.server.reconfigure(lambda: site.instance(WEB), lambda _found: {PAUSED_KEY: ""})
        site.lxd.lxc("pause", WEB)
        wait_for(lambda: "web: the standby is to serve, and was frozen by root over unix" in said(), "its word")
    site.lxd.lxc("start", WEB)


def test_a_check_finds_an_lxd_that_no_other_one_could_fetch_from(site: TwoSecondaries) -> None:
    address = site.lxd.lxc("config", "get", "core.https_address").strip()
    assert "does not listen on the network" not in site.vcrecovery("plan", "check", "--online").stdout
    site.lxd.lxc("config", "unset", "core.https_address")
    try:
        checked = site.vcrecovery("plan", "check", "--online")
        assert (
            f"secondaries.sec1: {site.lxd.software.product} on secondary sec1 does not listen on the network"
            in checked.stdout + checked.stderr
        )
    finally:
        site.lxd.lxc("config", "set", "core.https_address", address)


# -- a secondary that has failed ---------------------------------------------------------------------------------------


@pytest.fixture
def copied(site: TwoSecondaries) -> TwoSecondaries:
    write(site, "copied")
    see_to(Environment(load_plan(site.plan), SystemClock()), WEB)
    return site


def test_without_a_fence_command_it_takes_the_operators_word(copied: TwoSecondaries) -> None:
    site = copied
    site.has_fence = False
    try:
        site.write_plan()
        with site.watched() as said:
            site.lxd.lose_power()
            hint = "once sec1 is off for certain: `vcrecovery failover web --to sec2 --secondary-is-down sec1`"
            wait_for(lambda: hint in said(), "what to do", 60)
            refused = site.vcrecovery("failover", WEB, "--to", "sec2")
            assert refused.returncode == ExitCode.EXTERNAL
            assert "nobody knows whether web still serves on sec1" in refused.stderr
            assert hint in refused.stderr
            assert site.on_spare_status() == "Stopped"
            wrong = site.vcrecovery("failover", WEB, "--to", "sec2", "--secondary-is-down", "sec2")
            assert (wrong.returncode, "type sec1" in wrong.stderr) == (ExitCode.USAGE, True)
            done = site.vcrecovery("failover", WEB, "--to", "sec2", "--secondary-is-down", "sec1")
            assert done.returncode == 0, (done.stdout, done.stderr)
            assert site.page(WEB) == "copied"
        # It was not off for certain: what runs there is stopped as soon as its LXD answers. A watcher that came before
        # would make a copy of what it finds stopped.
        site.lxd.start()
        site.lxd.server.start(WEB, 60)
        with site.watched() as said:
            wait_for(lambda: site.instance(WEB).status == "Stopped", "the end of the one that was left", 60)
            wait_for(lambda: "web: its container on sec1 ran" in said(), "its word")
        assert site.pages(WEB) == (None, "copied")
    finally:
        site.has_fence = True


def test_a_copy_that_is_too_old_or_cut_off_is_started_by_force_only(copied: TwoSecondaries) -> None:
    site = copied
    site.write_plan(**{WEB: {"max_staleness": "1ms"}})
    site.lxd.server.stop(WEB, 60)
    refused = site.vcrecovery("failover", WEB, "--to", "sec2")
    assert refused.returncode == ExitCode.REFUSED
    assert "its copy on sec2 is" in refused.stderr
    assert "`--force` starts it" in refused.stderr
    site.write_plan()
    spare = site.spare_lxd.server
    spare.reconfigure(lambda: site.on_spare(WEB) or site.instance(WEB), lambda _found: {INCOMPLETE_KEY: "true"})
    cut = site.vcrecovery("failover", WEB, "--to", "sec2")
    assert (cut.returncode, "may be a mixture" in cut.stderr) == (ExitCode.REFUSED, True)
    done = site.vcrecovery("failover", WEB, "--to", "sec2", "--force")
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert site.page(WEB) == "copied"


def test_a_copy_that_somebody_starts_by_hand_is_said(copied: TwoSecondaries) -> None:
    copied.spare_lxd.lxc("start", WEB)
    try:
        checked = copied.vcrecovery("status", "--check")
        assert checked.returncode == ExitCode.ATTENTION, checked.stdout
        assert "web: its copy on sec2 runs beside the standby that serves" in checked.stdout
        assert "`lxc stop web` there" in checked.stdout
        assert "unprotected: its copy on sec2: it runs" in copied.vcrecovery("status", WEB).stdout
    finally:
        copied.spare_lxd.lxc("stop", "--force", WEB)
    assert "its copy on sec2 is" in copied.vcrecovery("status", WEB).stdout


def test_one_that_serves_is_not_failed_over_but_moved(copied: TwoSecondaries) -> None:
    refused = copied.vcrecovery("failover", WEB, "--to", "sec2")
    assert refused.returncode == ExitCode.REFUSED
    assert "`vcrecovery move web --to sec2` moves it, and loses nothing" in refused.stderr
    assert copied.pages(WEB) == ("copied", None)
    for words in (("move", WEB, "--to", "sec3"), ("failover", WEB, "--to", "sec3")):
        wrong = copied.vcrecovery(*words)
        assert (wrong.returncode, "has no secondary 'sec3'" in wrong.stderr) == (ExitCode.USAGE, True), wrong.stderr


def test_the_operator_returns_to_the_vm_by_hand(copied: TwoSecondaries) -> None:
    site = copied
    done = site.vcrecovery("move", WEB, "--to", "sec2")
    assert done.returncode == 0, (done.stdout, done.stderr)
    site.ns1.change(f"update delete {WEB}.{ZONE} A", f"update add {WEB}.{ZONE} 5 A {site.primary(WEB)}")
    refused = site.vcrecovery("standby", "reset", WEB)
    assert (refused.returncode, "runs on secondary sec2" in refused.stderr) == (ExitCode.REFUSED, True)
    site.spare_lxd.lxc("stop", "--force", WEB)
    reset = site.vcrecovery("standby", "reset", WEB)
    assert reset.returncode == 0, reset.stderr
    assert (role(site, spare=False), role(site, spare=True)) == ("standby", "spare")
    assert site.status_of(WEB)["secondary"] == "sec1"


# -- a move that fails -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [Step.COPY, Step.LAST_COPY])
def test_the_destination_dies_while_it_copies(site: TwoSecondaries, step: Step) -> None:
    large(site, 200)
    moving = begun_move(site, WEB, step)
    site.spare_lxd.kill()
    failed = moving.result(120)
    assert failed.returncode != 0, failed.stdout
    assert site.page(WEB) == WEB
    assert site.instance(WEB).status == "Running"
    site.spare_lxd.start()
    done = site.vcrecovery("move", WEB, "--to", "sec2")
    if done.returncode == ExitCode.EXTERNAL:
        # It was not over: the dead one might have been started.
        done = site.vcrecovery("move", WEB, "--to", "sec2")
    assert done.returncode == 0, (failed.stderr, done.stdout, done.stderr)
    assert site.pages(WEB) == (None, WEB)


@pytest.mark.parametrize("knows_the_volume", [False, True])
def test_a_destination_that_died_while_it_made_the_container(site: TwoSecondaries, knows_the_volume: bool) -> None:
    """LXD knows a container then that has no volume, or no folder for it, and can do nothing with it."""
    moved = site.vcrecovery("move", WEB, "--to", "sec2")
    assert moved.returncode == 0, moved.stderr
    site.vcrecovery("move", WEB, "--to", "sec1")
    # One that was whole is not made anew: its pool may be away for a while only.
    site.spare_lxd.lxc("config", "set", WEB, f"{INCOMPLETE_KEY}=true")
    shutil.rmtree(site.spare_lxd.folder / "storage-pools" / SPARE_BRIDGE / "containers" / WEB)
    if knows_the_volume:
        (site.spare_lxd.folder / "containers" / WEB).unlink()
    else:
        site.spare_lxd.sql(f"DELETE FROM storage_volumes WHERE name = '{WEB}'")  # noqa: S608  our own
    done = site.vcrecovery("move", WEB, "--to", "sec2")
    assert done.returncode == 0, done.stderr
    assert site.pages(WEB) == (None, WEB)


def test_ports_that_do_not_open_there(site: TwoSecondaries) -> None:
    """It serves again where it was, with what was written; nothing was written there."""
    site.write_plan(**{WEB: {"timeouts": {"ports": "3s"}}})
    refuses = f"/bin/busybox ip route | /bin/busybox grep -q {site.spare_address(WEB)[:9]} || {SERVE}"
    inner = site.rootfs(WEB) / "sbin/init"
    inner.write_text(INIT.format(serve=refuses))
    write(site, "written")
    back = site.vcrecovery("move", WEB, "--to", "sec2")
    assert back.returncode == ExitCode.EXTERNAL, (back.stdout, back.stderr)
    assert "web serves where it was" in back.stderr
    assert site.pages(WEB) == ("written", None)
    assert site.page(WEB) == "written"
    assert (role(site, spare=False), role(site, spare=True)) == ("active", "spare")
    assert site.status_of(WEB)["secondary"] == "sec1"


def large(site: TwoSecondaries, megabytes: int) -> None:
    """So that a copy takes a while."""
    (site.rootfs(WEB) / "www/large").write_bytes(os.urandom(megabytes << 20))
