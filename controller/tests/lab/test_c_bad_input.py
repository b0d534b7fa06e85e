"""What is wrong is said in one line that names it and the way out, and the next call goes on from there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from vcrecovery.errors import ExitCode
from vcrecovery_lab import libvirt, machine
from vcrecovery_lab.stand_still import stand_still

from .conftest import BLANK, BLANK_UUID, Lab

pytestmark = pytest.mark.lab


def refused_in_one_line(done: subprocess.CompletedProcess[str], code: ExitCode, *words: str) -> None:
    assert done.returncode == code, (done.stdout, done.stderr)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0], lines[0]
    assert "Traceback" not in done.stdout + done.stderr


def edited(plan: Path, **changes: object) -> Path:
    """The plan with values at dotted keys (with / as the dot) replaced."""
    data = yaml.safe_load(plan.read_text())
    for key, value in changes.items():
        *parents, last = key.split("__")
        here = data
        for parent in parents:
            here = here[parent]
        here[last] = value
    plan.write_text(yaml.safe_dump(data))
    return plan


def test_wrong_tsig_key_then_the_right_one(lab: Lab, blank: int, tmp_path: Path) -> None:
    os.kill(blank, signal.SIGKILL)
    plan = lab.other_plan(tmp_path)
    wrong = tmp_path / "wrong.key"
    wrong.write_text("d3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmc=\n")
    right = yaml.safe_load(plan.read_text())["dns"]["keys"]["vcrlab"]["secret_file"]
    edited(plan, dns__keys__vcrlab__secret_file=str(wrong))
    refused_in_one_line(
        lab.vcrecovery("failover", "web", plan=plan), ExitCode.EXTERNAL, "ns1", "rejects TSIG key", str(wrong)
    )
    assert lab.dig(lab.layout.name, "A") == ["10.211.1.10"]
    problems = lab.vcrecovery("plan", "check", "--online", plan=plan)
    assert problems.returncode == ExitCode.USAGE
    assert "rejects TSIG key" in problems.stdout
    edited(plan, dns__keys__vcrlab__secret_file=right)
    done = lab.vcrecovery("failover", "web", plan=plan)
    assert done.returncode == 0, done.stderr
    assert "DNS switched" in done.stdout
    assert lab.dig(lab.layout.name, "A") == ["10.211.2.10"]


def test_lxd_down(lab: Lab, blank: int, tmp_path: Path) -> None:
    os.kill(blank, signal.SIGKILL)
    plan = edited(lab.other_plan(tmp_path), secondaries__sec1__lxd=str(tmp_path / "no.socket"))
    # Not even by force is a primary touched when there is nothing to start in its place.
    for words in ([], ["--force"]):
        done = lab.vcrecovery("failover", "web", *words, plan=plan)
        refused_in_one_line(done, ExitCode.REFUSED, "no standby to start", "LXD", "sec1", "start it")


def test_libvirtd_down(lab: Lab, blank: int, tmp_path: Path) -> None:
    uri = f"qemu:///system?socket={tmp_path}/none"
    plan = edited(lab.other_plan(tmp_path), hypervisors__hv1__uri=uri)
    refused_in_one_line(
        lab.vcrecovery("failover", "web", plan=plan), ExitCode.REFUSED, "hv1", "virsh", "--primary-is-down web"
    )
    assert lab.vcrecovery("status", plan=plan).returncode == 0


def test_a_libvirtd_that_hangs(lab: Lab, blank: int, tmp_path: Path) -> None:
    plan = lab.other_plan(tmp_path)
    daemon = json.loads((lab.layout.run_dir / "daemons/libvirtd.json").read_text())["pid"]
    stand_still(daemon)
    try:
        refused_in_one_line(lab.vcrecovery("failover", "web", plan=plan), ExitCode.REFUSED, "hv1", "no answer within")
    finally:
        os.kill(daemon, signal.SIGCONT)
    assert Path(f"/proc/{blank}").exists()


def test_a_standby_that_does_not_open_its_port(lab: Lab, blank: int, tmp_path: Path) -> None:
    os.kill(blank, signal.SIGKILL)
    plan = lab.other_plan(tmp_path, ports=[4242], timeouts={"ports": "3s"})
    refused_in_one_line(
        lab.vcrecovery("failover", "web", plan=plan), ExitCode.EXTERNAL, "10.211.2.10:4242", "DNS was not changed"
    )
    assert lab.dig(lab.layout.name, "A") == ["10.211.1.10"]
    edited(plan, services__web__ports=[80])
    assert lab.vcrecovery("failover", "web", plan=plan).returncode == 0
    assert lab.dig(lab.layout.name, "A") == ["10.211.2.10"]


def test_a_vm_that_runs_is_destroyed_only_when_it_does_not_answer(lab: Lab, blank: int, tmp_path: Path) -> None:
    plan = lab.other_plan(tmp_path)
    edited(plan, services__web__primary__address="10.211.1.1", services__web__ports=[53])
    refused_in_one_line(
        lab.vcrecovery("failover", "web", plan=plan), ExitCode.REFUSED, "still answers on 10.211.1.1:53", "--force"
    )
    assert Path(f"/proc/{blank}").exists()


def test_a_vm_that_its_hypervisor_does_not_know(lab: Lab, tmp_path: Path) -> None:
    plan = lab.other_plan(tmp_path)
    refused_in_one_line(lab.vcrecovery("failover", "web", plan=plan), ExitCode.REFUSED, "hv1 does not know VM")


def test_back_to_the_primary(lab: Lab, blank: int, tmp_path: Path) -> None:
    plan = lab.other_plan(tmp_path)
    os.kill(blank, signal.SIGKILL)
    assert "nothing to do" in lab.vcrecovery("standby", "reset", "web", plan=plan).stdout
    assert lab.vcrecovery("failover", "web", plan=plan).returncode == 0
    reset = ("standby", "reset", "web")
    refused_in_one_line(
        lab.vcrecovery(*reset, plan=plan), ExitCode.REFUSED, "does not point at the primary 10.211.1.10"
    )
    lab.reset_standby()
    assert lab.vcrecovery(*reset, plan=plan).returncode == 0
    entry = json.loads(lab.vcrecovery("status", "--json", plan=plan).stdout)["services"][0]
    assert entry["serves"] == "primary"
    # The next failover is a new one.
    machine.create_blank(BLANK, BLANK_UUID)
    virtual_machine = libvirt.pid(BLANK, BLANK_UUID)
    assert virtual_machine is not None
    os.kill(virtual_machine, signal.SIGKILL)
    lab.stamp()
    assert lab.vcrecovery("failover", "web", plan=plan).returncode == 0
    assert lab.dig(f"_vcrecovery.{lab.layout.name}", "TXT") == ['"epoch=2"']


def test_two_controllers_at_once(lab: Lab, blank: int, tmp_path: Path) -> None:
    os.kill(blank, signal.SIGKILL)
    plan = lab.other_plan(tmp_path, ports=[4242], timeouts={"ports": "8s"})
    first = subprocess.Popen(
        [lab.program, "failover", "web", "--plan", plan], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert first.stdout is not None
        # Its first line of progress shows that it holds the lock.
        assert "web" in first.stdout.readline()
        second = lab.vcrecovery("failover", "web", plan=plan)
        refused_in_one_line(second, ExitCode.BUSY, f"process {first.pid}", "already at work on web")
    finally:
        _, said = first.communicate(timeout=120)
    assert first.returncode == ExitCode.EXTERNAL, said
