"""SNMP's passphrases are replaced on two hypervisors and a relay: real snmpd, notifier, libvirt. Nobody is refused.

What stands for Zabbix's trapper keeps what comes. All of it is the playbook's own work; cut off anywhere, the next run
finishes it.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml

from relay_bench.agents import client_environment
from relay_bench.recorder import Recorder
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.private_libvirt import PrivateLibvirt
from vcrecovery_lab.run import run

from .role_plays import cut_off_after, end_daemons
from .waiting import wait_for

pytestmark = [
    pytest.mark.lab,
    pytest.mark.network_of_its_own,
    pytest.mark.begins_first,
    pytest.mark.timeout(900),
]

log = logging.getLogger(__name__)
ROTATION = CHECKOUT / "playbooks/keys_rotate.yml"
# net-snmp keeps this name in another way than one of letters alone, which the other tests have.
USER, VM, UUID_OF_VM = "vc-recovery", "one", UUID("6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e2101")
SYS_UP_TIME = ".1.3.6.1.2.1.1.3.0"
#: Seconds after which a hypervisor that is not heard has failed, by default.
SILENT = 15.0
#: Tasks of one rotation that change something here. Some do so several times.
CHANGES = 35


class Site:
    """hv2's libvirt is that program's own stand-in: nothing happens there, but it is asked."""

    def __init__(self, folder: Path, libvirt: PrivateLibvirt) -> None:
        self.folder, self.libvirt, self.recorder = folder, libvirt, Recorder("127.0.1.8", free_port("127.0.1.8"))
        self.relay, self.number = folder / "relay", 0
        self.addresses = {"hv1": "127.0.0.1", "hv2": "127.0.0.2"}
        self.ports = {name: free_port(address) for name, address in self.addresses.items()}
        for name in self.addresses:
            for part in ("config", "snmp_config", "snmp_state"):
                (folder / name / part).mkdir(parents=True)
        for made in (self.relay, folder / "state/relay"):
            made.mkdir(parents=True)
        self.listen = free_port()
        secret = {f"{what}_file": str(self.relay / what) for what in ("auth", "privacy")}
        self.plan: dict[str, Any] = {
            "version": 1,
            "state_dir": str(folder / "state"),
            "hypervisors": {
                name: {"snmp": {"address": address, "port": self.ports[name], "user": USER}}
                for name, address in self.addresses.items()
            },
            "secondaries": {
                "sec1": {"network": {"bridge": "br0", "address": "10.9.0.1/24"}, "receiver": {"address": "10.9.0.1"}}
            },
            "snmp": {"users": {USER: secret}, "traps": {"listen": "127.0.0.1", "port": self.listen}},
            "zabbix": {"trapper": {"address": self.recorder.address, "port": self.recorder.port}},
            "services": {
                "web": {
                    "primary": {"hypervisor": "hv1", "uuid": str(UUID_OF_VM), "address": "10.9.1.1"},
                    "standby": {"secondary": "sec1", "address": "10.9.0.2"},
                    "ports": [80],
                }
            },
        }
        (self.relay / "plan.yml").write_text(yaml.safe_dump(self.plan))
        self.choose()
        for what in ("auth", "privacy"):
            file = self.relay / what
            file.touch(mode=0o600)
            file.write_text(self.passphrase(what))
        agent = {"hosts": "hypervisors", "gather_facts": True, "tasks": [included("hypervisor", "snmp")]}
        relay = {
            "hosts": "monitoring",
            "gather_facts": True,
            "tasks": [
                {"ansible.builtin.include_vars": str(CHECKOUT / "roles/monitoring/vars/main.yml")},
                {
                    "vcrecovery.standby.daemon": {
                        "name": "vcrecovery-relay",
                        "argv": "{{ monitoring_relay_argv }}",
                        "supervisor": "process",
                        "run_dir": "{{ monitoring_run_dir }}",
                        "log_dir": "{{ monitoring_log_dir }}",
                    }
                },
            ],
        }
        (folder / "play.yml").write_text(json.dumps([agent, relay]))

    def passphrase(self, what: str, number: int | None = None) -> str:
        return f"the {what} $passphrase' of {self.number if number is None else number}"

    def choose(self) -> None:
        """What the inventory says: the next passphrases."""
        self.number += 1
        hypervisors = {
            name: {
                "hypervisor_snmp_uri": self.libvirt.uri if name == "hv1" else "test:///default",
                "hypervisor_snmp_listen": f"udp:{address}:{self.ports[name]}",
                "vcrecovery_run_dir": str(self.folder / name / "run"),
                "vcrecovery_log_dir": str(self.folder / name / "log"),
                **{
                    f"hypervisor_{part}_dir": str(self.folder / name / part)
                    for part in ("config", "snmp_config", "snmp_state")
                },
            }
            for name, address in self.addresses.items()
        }
        relay = {
            "vcrecovery_run_dir": str(self.folder / "run"),
            "vcrecovery_log_dir": str(self.folder / "log"),
            "monitoring_relay_config_dir": str(self.relay),
            "monitoring_run_dir": "{{ vcrecovery_run_dir }}/daemons",
            "monitoring_log_dir": "{{ vcrecovery_log_dir }}",
        }
        variables = {
            "ansible_connection": "local",
            "ansible_become": False,
            "vcrecovery_plan": self.plan,
            "vcrecovery_snmp_auth": self.passphrase("auth"),
            "vcrecovery_snmp_privacy": self.passphrase("privacy"),
            "hypervisor_snmp_destinations": [{"address": "127.0.0.1", "port": self.listen}],
            "hypervisor_snmp_packages": [],
            "hypervisor_snmp_user": USER,
            "hypervisor_snmp_account": "root",
            "hypervisor_supervisor": "process",
            "secondary_has_the_program": True,
            "controller_venv": str(CHECKOUT / ".venv"),
            "monitoring_engine": "zabbix",
            "monitoring_plan": self.plan,
            "monitoring_supervisor": "process",
        }
        groups = {"hypervisors": {"hosts": hypervisors}, "monitoring": {"hosts": {"mon": relay}}}
        (self.folder / "hosts.yml").write_text(yaml.safe_dump({"all": {"vars": variables, "children": groups}}))

    def play(self, playbook: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        command: list[str | Path] = [
            CHECKOUT / ".venv/bin/ansible-playbook",
            playbook,
            "-i",
            self.folder / "hosts.yml",
            *words,
        ]
        env = {"ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", **more}
        done = run(command, timeout=600, env=env, check=False)
        for what in ("auth", "privacy"):
            assert f"the {what} " not in done.stdout + done.stderr
        return done

    def rotate(self, *words: str) -> int:
        """How many tasks have changed something."""
        done = self.play(ROTATION, "--tags", "snmp", "--diff", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return sum(int(count) for count in re.findall(r"changed=(\d+)", done.stdout))

    def rotate_cut_off(self, changes: int) -> bool:
        """Whether it was killed; it may end before."""
        done = self.play(ROTATION, "--tags", "snmp", **cut_off_after(changes))
        assert done.returncode in (0, -signal.SIGKILL), done.stdout + done.stderr
        return done.returncode != 0

    def answers(self, hypervisor: str, number: int, user: str = USER) -> bool:
        """Whether its snmpd takes these passphrases."""
        auth, privacy = self.passphrase("auth", number), self.passphrase("privacy", number)
        env = client_environment(self.folder / "client", user, auth, privacy)
        target = f"{self.addresses[hypervisor]}:{self.ports[hypervisor]}"
        done = run(["snmpget", "-v3", "-t", "2", "-r", "3", target, SYS_UP_TIME], timeout=60, env=env, check=False)
        return done.returncode == 0

    def said(self, program: str) -> str:
        return "".join(file.read_text() for file in self.folder.rglob(f"log/{program}.log"))

    def assert_rotated(self) -> None:
        for name in self.addresses:
            assert self.answers(name, self.number)
            assert not self.answers(name, self.number - 1)
            assert not self.answers(name, self.number, f"{USER}next")
            kept = (self.folder / name / "snmp_state/snmpd.conf").read_text()
            assert re.findall(r"^usmUser \d+ \d+ \S+ (\S+)", kept, re.MULTILINE) == [f"0x{USER.encode().hex()}"]
        for what in ("auth", "privacy"):
            assert (self.relay / what).read_text().strip() == self.passphrase(what)
            assert (self.relay / what).stat().st_mode & 0o777 == 0o600
            for name in self.addresses:
                assert (self.folder / name / "config/snmp" / what).read_text().strip() == self.passphrase(what)
        assert list(self.folder.rglob("*.next")) == []
        assert [file.name for file in self.folder.rglob("*.sha256")] == ["user.sha256"] * 2
        counted = json.loads((self.folder / "state/relay/counters.json").read_text())
        assert counted["answers_to"] == dict.fromkeys(self.addresses, USER)
        assert counted["silent"] == []


def included(role: str, part: str) -> dict[str, Any]:
    return {"ansible.builtin.include_role": {"name": f"vcrecovery.standby.{role}", "tasks_from": part}}


class Observer:
    """Never stops pausing the VM and waiting for Zabbix to hear of it, nor listening for heartbeats."""

    def __init__(self, site: Site) -> None:
        self._site, self._over = site, threading.Event()
        #: Seconds from what libvirt was told to what Zabbix has heard.
        self.lags: list[float] = []
        self.silence = 0.0
        self._thread = threading.Thread(target=self._go_on)

    def __enter__(self) -> Observer:
        self._begun = time.time()
        self._read = {name: len(self._site.said(name)) for name in ("vcrecovery-relay", "vcrecovery-snmp-agent")}
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(200)
        for host in self._site.addresses:
            beats = [value.clock for value in self._site.recorder.values(host, "vcr.heartbeat")]
            beats = [self._begun, *(at for at in beats if at >= self._begun), time.time()]
            self.silence = max(self.silence, *(later - at for at, later in itertools.pairwise(beats)))

    def new(self, program: str) -> str:
        """What it has logged meanwhile."""
        return self._site.said(program)[self._read[program] :]

    def assert_nobody_was_refused(self) -> None:
        said = self.new("vcrecovery-relay")
        assert "bad credentials" not in said, said
        assert "unknown user" not in said, said
        assert "gives no table" not in said, said
        assert len(self.lags) > 3
        # One may be told of by the next poll only: as the notifier restarted.
        assert max(self.lags) < 2 * SILENT, self.lags
        assert self.silence < SILENT

    def _go_on(self) -> None:
        site, key = self._site, f"vcr.state[{UUID_OF_VM}]"
        while not self._over.wait(0.3):
            for word, state in (("suspend", "paused"), ("resume", "running")):
                before, begun = len(site.recorder.values("hv1", key)), time.monotonic()
                site.libvirt.virsh(word, VM)
                site.recorder.wait_for(
                    lambda before=before, state=state: any(  # type: ignore[misc]
                        value.text.startswith(state) for value in site.recorder.values("hv1", key)[before:]
                    ),
                    state,
                )
                self.lags.append(time.monotonic() - begun)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.fail("the lab's tests make VMs: run them as root")
    libvirt = PrivateLibvirt()
    folder = Path(tempfile.mkdtemp(prefix="vcrs-", dir="/run"))
    made = Site(folder, libvirt)
    try:
        libvirt.start()
        libvirt.make(VM, str(UUID_OF_VM))
        made.recorder.start()
        done = made.play(folder / "play.yml")
        assert done.returncode == 0, done.stdout + done.stderr
        for host in made.addresses:
            made.recorder.wait_for(lambda host=host: made.recorder.values(host, "vcr.heartbeat"), host)  # type: ignore[misc]
        wait_for(lambda: "following libvirt's events" in made.said("vcrecovery-snmp-agent"), "the notifier", 120)
        yield made
    finally:
        for run_dir in folder.rglob("run/daemons"):
            end_daemons(run_dir)
        made.recorder.stop()
        libvirt.close()
        shutil.rmtree(folder)


def test_passphrases_are_replaced_and_nobody_is_refused(site: Site) -> None:
    assert site.rotate() == 0
    site.choose()
    assert site.rotate("--check") == 3
    # None is left out.
    refused = site.play(ROTATION, "--tags", "snmp", "--limit", "hv1,mon")
    assert refused.returncode != 0
    assert "without --limit" in refused.stdout
    assert site.answers("hv1", 1)
    with Observer(site) as observer:
        assert site.rotate() == CHANGES
    log.info("heard after %.1f s at most, heartbeats %.1f s apart at most", max(observer.lags), observer.silence)
    observer.assert_nobody_was_refused()
    site.assert_rotated()
    assert site.rotate() == 0
    # What the role makes, the rotation leaves.
    done = site.play(site.folder / "play.yml")
    assert set(re.findall(r"changed=(\d+)", done.stdout)) == {"0"}, done.stdout


@pytest.mark.at_length
def test_wherever_it_is_cut_off_the_next_run_finishes_it(site: Site) -> None:
    """Each run goes on where the one before was cut off, and is cut off itself; the last one finishes it."""
    site.choose()
    with Observer(site) as observer:
        # After 2, 11, 23, 30 and 44 changes of one rotation, about.
        for changes in (2, 9, 12, 7, 14):
            assert site.rotate_cut_off(changes), changes
        assert site.rotate() > 0
    observer.assert_nobody_was_refused()
    site.assert_rotated()
