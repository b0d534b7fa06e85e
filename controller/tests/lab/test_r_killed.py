"""The controller is killed with SIGKILL at every step of every verb that changes something; the next call goes on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from vcrecovery.recover.states import ServiceState, Side
from vcrecovery.sync.modes import SETTLED_KEY, settled
from vcrecovery.sync.standby import ROLE_KEY, STANDBY

from .killable_site import KILLED, MOST, KillableSite, crashing_vm, killable_site
from .waiting import wait_for

pytestmark = pytest.mark.lab

NAMES = ("a", "b")
#: LXD's word for each mode.
STATUS = {"hot": "Running", "frozen": "Frozen", "warm": "Running", "cold": "Stopped"}


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


def test_failover_of_several(site: KillableSite) -> None:
    turns = itertools.cycle((["--group", "all"], ["--host", "hv1"], ["--site", "main"]))
    site.write_plan(b={"needs": ["a"]})
    for name in site.names:
        site.lxd.server.start(name, timeout=60)
    boundaries = site.killed_everywhere(
        lambda: ["failover", *next(turns), "--force"], site.afresh, lambda: site.serves(*NAMES)
    )
    # Two services: opened, six steps with a beginning and an end, closed; LXD twice, DNS once; one fence for both.
    assert boundaries >= 2 * (1 + 6 * 2 + 1 + 2 + 1) + 1 + 1


def test_restore_points_and_a_failover_to_one(site: KillableSite) -> None:
    site.write_plan(b={"restore_points": {"keep": 2, "every": "1h"}})
    page = site.rootfs("b") / "www/index.html"

    def without() -> None:
        for name in site.lxd.server.snapshots("b"):
            site.lxd.server.delete_snapshot("b", name, 60)

    def one() -> None:
        (only,) = site.lxd.server.snapshots("b")
        assert only.startswith("vcr-")

    assert site.killed_everywhere(lambda: ["standby", "snapshot", "b"], without, one) > 2

    def corrupt() -> None:
        site.stop_standby("b")
        site.afresh()
        page.write_text("corrupt\n")

    words = ["failover", "b", "--restore-point", "latest", "--force"]
    assert site.killed_everywhere(lambda: words, corrupt, lambda: site.serves("b")) > 20
    without()


@pytest.mark.parametrize(
    ("one", "other"),
    # From hot and frozen to warm: they are stopped, and go on as from cold.
    [("cold", "hot"), ("cold", "frozen"), ("cold", "warm"), ("hot", "frozen")],
)
def test_every_change_of_mode(site: KillableSite, one: str, other: str) -> None:
    site.well("standby", "set", "b", one)
    for boundary in range(1, MOST):
        codes = set()
        for mode in (other, one):
            words = ("standby", "set", "b", mode)
            codes.add(site.run(*words, before=str(boundary)).returncode)
            site.well(*words)
            assert site.instance("b").status == STATUS[mode]
            assert (site.state / "modes/b").read_text() == f"{mode}\n"
            if boundary in (1, 3):
                site.changes_nothing(*words)
        assert codes <= {KILLED, 0}
        if codes == {0}:
            break
    assert boundary > 2
    assert site.instance("b").config[ROLE_KEY] == STANDBY
    site.well("standby", "set", "b", "plan")


def test_the_refresh_of_a_frozen_standby(site: KillableSite) -> None:
    words = ["standby", "set", "b", "frozen"]

    def due() -> None:
        site.well(*words)
        found = site.instance("b")
        level, _, boot = found.config[SETTLED_KEY].split(" ")
        site.lxd.server.configure(found, {SETTLED_KEY: f"{level} 1.0 {boot}"})

    def fresh() -> None:
        found = site.instance("b")
        known = settled(found)
        assert found.status == "Frozen"
        assert known is not None
        assert known.since > 1.0

    # Thawed, asked inside, noted, frozen.
    assert site.killed_everywhere(lambda: words, due, fresh) >= 5
    site.well("standby", "set", "b", "plan")


@pytest.mark.parametrize("until", ["done", "fenced"])
def test_standby_reset(site: KillableSite, until: str) -> None:
    def failed_over() -> None:
        site.stop_standby("b")
        site.afresh()
        if until == "done":
            site.well("failover", "b", "--force")
        else:
            # Opened, two of the confirmation, one of the fence, the fence itself.
            assert site.run("failover", "b", "--force", before="6").returncode == KILLED
        site.point_back()
        site.stop_standby("b")

    def stands_by() -> None:
        state = site.journal().state("b")
        assert (state.side, state.open_episode) == (Side.PRIMARY, None)
        found = site.instance("b")
        assert (found.status, found.config[ROLE_KEY], found.config["boot.autostart"]) == ("Stopped", STANDBY, "false")

    assert site.killed_everywhere(lambda: ["standby", "reset", "b"], failed_over, stands_by) >= 2


def test_words_about_protection(site: KillableSite) -> None:
    site.well("failover", "b", "--force")
    verbs: dict[tuple[str, ...], Callable[[ServiceState], bool]] = {
        ("acknowledge", "b"): lambda state: state.acknowledged_at is not None,
        ("pause", "b", "--for", "forever"): lambda state: state.pause is not None,
        ("resume", "b"): lambda state: state.pause is None,
    }
    for words, is_so in verbs.items():
        assert not is_so(site.journal().state("b"))
        assert site.run(*words, before="1").returncode == KILLED
        assert not is_so(site.journal().state("b"))
        assert site.run(*words, before="2").returncode == KILLED
        assert is_so(site.journal().state("b"))
        site.well(*words)
        assert is_so(site.journal().state("b"))


def test_the_watcher(site: KillableSite) -> None:
    with crashing_vm(site, "b") as vm:
        vm.crash()
        site.lxd.server.start("b", timeout=60)
        for boundary in range(1, MOST):
            site.afresh()
            site.end_primaries()
            site.journal().saw_running("b", 1.0)
            first = watched(site, boundary)
            site.never_two()
            # Whoever goes on.
            if boundary % 2:
                site.well("failover", "b")
            else:
                assert watched(site, MOST) == 0
            site.serves("b")
            if first == 0:
                break
            assert first == KILLED
        assert boundary > 1 + 6 * 2 + 1


def watched(site: KillableSite, boundary: int) -> int:
    """Lets a watcher go on until the failover is done, or it is killed; its exit status."""
    with site.watching(str(boundary)) as watcher:
        wait_for(lambda: watcher.says("watching 1 service") or watcher.ended, "the watcher", 100)
        wait_for(lambda: site.is_done("b") or watcher.ended, "the end of the failover", 100)
        return watcher.stop()
