"""What a failover of real parts comes to when the hypervisor, or the way to it, fails in the middle of it.

The VM is a real QEMU that does nothing; a network namespace behind a port of the bridge answers in its place.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from vcrecovery.core.episode import Outcome
from vcrecovery.errors import ExitCode
from vcrecovery.store.journal import Journal
from vcrecovery_lab import domain
from vcrecovery_lab.private_libvirt import PrivateLibvirt
from vcrecovery_lab.run import run
from vcrecovery_lab.stand_still import stand_still

from .small_site import BRIDGE, PORT, SmallSite, small_site
from .waiting import wait_for

pytestmark = pytest.mark.lab

WEB = "web"
VM, UUID = "vcrlab-vm", "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e6001"
#: A boot sector that has the timer wake it a thousand times a second: what little CPU an idle system uses stands still
#: for seconds as libvirt counts it, and a machine that stands still does the rest.
TICKS = bytes.fromhex("b034e643 b8a904 e640 88e0 e640 fb f4 ebfc")
#: The primary's network: a namespace, and its end on the bridge.
NAMESPACE, CABLE, ADDRESS = "vcrlab-vm", "vcrlab-cable", "10.211.8.200"
#: For a slow machine that is busy.
PATIENCE = 120.0
KILLER = Path(__file__).with_name("killed_controller.py")
#: Of the journal alone: opened, six steps with a beginning and an end, closed.
ENTRIES = 1 + 6 * 2 + 1


@dataclass
class Place:
    site: SmallSite
    libvirt: PrivateLibvirt

    def plan(self, **changes: Any) -> None:
        """The plan with the VM as the primary, and these changes."""
        primary = {"hypervisor": "hv1", "uuid": UUID, "address": ADDRESS}
        self.site.write_plan(web={"primary": primary, **changes.pop("web", {})})
        self.site.data["hypervisors"] = {"hv1": {"uri": self.libvirt.uri}}
        # Not what the tests are about.
        detection = {"cpu_zero_for": "1h", "cpu_high_for": "1h", "host_silent_for": "1h"}
        self.site.data["detection"] = detection | changes.pop("detection", {})
        self.site.data.update(changes)
        self.site.save_plan()

    def plan_with_fence(self, command: list[str]) -> None:
        """It is run once its hypervisor has been silent for 10 s."""
        fenced = {"hv1": {"uri": self.libvirt.uri, "fence": {"command": command}}}
        self.plan(hypervisors=fenced, detection={"host_silent_for": "10s"})

    def point_at_it(self) -> None:
        """The name has the VM's address."""
        name = f"{WEB}.small.test"
        self.site.ns1.change(f"update delete {name} A", f"update add {name} 5 A {ADDRESS}")

    @property
    def qemu(self) -> int:
        return self.libvirt.qemu(VM)

    def runs(self, pid: int) -> bool:
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        return text.rpartition(")")[2].split()[0] != "Z"

    def standby(self) -> str:
        return self.site.instance(WEB).status

    def serves(self) -> bool:
        """Whether the primary's port is open."""
        try:
            socket.create_connection((ADDRESS, PORT), 2).close()
        except OSError:
            return False
        return True

    def steps(self) -> list[dict[str, Any]]:
        (episode,) = self.site.episodes()
        found: list[dict[str, Any]] = episode["steps"]
        return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    libvirt = PrivateLibvirt()
    try:
        libvirt.start()
        disk = libvirt.folder / "boot-sector.img"
        disk.write_bytes(domain.boot_sector(TICKS))
        shutil.chown(disk, "nobody", "nogroup")
        libvirt.define(domain.boot_sector_domain(VM, UUID, disk))
        with small_site(tmp_path_factory.mktemp("hypervisor"), [WEB]) as site:
            yield Place(site, libvirt)
    finally:
        libvirt.close()


@pytest.fixture
def place(made: Place) -> Iterator[Place]:
    """The VM runs, and answers on its port."""
    made.libvirt.virsh("start", VM)
    made.point_at_it()
    made.plan()
    try:
        with cabled():
            wait_for(made.serves, "the primary's port", PATIENCE)
            yield made
    finally:
        if not made.libvirt.answers():
            made.libvirt.start()
        run(["virsh", "-c", made.libvirt.uri, "-q", "destroy", VM], timeout=PATIENCE, check=False)
        made.site.back()


@contextmanager
def cabled() -> Iterator[None]:
    with contextlib.ExitStack() as undo:
        run(["ip", "netns", "add", NAMESPACE], timeout=30)
        undo.callback(run, ["ip", "netns", "del", NAMESPACE], timeout=30)
        run(["ip", "link", "add", CABLE, "type", "veth", "peer", "name", "eth0", "netns", NAMESPACE], timeout=30)
        undo.callback(run, ["ip", "link", "del", CABLE], timeout=30, check=False)
        run(["ip", "link", "set", CABLE, "master", BRIDGE, "up"], timeout=30)
        run(["ip", "-n", NAMESPACE, "address", "add", f"{ADDRESS}/24", "dev", "eth0"], timeout=30)
        run(["ip", "-n", NAMESPACE, "link", "set", "eth0", "up"], timeout=30)
        server = subprocess.Popen(
            ["ip", "netns", "exec", NAMESPACE, "/bin/busybox", "httpd", "-f", "-p", str(PORT), "-h", "/run"]
        )
        undo.callback(server.wait, 30)
        undo.callback(server.kill)
        yield


