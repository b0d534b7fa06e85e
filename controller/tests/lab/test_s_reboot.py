"""Hypervisors that lose their power or are rebooted, VMs that a full disk pauses, and VMs that are migrated.

Two real libvirtds with real QEMUs; no port of the primary is ever open, so libvirt's word is what counts.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import pytest

from vcrecovery.errors import ExitCode
from vcrecovery.store.journal import Journal
from vcrecovery_lab import domain
from vcrecovery_lab.private_libvirt import PrivateLibvirt
from vcrecovery_lab.run import run

from .small_site import SmallSite, small_site
from .waiting import wait_for

pytestmark = pytest.mark.lab

WEB = "web"
VM, UUID = "vcrlab-vm", "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e6002"
#: For a slow machine that is busy.
PATIENCE = 120.0
#: A boot sector that writes to the first hard disk, 32 KiB at a time, each where nothing was before.
WRITES = bytes.fromhex("31c0 8ec0 bb007c b90100 b83f03 ba8000 cd13 fec5 ebf4")


@dataclass
class Place:
    site: SmallSite
    hv1: PrivateLibvirt
    hv2: PrivateLibvirt

    def plan(self, *, both: bool = False, **detection: Any) -> None:
        primary = {"hypervisor": "hv1", "uuid": UUID}
        address = self.site.data["services"][WEB]["primary"]["address"]
        self.site.write_plan(web={"primary": {**primary, "address": address}})
        hosts = {"hv1": self.hv1, "hv2": self.hv2} if both else {"hv1": self.hv1}
        self.site.data["hypervisors"] = {name: {"uri": libvirt.uri} for name, libvirt in hosts.items()}
        # The VMs do nothing, and what silence means is not what most of these tests are about.
        self.site.data["detection"] = {"cpu_zero_for": "1h", "cpu_high_for": "1h", "host_silent_for": "1h"} | detection
        self.site.save_plan()
        self.site.stamp(WEB)

    def outcomes(self) -> list[str]:
        return [entry["outcome"] for entry in self.site.episodes()]

    def served_by_standby(self) -> bool:
        return self.site.page(WEB) == WEB


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    hv1, hv2 = PrivateLibvirt(), PrivateLibvirt()
    try:
        hv1.start()
        hv2.start()
        with small_site(tmp_path_factory.mktemp("reboot"), [WEB]) as site:
            yield Place(site, hv1, hv2)
    finally:
        hv1.close()
        hv2.close()


@pytest.fixture
def place(made: Place) -> Iterator[Place]:
    made.plan()
    try:
        yield made
    finally:
        for libvirt in (made.hv1, made.hv2):
            if not libvirt.answers():
                libvirt.start()
            libvirt.forget(VM)
        made.site.back()


@contextlib.contextmanager
def watched(place: Place, until: str = "web: the primary is running") -> Iterator[Callable[[], str]]:
    with place.site.watched() as said:
        wait_until_said(said, until)
        yield said


def wait_until_said(said: Callable[[], str], *words: str) -> None:
    try:
        wait_for(lambda: all(word in said() for word in words), " and ".join(words), PATIENCE)
    except AssertionError as error:
        raise AssertionError(f"{error}:\n{said()[-3000:]}") from None


# -- a hypervisor that was off -------------------------------------------------------------------------------------


def test_a_hypervisor_that_lost_its_power_and_is_back_has_lost_its_vm(place: Place) -> None:
    """Nothing could be fenced while it was silent; once it is back, its VM is proved off without a fence command."""
    place.plan(host_silent_for="2s")
    place.hv1.make(VM, UUID)
    with watched(place) as said:
        place.hv1.lose_power()
        wait_until_said(said, "no failover: web cannot be fenced")
        place.hv1.start()
        wait_until_said(said, "libvirt: shutoff, and no shutdown was seen", "done: web is served by its standby")
    assert place.served_by_standby()
    assert place.outcomes()[-1] == "done"
    assert "refused" in place.outcomes()


def test_it_has_also_when_the_controller_was_away_meanwhile(place: Place) -> None:
    place.hv1.make(VM, UUID)
    with watched(place):
        pass
    place.hv1.lose_power()
    place.hv1.start()
    with place.site.watched() as said:
        wait_until_said(said, "done: web is served by its standby")
    assert place.served_by_standby()


def test_a_vm_that_was_stopped_before_an_orderly_reboot_stays_off(place: Place) -> None:
    """libvirt has forgotten why it is off; the journal has not."""
    place.plan(host_silent_for="2s")
    place.hv1.make(VM, UUID)
    with watched(place) as said:
        place.hv1.virsh("destroy", VM)
        wait_until_said(said, "the primary is shutoff (destroyed): requested shutdown, no failure")
        place.hv1.lose_power()
        wait_until_said(said, "its hypervisor does not answer; it was stopped on request before, no failure")
        place.hv1.start()
        wait_until_said(said, "the primary is shutoff: it was stopped on request before, no failure")
    with place.site.watched() as said:
        wait_until_said(said, "the primary is shutoff: it was stopped on request before, no failure")
    assert place.outcomes() == []


def test_a_vm_with_autostart_is_waited_for(place: Place) -> None:
    place.hv1.make(VM, UUID)
    place.hv1.virsh("autostart", VM)
    with watched(place) as said:
        place.hv1.lose_power()
        wait_until_said(said, "connection to hypervisor hv1 lost")
        place.hv1.start()
        wait_for(lambda: place.hv1.virsh("domstate", VM).strip() == "running", "the VM's autostart", PATIENCE)
        wait_for(lambda: said().count("web: the primary is running") > 1, "the watcher's look", PATIENCE)
    assert place.outcomes() == []


def test_a_vm_whose_autostart_does_not_come_has_failed(place: Place) -> None:
    """As when libvirtd is restarted on a host that has started its VMs already."""
    place.plan(autostart_within="5s")
    place.hv1.make(VM, UUID)
    place.hv1.virsh("autostart", VM)
    with watched(place) as said:
        place.hv1.lose_power()
        # libvirt starts them once after each boot, and leaves this mark for that.
        state = place.hv1.pid_files
        state.mkdir(parents=True)
        (state / "autostarted").touch()
        for folder in (state.parent, state):
            shutil.chown(folder, "nobody", "nogroup")
        place.hv1.start()
        wait_until_said(said, "its hypervisor is back and starts it (autostart)")
        wait_until_said(said, "libvirt: shutoff, and no shutdown was seen", "done: web is served by its standby")
    assert place.served_by_standby()


# -- a VM that was paused by a fault ---------------------------------------------------------------------------------


@contextlib.contextmanager
def small_disk(libvirt: PrivateLibvirt) -> Iterator[Path]:
    """A file system of 1 MiB with a disk image in it that promises more."""
    folder = libvirt.folder / "small"
    folder.mkdir()
    run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0777", "vcrlab-small", folder], timeout=30)
    try:
        image = folder / "disk.img"
        with image.open("wb") as file:
            file.truncate(64 * 2**20)
        shutil.chown(image, "nobody", "nogroup")
        yield image
    finally:
        run(["umount", "--lazy", folder], timeout=30)
        folder.rmdir()


def writing_domain(libvirt: PrivateLibvirt, image: Path) -> str:
    floppy = libvirt.folder / "writes.img"
    floppy.write_bytes(domain.boot_sector(WRITES))
    shutil.chown(floppy, "nobody", "nogroup")
    disk = (
        f"<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file={quoteattr(str(image))}/>"
        "<target dev='hda' bus='ide'/></disk></devices>"
    )
    return domain.boot_sector_domain(VM, UUID, floppy).replace("</devices>", disk)


def test_a_vm_that_a_full_disk_of_its_host_pauses_has_failed(place: Place) -> None:
    place.plan(stalled_for="3s")
    with small_disk(place.hv1) as image:
        place.hv1.define(writing_domain(place.hv1, image))
        # What was paused before anybody saw it run is no failure.
        with watched(place, "hv1: connected, reading every VM's state") as said:
            place.hv1.virsh("start", VM)
            wait_until_said(said, "the primary is paused (I/O error): it has failed unless it is resumed within 3 s")
            wait_until_said(said, "libvirt: paused (I/O error) for 3 s, and it was not resumed")
            wait_until_said(said, "done: web is served by its standby")
        assert place.hv1.virsh("domstate", VM).strip() == "shut off"
        place.hv1.forget(VM)
    assert place.served_by_standby()


def test_a_vm_that_is_resumed_in_time_has_not(place: Place) -> None:
    place.plan(stalled_for="10m")
    with small_disk(place.hv1) as image:
        place.hv1.define(writing_domain(place.hv1, image))
        # What was paused before anybody saw it run is no failure.
        with watched(place, "hv1: connected, reading every VM's state") as said:
            place.hv1.virsh("start", VM)
            wait_until_said(said, "the primary is paused (I/O error)")
            status = place.site.vcrecovery("status", "--check")
            assert status.returncode == ExitCode.ATTENTION
            assert "clear the fault, then `virsh resume" in status.stdout
            run(["mount", "-o", "remount,size=128m", image.parent], timeout=30)
            place.hv1.virsh("resume", VM)
            wait_until_said(said, "web: the primary is running")
        place.hv1.forget(VM)
    assert place.outcomes() == []


# -- a VM that is migrated -------------------------------------------------------------------------------------------


def test_a_migrated_vm_is_followed_fenced_and_held_where_it_is(place: Place) -> None:
    place.plan(both=True)
    place.hv1.make(VM, UUID)
    with watched(place) as said:
        place.hv1.migrate(VM, place.hv2)
        wait_for(lambda: last_host(place) == "hv2", "the journal's word for it", PATIENCE)
        assert "on hv2" in place.site.vcrecovery("status", WEB).stdout
        assert place.outcomes() == []
        # An operator's own stop there is no failure either.
        place.hv2.virsh("destroy", VM)
        wait_until_said(said, "the primary is shutoff (destroyed): requested shutdown, no failure")
        place.hv2.virsh("start", VM)
        wait_for(lambda: said().count("web: the primary is running") > 1, "its return", PATIENCE)
        os.kill(place.hv2.qemu(VM), signal.SIGKILL)
        wait_until_said(said, "libvirt: shutoff (crashed)", "done: web is served by its standby")
        assert "fenced after" in said()
        assert "hv2: shutoff (crashed)" in said()
        # It comes back where it was, and is paused there.
        place.hv2.virsh("start", VM)
        wait_for(lambda: place.hv2.virsh("domstate", VM).strip() == "paused", "the quarantine", PATIENCE)
        wait_until_said(said, "is quarantined (paused) on hv2")
    assert place.served_by_standby()


def test_one_that_hangs_on_its_new_hypervisor_is_destroyed_there(place: Place) -> None:
    place.plan(both=True)
    place.hv1.make(VM, UUID)
    with watched(place):
        place.hv1.migrate(VM, place.hv2)
        wait_for(lambda: last_host(place) == "hv2", "the journal's word for it", PATIENCE)
    qemu = place.hv2.qemu(VM)
    done = place.site.vcrecovery("failover", WEB)
    assert done.returncode == 0, done.stderr
    assert not Path(f"/proc/{qemu}").exists() or "Z" in Path(f"/proc/{qemu}/stat").read_text()
    assert place.hv2.virsh("domstate", VM).strip() == "shut off"
    assert place.served_by_standby()


def test_a_migration_that_nobody_watched_is_found_by_whoever_looks(place: Place) -> None:
    """The journal, if it knows anything, still has the old place."""
    place.plan(both=True)
    place.hv1.make(VM, UUID)
    with watched(place):
        pass
    place.hv1.migrate(VM, place.hv2)
    assert "on hv2" in place.site.vcrecovery("status", WEB).stdout
    assert place.site.vcrecovery("plan", "check", "--online").stderr.count("knows") == 0
    done = place.site.vcrecovery("failover", WEB)
    assert done.returncode == 0, done.stderr
    assert place.hv2.virsh("domstate", VM).strip() == "shut off"


def test_a_vm_on_two_hypervisors_is_ended_on_both(place: Place) -> None:
    """As a migration leaves it that broke at the wrong moment."""
    place.plan(both=True)
    place.hv1.make(VM, UUID)
    place.hv2.make(VM, UUID)
    with watched(place) as said:
        wait_until_said(said, "the primary runs on hv1 and hv2 at the same time")
    done = place.site.vcrecovery("failover", WEB, "--force")
    assert done.returncode == 0, done.stderr
    assert place.hv1.virsh("domstate", VM).strip() == "shut off"
    assert place.hv2.virsh("domstate", VM).strip() == "shut off"


def test_a_vm_that_no_hypervisor_has_any_more_has_failed(place: Place) -> None:
    """A transient VM; its hypervisor lost its power, and knows nothing of it."""
    place.plan(both=True)
    place.hv1.make(VM, UUID, transient=True)
    with watched(place) as said:
        place.hv1.lose_power()
        wait_until_said(said, "connection to hypervisor hv1 lost")
        place.hv1.start()
        wait_until_said(said, "no hypervisor of the plan knows the VM any more, no shutdown was seen")
        wait_until_said(said, "done: web is served by its standby")
    assert place.served_by_standby()


def test_one_that_may_be_on_a_silent_hypervisor_is_left_alone(place: Place) -> None:
    """It was migrated while nobody looked, and its new hypervisor does not answer: it may well run."""
    place.plan(both=True)
    place.hv1.make(VM, UUID)
    with watched(place):
        pass
    place.hv1.migrate(VM, place.hv2)
    place.hv2.kill()
    with place.site.watched() as said:
        wait_until_said(said, "no hypervisor of the plan knows the VM any more, and hv2 does not answer")
        refused = place.site.vcrecovery("failover", WEB)
    assert refused.returncode == ExitCode.REFUSED
    assert "--primary-is-down web" in refused.stderr
    assert place.outcomes() == ["refused"]  # of the operator's call
    assert place.site.instance(WEB).status == "Stopped"


def last_host(place: Place) -> str | None:
    seen = Journal(place.site.state / "journal.db").state(WEB).seen
    return seen.host if seen is not None else None


def test_status_says_where_it_is(place: Place) -> None:
    place.plan(both=True)
    place.hv1.make(VM, UUID)
    with watched(place):
        place.hv1.migrate(VM, place.hv2)
        wait_for(lambda: last_host(place) == "hv2", "the journal's word for it", PATIENCE)
        (view,) = json.loads(place.site.vcrecovery("status", WEB, "--json").stdout)["services"]
    assert (view["hypervisor"], view["primary"]) == ("hv2", "running")
