"""A site whose secondary is a VM that `site.yml` makes of a cloud image, and a controller that reaches it over HTTPS.

The services' own VM is one that does nothing. The standbys are on a network that this machine is on, too.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import LxdServer, OverHttps
from vcrecovery_lab import machine
from vcrecovery_lab.cloud_image import cloud_image
from vcrecovery_lab.image import Image
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.network import ensure_bridge, remove_bridge
from vcrecovery_lab.progress import Progress
from vcrecovery_lab.run import run
from vcrecovery_lab.secondary_vm.site import uuid_of

from .loaded_program import LOADED
from .role_plays import end_daemons

SECONDARY, DOMAIN, SERVICE = "sec9", "vcrlab-sec9", "web"
#: What the VM is on, and what its standbys are on.
BRIDGE, STANDBYS = "vcrlab-made", "vcrlab-madestb"
ADDRESS, STANDBY = "10.211.15.20", "10.211.16.10"
BLANK = "vcrlab-made-web"
#: Its CPUs may be emulated, and most of a play is waiting for them.
PLAY_WITHIN = 1200.0
MIB = 1 << 20


class MadeSite:
    def __init__(self, folder: Path, disk: Path) -> None:
        self.folder = folder
        self.own = folder / "ctl"
        self.key = folder / "key"
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "vcrlab", "-f", self.key], timeout=30)
        certificates = {name: str(self.own / f"lxd/{name}") for name in ("certificate", "key", "server_certificate")}
        self.vm: dict[str, Any] = {
            "hypervisor": "hv2",
            "domain": DOMAIN,
            "cores": 2,
            "memory": "1536MiB",
            "disk": "5GiB",
            "standbys_disk": "2GiB",
            "image": str(disk),
            "network": BRIDGE,
            "address": f"{ADDRESS}/24",
            "gateway": "10.211.15.1",
            "standbys_network": STANDBYS,
        }
        self.plan: dict[str, Any] = {
            "version": 1,
            "state_dir": str(self.own / "state"),
            "hypervisors": {"hv1": {}, "hv2": {}},
            "secondaries": {
                SECONDARY: {
                    "lxd": {"url": f"https://{ADDRESS}:8443", **certificates},
                    "storage_pool": "standbys",
                    "network": {"bridge": "vcr0", "address": "10.211.16.2/24"},
                    "receiver": {"address": ADDRESS},
                    "vm": self.vm,
                }
            },
            "services": {
                SERVICE: {
                    "primary": {"hypervisor": "hv1", "uuid": uuid_of(BLANK), "address": "10.211.15.31"},
                    "standby": {"secondary": SECONDARY, "address": STANDBY},
                    "ports": [80],
                    "first_units": ["nginx.service"],
                    "timeouts": {"start": "2m", "ports": "2m"},
                }
            },
        }

    @property
    def plan_file(self) -> Path:
        return self.own / "etc/plan.yml"

    @property
    def lxd(self) -> LxdServer:
        place = self.plan["secondaries"][SECONDARY]["lxd"]
        paths = [Path(place[name]) for name in ("certificate", "key", "server_certificate")]
        return LxdServer(SECONDARY, OverHttps(place["url"], *paths), SystemClock())

    def vcrecovery(self, *words: str) -> subprocess.CompletedProcess[str]:
        return LOADED.run([*words, "--plan", str(self.plan_file)], 600)

    def play(self, *words: str, playbook: str = "site.yml") -> str:
        """What `ansible-playbook` prints; a failure of it is one of the test's."""
        inventory = self.folder / "inventory.json"
        inventory.write_text(json.dumps(self._inventory()))
        environment = {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg")}
        command: list[str | Path] = [
            CHECKOUT / ".venv/bin/ansible-playbook",
            CHECKOUT / playbook,
            "-i",
            inventory,
            *words,
        ]
        done = run(command, timeout=PLAY_WITHIN, env=environment, check=False)
        assert done.returncode == 0, (done.stdout[-4000:], done.stderr[-2000:])
        return done.stdout

    def changed(self, *words: str, playbook: str = "site.yml") -> dict[str, int]:
        """How many tasks have changed something, on each host."""
        recap = self.play(*words, playbook=playbook).rpartition("PLAY RECAP")[2]
        return {host: int(count) for host, count in re.findall(r"^(\w+) .*changed=(\d+)", recap, re.MULTILINE)}

    def ssh(self, text: str) -> str:
        """What a shell command prints in the VM, whose host key is known before it has ever answered."""
        options: list[str | Path] = [
            "-o",
            f"UserKnownHostsFile={self.folder}/known_hosts",
            "-o",
            "StrictHostKeyChecking=yes",
        ]
        words: list[str | Path] = [
            "ssh",
            "-F",
            "none",
            "-i",
            str(self.key),
            *options,
            "-o",
            "BatchMode=yes",
            f"root@{ADDRESS}",
            text,
        ]
        return run(words, timeout=300).stdout

    def _inventory(self) -> dict[str, Any]:
        roles = ("hypervisor", "secondary", "secondary_vm", "controller")
        common: dict[str, Any] = {f"{role}_packages": [] for role in roles}
        hosts = f"-o UserKnownHostsFile={self.folder}/known_hosts -o StrictHostKeyChecking=yes"
        own = {
            "ansible_connection": "local",
            "vcrecovery_config_dir": str(self.own / "etc"),
            "vcrecovery_run_dir": str(self.own / "run"),
            "vcrecovery_log_dir": str(self.own / "log"),
            "vcrecovery_command_dir": "",
            "vcrecovery_completion_dir": "",
            "vcrecovery_man_dir": "",
            "controller_venv": str(self.own / "program"),
        }
        there = {
            "ansible_host": ADDRESS,
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.key),
            "ansible_ssh_common_args": hosts,
        }
        variables = {
            **common,
            "vcrecovery_plan": self.plan,
            "vcrecovery_state_dir": self.plan["state_dir"],
            "controller_wheel_args": ["--no-build-isolation"],
            "secondary_seeds": {SERVICE: f"/srv/{SERVICE}"},
            "secondary_vm_root_keys": [self.key.with_suffix(".pub").read_text().strip()],
            "secondary_vm_folder": str(self.folder),
            "secondary_vm_accelerator": "qemu",
            "secondary_vm_known_hosts": str(self.folder / "known_hosts"),
        }
        groups = {
            "hypervisors": {"hosts": {"hv2": {"ansible_connection": "local"}}},
            "secondaries": {"hosts": {SECONDARY: there}},
            "controllers": {"hosts": {"ctl": own}},
        }
        return {"all": {"vars": variables, "children": groups}}


@contextmanager
def made_site(folder: Path, image: Image, progress: Progress) -> Iterator[MadeSite]:
    """Nothing of it is made yet but the bridges, and the service's VM. `folder`: one that QEMU's user can enter."""
    with ExitStack() as ends:
        for bridge, network in ((BRIDGE, "10.211.15.1/24"), (STANDBYS, "10.211.16.1/24")):
            ensure_bridge(bridge, network)
            ends.callback(remove_bridge, bridge)
        site = MadeSite(folder, cloud_image(progress, {SERVICE: image.rootfs}))
        ends.callback(end_daemons, site.own / "run/daemons")
        ends.callback(run, ["virsh", "undefine", DOMAIN], timeout=60, check=False)
        ends.callback(run, ["virsh", "destroy", DOMAIN], timeout=60, check=False)
        machine.create_blank(BLANK, uuid_of(BLANK))
        ends.callback(machine.destroy_and_undefine_blank, BLANK)
        yield site