def cut() -> None:
    """As when somebody pulls the cable: the VM runs on, and nobody reaches it."""
    run(["ip", "link", "set", CABLE, "down"], timeout=30)


def wait_until_said(said: Callable[[], str], *words: str) -> None:
    """By the watcher."""
    try:
        wait_for(lambda: all(word in said() for word in words), " and ".join(words), PATIENCE)
    except AssertionError as error:
        raise AssertionError(f"{error}:\n{said()[-3000:]}") from None


# -- a primary that is alive behind a cut network --------------------------------------------------------------


def test_the_cable_is_cut_and_the_operator_fails_over(place: Place) -> None:
    refused = place.site.vcrecovery("failover", WEB)
    assert refused.returncode == ExitCode.REFUSED
    assert "still answers" in refused.stderr
    cut()
    wait_for(lambda: not place.serves(), "the cut", PATIENCE)
    qemu = place.qemu
    done = place.site.vcrecovery("failover", WEB)
    assert done.returncode == 0, done.stderr
    assert not place.runs(qemu)
    assert place.libvirt.virsh("domstate", VM).strip() == "shut off"
    assert place.site.page(WEB) == WEB
    episode = place.site.episodes()[-1]
    steps = {step["step"]: step for step in episode["steps"]}
    assert "running" in steps["confirm"]["evidence"]["summary"]
    assert steps["fence"]["evidence"]["by"] == "libvirt"
    assert steps["fence"]["evidence"]["power"] == "shutoff"
    assert steps["fence"]["ended_at"] <= steps["start"]["begun_at"]


def test_the_cable_and_libvirt_are_cut(place: Place) -> None:
    qemu = place.qemu
    place.plan(detection={"host_silent_for": "2s"})
    with place.site.watched() as said:
        wait_until_said(said, "web: the primary is running")
        cut()
        place.libvirt.kill()
        # To the watcher the whole host has failed.
        wait_until_said(said, "no failover", "web cannot be fenced")
        done = place.site.vcrecovery("failover", WEB)
    assert done.returncode == ExitCode.REFUSED
    (line,) = done.stderr.splitlines()
    assert "web cannot be fenced" in line
    assert "--primary-is-down web" in line
    assert (place.runs(qemu), place.standby()) == (True, "Stopped")
    assert {entry["outcome"] for entry in place.site.episodes()} == {"refused"}
    assert place.site.address_in_dns(WEB) == [ADDRESS]


def test_a_watcher_does_not_take_a_cut_cable_for_a_failure(place: Place) -> None:
    """libvirt says that it runs, and it does: closed ports may be a firewall."""
    place.plan(detection={"cpu_zero_for": "5s", "host_silent_for": "3s"})
    qemu = place.qemu
    with place.site.watched() as said:
        wait_until_said(said, "web: the primary is running")
        cut()
        wait_for(lambda: not place.serves(), "the cut", PATIENCE)
        begun = time.monotonic()
        # Time itself is under test: all that the watcher waits for is over by then.
        wait_for(lambda: time.monotonic() - begun >= 10, "the end of the watcher's patience")
    assert (place.runs(qemu), place.standby()) == (True, "Stopped")
    assert place.site.address_in_dns(WEB) == [ADDRESS]
    assert not [step for e in place.site.episodes() for step in e["steps"] if step["step"] in ("fence", "start")]


def test_a_primary_that_has_served_all_along_behind_a_cut_network_is_let_be(place: Place, tmp_path: Path) -> None:
    """The fence did not cross the cut either. When it acts late all the same, that is a failure of its own."""
    tried = tmp_path / "tried"
    command = ["sh", "-c", f"echo tried >> {tried}; echo no route to the BMC >&2; exit 1"]
    place.plan_with_fence(command)
    qemu = place.qemu
    with place.site.watched() as said:
        wait_until_said(said, "web: the primary is running")
        cut()
        place.libvirt.kill()
        wait_until_said(said, "hypervisor hv1 was not fenced", "no route to the BMC", "trying again")
        # The network comes back piece by piece.
        place.libvirt.start()
        wait_until_said(said, "the hypervisor of web is back", "no port answers yet")
        run(["ip", "link", "set", CABLE, "up"], timeout=30)
        wait_until_said(said, "epoch 1: withdrawn: the primary of web serves", "its fence was never proved")
        assert (place.runs(qemu), place.serves(), place.standby()) == (True, True, "Stopped")
        assert place.site.address_in_dns(WEB) == [ADDRESS]
        assert [entry["outcome"] for entry in place.site.episodes()] == ["withdrawn"]
        assert tried.read_text()
        explained = place.site.vcrecovery("explain", WEB)
        assert "withdrawn after" in explained.stdout
        assert "see why the fence did not work" in explained.stdout
        # As if libvirtd had had it in its queue; it looks like an operator's.
        cut()
        place.libvirt.virsh("destroy", VM)
        wait_until_said(said, "shutoff (destroyed), soon after a fence that was not proved", "epoch 2: done")
    assert not place.runs(qemu)
    assert place.site.page(WEB) == WEB


