"""The planned move of the lab's service to its standby: a client writes all the time, and nothing of it is lost."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from vcrecovery.errors import ExitCode
from vcrecovery_lab import rows
from vcrecovery_lab.lab import playbook
from vcrecovery_lab.machine import qemu_pid
from vcrecovery_lab.run import LabError
from vcrecovery_lab.stand_still import stand_still

from .conftest import Lab
from .waiting import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1800)]

#: What makes the VM itself: a failback leaves it alone.
OWN = "cat /etc/hostname /etc/machine-id /etc/fstab /etc/network/interfaces; ls /boot; ls -l /srv/null | cut -c 1-25"
#: Written in the standby while that serves, and what is looked for in the VM: owners, rights, links, attributes, holes.
LEAVE_IT = """
import os
os.remove("/srv/gone")
os.mkdir("/srv/left")
os.chdir("/srv/left")
with open("file", "wb") as out:
    out.seek(50_000_000)
    out.write(b"end")
os.link("file", "hard")
os.symlink("/nowhere", "soft")
os.chown("file", 1234, 4321)
os.chmod("file", 0o6751)
os.setxattr("file", "user.note", b"left")
os.setxattr("file", "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
os.setxattr("/srv/left", "system.posix_acl_access", bytes.fromhex(
    "02000000" "01000700ffffffff" "02000600d2040000" "04000500ffffffff" "10000700ffffffff" "20000500ffffffff"))
os.mkfifo("fifo")
"""
LOOK_AT_IT = """
import os, stat
os.chdir("/srv/left")
file = os.stat("file")
found = {
    "gone": not os.path.exists("/srv/gone"),
    "owner": (file.st_uid, file.st_gid) == (1234, 4321),
    "mode": stat.S_IMODE(file.st_mode) == 0o6751,
    "links": os.stat("hard").st_ino == file.st_ino and os.readlink("soft") == "/nowhere",
    "holes": file.st_size == 50_000_003 and file.st_blocks < 1000,
    "note": os.getxattr("file", "user.note") == b"left",
    "capability": os.getxattr("file", "security.capability")[:8].hex() == "0100000200040000",
    "acl": len(os.getxattr("/srv/left", "system.posix_acl_access")) == 44,
    "fifo": stat.S_ISFIFO(os.stat("fifo").st_mode),
}
wrong = [name for name, good in found.items() if not good]
print("not right:", wrong) if wrong else print("as it was left")
"""


def status(lab: Lab) -> dict[str, Any]:
    (entry,) = json.loads(lab.vcrecovery("status", "--json").stdout)["services"]
    assert isinstance(entry, dict)
    return entry


def heartbeat(lab: Lab) -> dict[str, Any]:
    """The VM's newest, in the standby."""
    found = json.loads((lab.rootfs / "var/lib/vcrecovery/heartbeat").read_text())
    assert isinstance(found, dict)
    return found


def in_the_vm(lab: Lab, command: str) -> str:
    """What it prints, in one line; empty while the VM takes no call."""
    with suppress(LabError):
        return " ".join(lab.primary(f"{command} || true", timeout=30).split())
    return ""


def has_booted(lab: Lab) -> bool:
    return in_the_vm(lab, "systemctl is-system-running") in ("running", "degraded")


def newest_episode(lab: Lab) -> dict[str, Any]:
    found = json.loads(lab.vcrecovery("history", "--json").stdout)["episodes"][-1]
    assert isinstance(found, dict)
    return found


def is_well(lab: Lab) -> bool:
    """The VM serves, and what it writes arrives."""
    entry = status(lab)
    age = entry["standby"]["age"]
    fresh = age is not None and age < 60
    return entry["serves"] == "primary" and entry["verdict"] == "healthy" and entry["health"] == "answers" and fresh


def play(lab: Lab, verb: str, *words: str, **variables: str) -> str:
    """What the playbook of that verb prints for the lab's service."""
    extra = {f"controller_{verb}_{name}": value for name, value in {"service": "web", **variables}.items()}
    return playbook(lab.layout, f"playbooks/{verb}.yml", f"{verb}.yml", "-e", json.dumps(extra), *words)


@contextmanager
def receiver_stands_still(lab: Lab) -> Iterator[None]:
    pid = json.loads((lab.layout.run_dir / "daemons/vcrecovery-receiver.json").read_text())["pid"]
    stand_still(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_without_the_last_files_the_vm_serves_again(lab: Lab) -> None:
    wait_for(lambda: is_well(lab), "a healthy service")
    with receiver_stands_still(lab):
        called = lab.vcrecovery("switchover", "web", timeout=600)
    assert called.returncode == ExitCode.EXTERNAL, called.stdout + called.stderr
    assert "web is on its VM again: the VM is off, and its last files have not arrived" in called.stderr
    assert qemu_pid(lab.layout.primary()) is not None
    assert newest_episode(lab)["outcome"] == "taken back"
    instance = lab.lxd.get("web")
    assert instance is not None
    assert (instance.running, instance.config["user.vcrecovery.role"]) == (False, "standby")
    wait_for(lambda: is_well(lab) and has_booted(lab), "the VM to serve again", 300)


def test_a_client_that_writes_all_the_time_loses_nothing(lab: Lab) -> None:
    lab.primary(rows.INSTALL)
    unit = lab.rootfs / "etc/systemd/system/multi-user.target.wants/rows.service"
    wait_for(lambda: unit.is_symlink() and is_well(lab), "the unit in the standby")
    boot = in_the_vm(lab, "cat /proc/sys/kernel/random/boot_id")
    wait_for(lambda: (heartbeat(lab)["final"], heartbeat(lab)["boot"]) == (False, boot), "a heartbeat of this boot")
    vm = lab.layout.primary()
    own = lab.primary(f"test -e /srv/null || mknod /srv/null c 1 3; echo to be deleted > /srv/gone; {OWN}")
    assert "web: dry run, nothing is touched" in play(lab, "switchover", "--check")
    with rows.Client(lab.layout) as client:
        wait_for(lambda: len(client.by(vm.name)) > 20, "the first rows")
        called = lab.vcrecovery("switchover", "--vm", vm.uuid, timeout=600)
        assert called.returncode == 0, called.stdout + called.stderr
        wait_for(lambda: len(client.by("web")) > 5, "rows in the standby")
        written = {int(file.name) for file in (lab.rootfs / "srv/rows").iterdir()}
        assert set(client.by(vm.name)) - written == set()
        assert (heartbeat(lab)["final"], heartbeat(lab)["boot"]) == (True, boot)
        assert qemu_pid(vm) is None
        assert status(lab)["serves"] == "standby"
        done = [step["step"] for step in newest_episode(lab)["steps"] if step["ok"]]
        assert done == ["confirm", "shutdown", "last files", "fence", "start", "probe", "switch", "verify"]
        again = lab.vcrecovery("switchover", "web")
        assert (again.returncode, "nothing to do" in again.stdout) == (0, True)
        lab.inside("python3", "-c", LEAVE_IT)
        assert "web: dry run, nothing is touched" in play(lab, "failback", "--check")
        assert status(lab)["serves"] == "standby"
        served_again = len(client.by(vm.name))
        play(lab, "failback", commit_after="2h")
        wait_for(lambda: len(client.by(vm.name)) > served_again + 5, "rows in the VM")
    written = {int(row) for row in lab.primary("ls /srv/rows").split()}
    assert client.acknowledged.keys() - written == set()
    # How often it looks again depends on how long the VM takes to boot.
    done = [step["step"] for step in newest_episode(lab)["steps"] if step["ok"] and step["step"] != "confirm"]
    assert done == ["boot", "copy", "stop", "last copy", "hand over", "probe", "switch", "verify", "keep"]
    assert "the standby serves: no service is started here" in lab.primary("journalctl -b -u vcrecovery-who-serves")
    assert in_the_vm(lab, "systemctl is-active nginx rows") == "active active"
    assert lab.primary(f"python3 - <<'EOF'\n{LOOK_AT_IT}EOF\n").split() == ["as", "it", "was", "left"]
    assert lab.primary(OWN) == own
    wait_for(lambda: is_well(lab), "a protected service")
    assert lab.dig(lab.layout.name, "A") == [lab.layout.plan["services"]["web"]["primary"]["address"]]
    again = lab.vcrecovery("failback", "web")
    assert (again.returncode, "nothing to do" in again.stdout) == (0, True)
    (point,) = json.loads(lab.vcrecovery("standby", "snapshots", "web", "--json").stdout)["restore_points"]
    assert point["kept"]
    shown = status(lab)["standby"]["kept"]
    assert (shown["restore_point"], shown["until"] - newest_episode(lab)["closed_at"]) == (point["name"], 7200)
    committed = lab.vcrecovery("commit", "web")
    assert (committed.returncode, committed.stdout) == (0, f"web: committed: {point['name']} removed\n")
    assert status(lab)["standby"]["kept"] is None
    lab.primary(f"{rows.REMOVE} /srv/null /srv/left")
