"""The controller is killed with SIGKILL at every step of every verb that changes something; the next call goes on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from vcrecovery.core.episode import Step
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.standby.container import ACTIVE, ROLE_KEY, STANDBY
from vcrecovery.standby.modes import REFRESHED_KEY, refreshed
from vcrecovery.store.quarantines import QuarantineBook
from vcrecovery_lab.run import run

from .killable_site import (
    KILLED,
    MOST,
    VM_NAME,
    CrashingVm,
    KillableSite,
    Remembered,
    crashing_vm,
    killable_site,
)
from .netfilter import forget_the_chain
from .small_site import BRIDGE, GATEWAY, page_at
from .waiting import wait_for

pytestmark = pytest.mark.lab

NAMES = ("a", "b")
#: The changes of a failover to a restore point from the beginning of that step to the end of the next, the start.
#: Before are: opened, two of the confirmation, three of the fence.
AT_RESTORE = range(7, 17)
#: A watcher says it once it listens to signals.
WATCHES = "watching 1 service"
#: It follows a service, in the standbys' own network.
ADDRESS = f"{GATEWAY.rpartition('.')[0]}.200"
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
    # What comes before and after is as without one.
    for boundary, step, begun in ((AT_RESTORE[0], Step.RESTORE, False), (AT_RESTORE[-1], Step.START, True)):
        corrupt()
        assert site.run(*words, before=str(boundary)).returncode == KILLED
        episode = site.journal().state("b").open_episode
        assert episode is not None
        assert episode.done(Step.FENCE) is not None
        assert (episode.tried(step), episode.done(Step.PROBE)) == (begun, None)
    last = site.killed_everywhere(lambda: words, corrupt, lambda: site.serves("b"), only=AT_RESTORE)
    assert last == AT_RESTORE[-1]
    without()


@pytest.mark.parametrize(
    ("one", "other"),
    # From hot and frozen to warm: they are stopped, and go on as from cold. From cold to frozen goes by hot, and from
    # hot to cold is as from warm.
    [("cold", "frozen"), ("cold", "warm"), ("hot", "frozen")],
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
        level, _, boot = found.config[REFRESHED_KEY].split(" ")
        site.lxd.server.configure(found, {REFRESHED_KEY: f"{level} 1.0 {boot}"})

    def fresh() -> None:
        found = site.instance("b")
        known = refreshed(found)
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
        ("suspend", "b", "--for", "forever"): lambda state: state.suspension is not None,
        ("resume", "b"): lambda state: state.suspension is None,
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
            # Whoever goes on; a watcher takes longer.
            if boundary % 4:
                site.well("failover", "b")
            else:
                assert watched(site, MOST) == 0
            site.serves("b")
            if first == 0:
                break
            assert first == KILLED
        assert boundary > 1 + 6 * 2 + 1


def test_an_old_primary_that_comes_back(site: KillableSite) -> None:
    with crashing_vm(site, "b") as vm:
        site.end_primaries()
        vm.crash()
        site.lxd.server.start("b", timeout=60)
        site.well("failover", "b", "--force")
        vm.boot()
        vm.host.virsh("autostart", VM_NAME)
        held_at_every_change(site, vm)
        reset_at_every_change(site, vm)


def held_at_every_change(site: KillableSite, vm: CrashingVm) -> None:
    """It is held by the next watcher, and that is reported."""
    before, seen = Remembered(site), site.folder / "seen"
    seen.write_text("")

    def comes_back() -> None:
        before.recall()
        vm.host.virsh("autostart", VM_NAME)
        vm.resume()

    written = (QuarantineBook.begin.__qualname__, QuarantineBook.held.__qualname__)
    for change in (written[0], "virDomain.suspend", "virDomain.setAutostart", written[1]):
        while change not in seen.read_text().splitlines():
            comes_back()
            with site.watching(f"{seen}@journal,libvirt") as watcher:
                wait_for(lambda: watcher.ended, "the end of the first watcher", 100)
                assert watcher.stop() == KILLED
        with site.watching() as watcher:
            wait_for(lambda: watcher.says(WATCHES) and is_held(site, vm), "the hold", 100)
            assert watcher.stop() == 0
        assert "the old primary came back after its failover" in site.well("status", "b")
        assert not vm.autostart()


def is_held(site: KillableSite, vm: CrashingVm) -> bool:
    quarantine = QuarantineBook(site.journal()).open("b")
    return vm.paused() and quarantine is not None and quarantine.held_at is not None


def is_decided(site: KillableSite, vm: CrashingVm) -> bool:
    """Whether it is the primary that serves, or it is paused; or left alone, since its standby stands by again."""
    stands_by = site.instance("b").config[ROLE_KEY] == STANDBY
    return vm.paused() or stands_by or site.journal().state("b").side is Side.PRIMARY


def reset_at_every_change(site: KillableSite, vm: CrashingVm) -> None:
    """It runs, whoever comes first after the kill: the operator, or a watcher that holds it once more."""
    site.stop_standby("b")
    site.point_back()
    before = Remembered(site)
    for boundary in range(1, MOST):
        killed = site.run("standby", "reset", "b", before=f"{boundary}@lxd,journal,libvirt").returncode
        if boundary % 2:
            with site.watching() as watcher:
                wait_for(lambda: watcher.says(WATCHES) and is_decided(site, vm), "the watcher's act", 100)
                assert watcher.stop() == 0
        said = site.well("standby", "reset", "b")
        assert not vm.paused(), (boundary, said)
        state = site.journal().state("b")
        assert (state.side, state.open_episode, QuarantineBook(site.journal()).open("b")) == (Side.PRIMARY, None, None)
        assert site.instance("b").config[ROLE_KEY] == STANDBY
        assert "held" not in site.well("status", "b")
        if killed == 0:
            break
        assert killed == KILLED
        before.recall()
        vm.host.virsh("suspend", VM_NAME)
        site.lxd.server.configure(site.instance("b"), {ROLE_KEY: ACTIVE})
    # The container is a standby again; the VM is resumed; the end of the hold, and that the primary serves.
    assert boundary >= 2 + 1 + 2


@pytest.fixture
def address() -> Iterator[str]:
    """An address that moves."""
    yield ADDRESS
    run(["ip", "address", "del", f"{ADDRESS}/32", "dev", BRIDGE], timeout=30, check=False)
    forget_the_chain()


def test_a_virtual_address(site: KillableSite, address: str) -> None:
    site.write_plan(b={"virtual_ip": {"address": f"{address}/32", "interface": BRIDGE}})
    site.afresh()
    changes = site.killed_ever_further("failover", "b", "--force", kinds="commands")
    assert len([change for change in changes if change.startswith("iptables")]) == 4, changes
    site.serves("b")
    assert page_at(address) == "b"
    assert (places_of(address), rules_for(address)) == (1, 1)

    # The watcher takes it once more, after a restart of this machine.
    run(["ip", "address", "del", f"{address}/32", "dev", BRIDGE], timeout=30)
    forget_the_chain()
    changes = watchers_killed_ever_further(site, until="the end of ip -j address add")
    assert len(changes) == 2 * 5, changes
    assert page_at(address) == "b"
    assert (places_of(address), rules_for(address)) == (1, 1)

    site.stop_standby("b")
    site.point_back()
    changes = site.killed_ever_further("standby", "reset", "b", kinds="commands,lxd,journal")
    assert len([change for change in changes if " del " in change or " -D " in change]) == 4, changes
    assert (places_of(address), rules_for(address)) == (0, 0)
    assert "nothing to do" in site.well("standby", "reset", "b")


def watchers_killed_ever_further(site: KillableSite, until: str) -> list[str]:
    """One after the other, each killed before another command, the last before one that begins with `until`."""
    seen = site.folder / "seen"
    seen.write_text("")
    while until not in seen.read_text():
        with site.watching(f"{seen}@commands") as watcher:
            wait_for(lambda: watcher.ended, "the end of the watcher", 100)
            assert watcher.stop() == KILLED
    return seen.read_text().splitlines()


def places_of(address: str) -> int:
    return run(["ip", "-4", "address", "show"], timeout=30).stdout.count(f"inet {address}/")


def rules_for(address: str) -> int:
    return run(["iptables", "-w", "5", "-t", "nat", "-S"], timeout=30).stdout.count(f"-d {address}/")


def watched(site: KillableSite, boundary: int) -> int:
    """Lets a watcher go on until the failover is done, or it is killed; its exit status."""
    with site.watching(str(boundary)) as watcher:
        wait_for(lambda: watcher.says(WATCHES) or watcher.ended, "the watcher", 100)
        wait_for(lambda: site.is_done("b") or watcher.ended, "the end of the failover", 100)
        return watcher.stop()
