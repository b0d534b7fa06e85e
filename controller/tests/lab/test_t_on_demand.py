"""A secondary that is off until a failover boots it: files arrive meanwhile, over ssh, on the disk that it then has."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from vcrecovery.drivers.loop_disk import is_mounted
from vcrecovery_lab import libvirt, machine
from vcrecovery_lab.pair.receiver import Receiver, known_host
from vcrecovery_lab.progress import silent_progress
from vcrecovery_lab.secondary_vm.on_demand import OnDemandSite, on_demand_vm

from .conftest import Lab
from .loaded_program import LOADED
from .vm_site import folder_for_vms, page_of, vm_that_is_off
from .waiting import wait_for

pytestmark = [pytest.mark.lab, pytest.mark.at_length, pytest.mark.timeout(1800)]

NAME = "web1"
#: Its next boot goes no further than this, and the one after it does.
HANGS_ONCE = """\
cat >/etc/systemd/system/hangs.service <<END
[Unit]
DefaultDependencies=no
After=systemd-remount-fs.service
Before=standbys.service
ConditionPathExists=/hangs
[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/bin/sh -c "rm /hangs && sync && exec sleep infinity"
[Install]
WantedBy=multi-user.target
END
systemctl enable hangs.service && touch /hangs && sync
"""
BLANK = "vcrlab-vms-web1-blank"


@pytest.fixture(scope="module")
def site(lab: Lab) -> Iterator[OnDemandSite]:
    timeouts = {"start": "5m", "ports": "5m"}
    with (
        folder_for_vms(lab) as folder,
        on_demand_vm(folder, {NAME: 80}, lab.image, silent_progress, timeouts=timeouts) as made,
    ):
        yield made


@pytest.fixture
def primary() -> Iterator[None]:
    with vm_that_is_off(BLANK, NAME):
        yield


class Sender:
    """What a primary does, with a tree of a few files."""

    def __init__(self, folder: Path, site: OnDemandSite) -> None:
        (folder / "receiver").mkdir()
        self.receiver = Receiver(folder / "receiver", site.folder / "state", folder / "key", NAME)
        self.tree = folder / "tree"
        (folder / "known_hosts").write_text(known_host(self.receiver).replace("vcrecovery-receiver", "[127.0.0.1]:*"))
        self.receiver.start()
        options = ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"]
        words = [word for option in options for word in ("-o", option)]
        self.ssh = ["ssh", "-F", "none", "-i", str(folder / "key"), "-p", str(self.receiver.port), *words]

    def send(self, files: dict[str, str]) -> subprocess.CompletedProcess[str]:
        shutil.rmtree(self.tree, ignore_errors=True)
        beat = json.dumps({"at": time.time()})
        for inside, text in {**files, "/var/lib/vcrecovery/heartbeat": beat}.items():
            file = self.tree / inside.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        words = ["rsync", "-rlptgoD", "--numeric-ids", "--omit-dir-times", "-e", shlex.join(self.ssh)]
        return subprocess.run(
            [*words, f"{self.tree}/", "root@127.0.0.1:/"], capture_output=True, text=True, timeout=100, check=False
        )

    def asks_who_serves(self) -> str:
        done = subprocess.run(
            [*self.ssh, "root@127.0.0.1", "who-serves"], capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout.strip() or done.stderr.strip()


@pytest.fixture
def sender(site: OnDemandSite) -> Iterator[Sender]:
    folder = Path(tempfile.mkdtemp(prefix="vcrd-", dir="/run"))
    made = Sender(folder, site)
    yield made
    made.receiver.stop()
    shutil.rmtree(folder)


def vcrecovery(site: OnDemandSite, *words: str) -> subprocess.CompletedProcess[str]:
    return LOADED.run([*words, "--plan", str(site.plan)], 900)


def done(site: OnDemandSite, *words: str) -> str:
    found = vcrecovery(site, *words)
    assert found.returncode == 0, found.stderr + found.stdout
    return found.stdout


def is_off(site: OnDemandSite) -> bool:
    mounted = is_mounted(site.folder / "state/secondaries/sec1/disk")
    return mounted and libvirt.state(site.secondary.name) == "off"


def back_to_off(site: OnDemandSite) -> None:
    """Nothing serves there any more, so it may go off, and takes files again."""
    site.lxd.shut_down(NAME, 60)
    done(site, "standby", "reset", NAME)
    done(site, "secondary", "off", "sec1")
    assert is_off(site)


@pytest.mark.usefixtures("primary")
def test_it_is_booted_by_a_failover_with_what_arrived_while_it_was_off(
    site: OnDemandSite, sender: Sender, tmp_path: Path
) -> None:
    assert "off, and takes files" in done(site, "secondary", "off", "sec1")
    assert is_off(site)
    assert sender.asks_who_serves() == "primary"
    sent = sender.send({"/var/www/html/index.html": "<title>arrived while it was off</title>"})
    assert sent.returncode == 0, sent.stderr
    shown = done(site, "status")
    assert "off (on demand)" in shown, shown
    (data,) = json.loads(done(site, "status", "--json"))["services"]
    assert data["standby"]["state"] == "off (on demand)", data
    # QEMU has locked the disk: who starts it by hand is told so.
    by_hand = subprocess.run(
        ["virsh", "-c", "qemu:///system", "start", site.secondary.name],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "lock" in by_hand.stderr, by_hand.stderr
    assert sender.send({"/etc/later": "1"}).returncode == 0
    began = time.monotonic()
    said = done(site, "failover", NAME)
    # For docs/cold-secondaries.md: the boot of the VM apart.
    said += f"from the request to the end of the failover: {time.monotonic() - began:.1f} s\n"
    (tmp_path / "timeline.txt").write_text(said)
    assert "arrived while it was off" in page_of(site.standbys[NAME]).decode()
    assert not is_mounted(site.folder / "state/secondaries/sec1/disk")
    assert "its disk is not here" in sender.send({}).stderr
    assert sender.asks_who_serves() == "standby"
    refused = vcrecovery(site, "secondary", "off", "sec1")
    assert (refused.returncode, f"{NAME} serves there" in refused.stderr) == (3, True), refused.stderr
    back_to_off(site)
    again = sender.send({"/var/www/html/index.html": "<title>the second time</title>"})
    assert again.returncode == 0, again.stderr


def cpu_seconds(pid: int) -> float:
    """That a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.usefixtures("primary")
def test_its_qemu_is_killed_during_the_boot(site: OnDemandSite, sender: Sender) -> None:
    assert is_off(site)
    assert sender.send({"/var/www/html/index.html": "<title>killed once</title>"}).returncode == 0

    def kill_it() -> None:
        wait_for(lambda: machine.qemu_pid(site.secondary) is not None, "its boot", 120)
        pid = machine.qemu_pid(site.secondary)
        assert pid is not None
        wait_for(lambda: cpu_seconds(pid) > 2, "it to be in the middle of it", 120)
        os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_it)
    killer.start()
    said = done(site, "failover", NAME)
    killer.join()
    assert said.count("sec1 boots") == 2, said
    assert "killed once" in page_of(site.standbys[NAME]).decode()
    back_to_off(site)


@pytest.mark.usefixtures("primary")
def test_a_boot_that_hangs_is_reset(site: OnDemandSite, sender: Sender) -> None:
    done(site, "secondary", "on", "sec1")
    site.command(HANGS_ONCE)
    done(site, "secondary", "off", "sec1")
    assert sender.send({"/var/www/html/index.html": "<title>hung once</title>"}).returncode == 0
    # An emulated boot takes up to a minute.
    site.data["secondaries"]["sec1"]["power_on_within"] = "2m"
    site.plan.write_text(yaml.safe_dump(site.data))
    said = done(site, "failover", NAME)
    assert said.count("its LXD has not answered for 120 s: its VM is reset") == 1, said
    assert "hung once" in page_of(site.standbys[NAME]).decode()
    back_to_off(site)
