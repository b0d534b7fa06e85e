"""The watcher: what it acts on, what it leaves alone, and what it survives."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vcrecovery_lab import libvirt, machine
from vcrecovery_lab.lab import playbook
from vcrecovery_lab.run import run

from .conftest import BLANK, BLANK_UUID, Lab
from .waiting import wait_for

pytestmark = pytest.mark.lab


class Watcher:
    """A `vcrecovery watch` and what it says."""

    def __init__(self, lab: Lab, plan: Path, log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [lab.program, "watch", "--verbose", "--plan", plan], stdout=output, stderr=output
            )

    def says(self, text: str, times: int = 1) -> bool:
        return self.log.read_text().count(text) >= times


@contextmanager
def watching(lab: Lab, plan: Path) -> Iterator[Watcher]:
    watcher = Watcher(lab, plan, plan.with_name("watch.log"))
    try:
        wait_for(lambda: watcher.says("web: the primary is running"), "the first look")
        yield watcher
    except AssertionError as error:
        error.add_note(f"The watcher said:\n{watcher.log.read_text()[-8000:]}")
        raise
    finally:
        watcher.process.terminate()
        watcher.process.wait(timeout=60)
    assert "Traceback" not in watcher.log.read_text()


def episodes(lab: Lab, plan: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(lab.vcrecovery("history", "--json", plan=plan).stdout)["episodes"]
    return found


def virsh(*words: str) -> None:
    run(["virsh", "-c", "qemu:///system", "-q", *words], timeout=60)


def restart_blank() -> int:
    machine.create_blank(BLANK, BLANK_UUID)
    pid = libvirt.pid(BLANK, BLANK_UUID)
    assert pid is not None
    return pid


def test_what_an_operator_does_is_no_failure(lab: Lab, blank: int, tmp_path: Path) -> None:
    plan = lab.other_plan(tmp_path)
    with watching(lab, plan) as watcher:
        virsh("destroy", BLANK)
        wait_for(lambda: watcher.says("shutoff (destroyed): requested shutdown"), "the verdict")
        pid = restart_blank()
        wait_for(lambda: watcher.says("web: the primary is running", 2), "the return")
        assert lab.vcrecovery("suspend", "web", "--for", "1h", "--reason", "work", plan=plan).returncode == 0
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: watcher.says("down, and automatic failover is suspended"), "the verdict in the pause")
        restart_blank()
        wait_for(lambda: watcher.says("web: the primary is running", 3), "the second return")
        virsh("destroy", BLANK)
        wait_for(lambda: watcher.says("automatic failover is suspended: no failure"), "the second verdict in the pause")
        assert episodes(lab, plan) == []


def test_a_crash_is_found_after_libvirtd_came_back(lab: Lab, blank: int, tmp_path: Path) -> None:
    plan = lab.other_plan(tmp_path)
    lab.stamp()
    with watching(lab, plan) as watcher:
        entry = json.loads((lab.layout.run_dir / "daemons/libvirtd.json").read_text())
        os.kill(entry["pid"], signal.SIGKILL)
        wait_for(lambda: watcher.says("connection to hypervisor hv1 lost"), "the loss of libvirtd")
        playbook(lab.layout, "controller/lab/hypervisor.yml", "libvirtd again", "-e", '{"hypervisor_packages": []}')
        wait_for(lambda: watcher.says("connected, reading every VM's state", 2), "the reconnection")
        assert episodes(lab, plan) == []
        os.kill(blank, signal.SIGKILL)
        wait_for(lambda: watcher.says("epoch 1: done: web is served by its standby"), "the failover")
        assert lab.dig(lab.layout.name, "A") == ["10.211.2.10"]


def test_a_crash_while_libvirtd_was_away_is_found_too(lab: Lab, blank: int, tmp_path: Path) -> None:
    plan = lab.other_plan(tmp_path)
    lab.stamp()
    with watching(lab, plan) as watcher:
        entry = json.loads((lab.layout.run_dir / "daemons/libvirtd.json").read_text())
        os.kill(entry["pid"], signal.SIGKILL)
        wait_for(lambda: watcher.says("connection to hypervisor hv1 lost"), "the loss of libvirtd")
        os.kill(blank, signal.SIGKILL)
        playbook(lab.layout, "controller/lab/hypervisor.yml", "libvirtd again", "-e", '{"hypervisor_packages": []}')
        wait_for(lambda: watcher.says("epoch 1: done: web is served by its standby"), "the failover")


def test_a_watcher_goes_on_with_what_a_killed_one_left(lab: Lab, blank: int, tmp_path: Path) -> None:
    plan = lab.other_plan(tmp_path, ports=[4242], timeouts={"ports": "60s"})
    lab.stamp()
    with watching(lab, plan) as watcher:
        os.kill(blank, signal.SIGKILL)
        wait_for(lambda: watcher.says("epoch 1: started"), "the start of the standby")
        watcher.process.kill()
    text = plan.read_text().replace("- 4242", "- 80")
    plan.write_text(text)
    second = Watcher(lab, plan, plan.with_name("second.log"))
    try:
        wait_for(lambda: second.says("epoch 1: done: web is served by its standby"), "the end")
    finally:
        second.process.terminate()
        second.process.wait(timeout=60)
    assert [e["outcome"] for e in episodes(lab, plan)] == ["done"]


def test_a_service_that_is_down_in_a_vm_that_says_it_has_failed(lab: Lab, blank: int, tmp_path: Path) -> None:
    down = {"after": "10s", "do": "failover"}
    plan = lab.other_plan(tmp_path, on_service_down=down, first_units=["nginx.service"])

    def is_said(text: str, **units: str) -> bool:
        lab.stamp(units={f"{name}.service": state for name, state in units.items()})
        return watcher.says(text)

    with watching(lab, plan) as watcher:
        wait_for(lambda: is_said("and not failed over: its VM works: its heartbeats come"), "the first verdict")
        wait_for(lambda: is_said("its heartbeats come; nginx.service is inactive", nginx="inactive"), "the second one")
        assert episodes(lab, plan) == []
        assert libvirt.pid(BLANK, BLANK_UUID) == blank
        wait_for(lambda: is_said("its VM is unwell: nginx.service is failed", nginx="failed"), "the third one")
        wait_for(lambda: watcher.says("epoch 1: done: web is served by its standby"), "the failover")
        assert lab.dig(lab.layout.name, "A") == ["10.211.2.10"]
    (episode,) = episodes(lab, plan)
    assert episode["outcome"] == "done"