def test_a_fence_command_that_ends_another_machine_starts_no_second_copy(place: Place) -> None:
    """It ends well, and the primary is heard again."""
    answers = f"until (: </dev/tcp/{ADDRESS}/{PORT}) 2>/dev/null; do sleep 0.1; done"
    command = ["bash", "-c", f"ip link set {CABLE} up; {answers}; echo Chassis power is off"]
    place.plan_with_fence(command)
    qemu = place.qemu
    with place.site.watched() as said:
        wait_until_said(said, "web: the primary is running")
        cut()
        place.libvirt.kill()
        wait_until_said(said, f"hv1 says that it is off, but web ({ADDRESS}:{PORT}) answers", "trying again")
        place.libvirt.start()
        wait_until_said(said, "epoch 1: withdrawn: the primary of web serves", "its fence was never proved")
    assert (place.runs(qemu), place.serves(), place.standby()) == (True, True, "Stopped")
    assert place.site.address_in_dns(WEB) == [ADDRESS]


# -- libvirtd is restarted in the middle of the fence ----------------------------------------------------------


def test_libvirtd_is_restarted_in_the_middle_of_the_fence(place: Place) -> None:
    cut()
    qemu = place.qemu
    # It does not hear libvirt's first signal, so that the destroy takes 10 s.
    stand_still(qemu)
    try:
        process = subprocess.Popen(
            place.site.command("failover", WEB), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            wait_for(lambda: asked_to_end(qemu), "the destroy", PATIENCE)
            place.libvirt.kill()
            _, stderr = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
            process.wait(30)
        assert process.returncode == ExitCode.EXTERNAL, stderr
        (line,) = stderr.splitlines()
        assert "hv1" in line
        assert place.standby() == "Stopped"
        place.libvirt.start()
        done = place.site.vcrecovery("failover", WEB)
        assert done.returncode == 0, done.stderr
        assert not place.runs(qemu)
        (episode,) = place.site.episodes()
        assert (episode["epoch"], episode["outcome"]) == (1, "done")
        assert place.site.page(WEB) == WEB
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(qemu, signal.SIGCONT)


def asked_to_end(pid: int) -> bool:
    """Whether SIGTERM waits for a stopped process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    pending = next(int(line.split()[1], 16) for line in lines if line.startswith("ShdPnd"))
    return bool(pending & 1 << (signal.SIGTERM - 1))


# -- a watcher that nobody helps -------------------------------------------------------------------------------


def test_a_vm_crashes_while_lxd_and_the_name_server_are_away(place: Place) -> None:
    site = place.site
    with site.watched() as said:
        wait_until_said(said, "web: the primary is running")
        site.lxd.kill()
        site.ns1.stop()
        cut()
        os.kill(place.qemu, signal.SIGKILL)
        wait_until_said(said, f"{site.lxd.software.product} on secondary sec1", "trying again")
        site.lxd.start()
        wait_until_said(said, "DNS server ns1", "epoch 1: started")
        site.ns1.start()
        wait_until_said(said, "epoch 1: done: web is served by its standby")
    assert site.page(WEB) == WEB
    (episode,) = site.episodes()
    assert (episode["epoch"], episode["outcome"]) == (1, "done")


# -- a controller that is killed between any two steps ---------------------------------------------------------


def test_the_next_call_finishes_the_job_once(place: Place) -> None:
    site = place.site
    cut()
    os.kill(place.qemu, signal.SIGKILL)
    wait_for(lambda: place.libvirt.virsh("domstate", VM).strip() == "shut off", "libvirt's word", PATIENCE)
    for boundary in range(1, 4 * ENTRIES):
        site.back()
        place.plan()
        place.point_at_it()
        command = [sys.executable, str(KILLER), str(boundary), "failover", WEB, "--plan", str(site.plan)]
        killed = run(command, timeout=PATIENCE, check=False)
        assert killed.returncode in (-signal.SIGKILL, 0), (boundary, killed.stdout, killed.stderr)
        finished = site.vcrecovery("failover", WEB)
        assert finished.returncode == 0, (boundary, finished.stdout, finished.stderr)
        episodes = Journal(site.state / "journal.db").history(WEB)
        assert [(e.epoch, e.outcome) for e in episodes] == [(1, Outcome.DONE)], boundary
        assert site.ns1.dig(f"_vcrecovery.{WEB}.small.test", "TXT") == ['"epoch=1"'], boundary
        assert site.page(WEB) == WEB, boundary
        if killed.returncode == 0:
            break
    assert ENTRIES < boundary < 4 * ENTRIES - 1
    assert place.libvirt.virsh("domstate", VM).strip() == "shut off"
