"""`python -m install_bench.hosts`: a control node and the site on 3 and on 30 hosts, all of them new machines.

They are containers. No standby starts in them, and no VM boots: Ansible's own time, and that of what it installs.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from exclude_bench.command import Benchmark
from exclude_bench.target import Target
from relay_bench.results import section, verdicts
from vcrecovery_lab.built_collection import BuiltCollection, build_and_install
from vcrecovery_lab.molecule import SCENARIOS, environment, place_for_machines
from vcrecovery_lab.progress import stderr_progress
from vcrecovery_lab.systems import SYSTEMS, System

from .plays import ROLE, Played, play

#: Hosts of each site: one is hypervisor and name server, one secondary and controller, and the others are primaries.
SITES = (3, 30)
#: Seconds.
PREPARED, PLAYED = 1800.0, 3600.0
_SHARED = SCENARIOS / "shared"
#: What one user may have, and what each systemd takes of it: the roots of all the containers are one user.
_LIMITS = {"fs/inotify/max_user_instances": 64, "kernel/keys/maxkeys": 100, "kernel/keys/maxbytes": 10_000}


@dataclass(frozen=True)
class Site:
    hosts: int
    first: Played
    second: Played


@dataclass(frozen=True)
class Step:
    command: str
    seconds: float


@dataclass(frozen=True)
class Results:
    load: float
    control: list[Step]
    sites: list[Site]
    targets: list[Target]


def inventory(hosts: int, system: System) -> Mapping[str, Any]:
    """As a site's own; `hosts` is 3 at least."""
    hypervisor, secondary = f"{system.prefix}.11", f"{system.prefix}.12"
    names = [f"web{number}" for number in range(1, hosts - 1)]
    addresses = {name: f"{system.prefix}.{100 + number}" for number, name in enumerate(names)}
    plan = {
        "version": 1,
        "hypervisors": {
            "hv1": {"uri": f"qemu+ssh://vcrecovery@{hypervisor}/system?no_verify=1&keyfile=/root/.ssh/id_ed25519"}
        },
        "secondaries": {
            "sec1": {
                "lxd": "/var/lib/lxd/unix.socket",
                "storage_pool": "standbys",
                "network": {"bridge": "vcr0", "address": "10.20.0.1/24"},
                "receiver": {"address": secondary},
            }
        },
        "dns": {
            "servers": {"ns1": {"address": hypervisor}},
            "keys": {"failover": {"name": "failover.key", "secret_file": "/etc/vcrecovery/tsig/failover.key"}},
            "zones": {"example.test": {"servers": ["ns1"], "key": "failover"}},
        },
        "services": {
            name: {
                "primary": {
                    "hypervisor": "hv1",
                    "uuid": f"6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e{number:04x}",
                    "address": addresses[name],
                },
                "standby": {"secondary": "sec1", "address": f"10.20.0.{100 + number}"},
                "ports": [22],
                "dns": [{"name": f"{name}.example.test", "zone": "example.test", "ttl": 5}],
            }
            for number, name in enumerate(names)
        },
    }
    children = {
        "hypervisors": {"ns1": {"ansible_host": hypervisor}},
        "dns_servers": {"ns1": {}},
        # With all of this machine's IDs, of which LXD in it gives each standby some.
        "secondaries": {"sec1": {"ansible_host": secondary, "molecule_privileged": True}},
        "controllers": {"sec1": {}},
        "primaries": {name: {"ansible_host": addresses[name], "primary_service": name} for name in names},
    }
    own_key = "lookup('ansible.builtin.env', 'ANSIBLE_PRIVATE_KEY_FILE') ~ '.pub'"
    keys = ["{{ lookup('ansible.builtin.file', " + own_key + ") }}"]
    return {
        "all": {
            "children": {group: {"hosts": of_it} for group, of_it in children.items()},
            "vars": {"vcrecovery_plan": plan, "hypervisor_fencing_keys": keys},
        }
    }


def control_node(built: BuiltCollection, system: System) -> list[Step]:
    """What makes a new machine one that Ansible runs on, with the collection. Raises LabError when anything fails."""
    file = built.folder / "control.yml"
    file.write_text(yaml.safe_dump({"all": {"hosts": {"control": {"ansible_host": f"{system.prefix}.10"}}}}))
    commands = (
        "apt-get install --quiet --yes --no-install-recommends python3-venv",
        "python3 -m venv /opt/ansible",
        "/opt/ansible/bin/pip install --quiet ansible-core",
        # Those that it uses come from Galaxy, which not every network of a test has.
        f"/opt/ansible/bin/ansible-galaxy collection install --no-deps /root/{built.archive.name}",
    )
    with place_for_machines(system) as (lxd, image):
        words = ("-i", _SHARED / "inventory/hosts.yml", "-i", file)
        with stderr_progress("a new control node"):
            for playbook in ("create.yml", "prepare.yml"):
                own = environment(lxd, image, system, "control")
                built.ansible("ansible-playbook", _SHARED / playbook, *words, timeout=PREPARED, **own)
            lxd.lxc("file", "push", str(built.archive), "control/root/")
        steps = []
        for command in commands:
            begun = time.monotonic()
            with stderr_progress(command):
                lxd.lxc("exec", "control", "--", "sh", "-c", f"{command} < /dev/null 2>&1")
            steps.append(Step(command, time.monotonic() - begun))
    return steps


@contextmanager
def limits_for(hosts: int) -> Iterator[None]:
    """On a usual machine thirty containers have too little: some of their units fail."""
    files = {Path("/proc/sys", name): each * hosts for name, each in _LIMITS.items()}
    before = {file: int(file.read_text()) for file in files}
    for file, wanted in files.items():
        file.write_text(str(max(before[file], wanted)))
    try:
        yield
    finally:
        for file, was in before.items():
            file.write_text(str(was))


def laid_out(hosts: int, built: BuiltCollection, system: System) -> Site:
    """Raises LabError when anything of it fails."""
    file = built.folder / f"{hosts}-hosts.yml"
    file.write_text(yaml.safe_dump(inventory(hosts, system)))
    words = ("-i", _SHARED / "inventory/hosts.yml", "-i", file)
    with limits_for(hosts), place_for_machines(system) as (lxd, image):
        own = environment(lxd, image, system, "hosts")
        with stderr_progress(f"{hosts} new machines"):
            for playbook in (_SHARED / "create.yml", SCENARIOS / "primary/prepare.yml"):
                built.ansible("ansible-playbook", playbook, *words, timeout=PREPARED, **own)
        played = []
        for which in ("first", "second"):
            with stderr_progress(f"ansible-playbook vcrecovery.standby.site on {hosts} hosts, {which} run"):
                played.append(play(built, "vcrecovery.standby.site", *words, timeout=PLAYED, environment=own))
    return Site(hosts, *played)


def _measured(folder: Path, quick: bool, _seed: int) -> Results:
    load = os.getloadavg()[0]
    built, system = build_and_install(folder), next(iter(SYSTEMS.values()))
    control = control_node(built, system)
    sites = [laid_out(hosts, built, system) for hosts in (SITES[:1] if quick else SITES)]
    targets = []
    for site in sites:
        for name, seconds in sorted(site.second.roles.items(), key=lambda role: -role[1]):
            title = f"{site.hosts} hosts, second run: {name}"
            targets.append(Target(title, seconds, ROLE, "s", at_most=True))
        title = f"{site.hosts} hosts: what a second run changes"
        targets.append(Target(title, site.second.changed, 0, "tasks", at_most=True, must=True))
    return Results(load, control, sites, targets)


def text(results: Results) -> str:
    runs = [
        (f"{site.hosts}", f"{site.first.seconds:.0f} s", f"{site.first.changed}", f"{site.second.seconds:.1f} s")
        for site in results.sites
    ]
    roles = [
        (f"{site.hosts}", name, f"{site.first.roles.get(name, 0.0):.1f} s", f"{seconds:.1f} s")
        for site in results.sites
        for name, seconds in site.second.roles.items()
    ]
    steps = [(step.command, f"{step.seconds:.1f} s") for step in results.control]
    return "\n".join(
        [
            section(f"A control node of nothing, at a load of {results.load:.1f}", ("command", "takes"), steps),
            section(
                f"The site, at a load of {results.load:.1f}", ("hosts", "first run", "changes", "second run"), runs
            ),
            section("Roles, on all hosts together", ("hosts", "role", "first run", "second run"), roles),
            verdicts(results.targets),
        ]
    )


def main() -> int:
    return Benchmark(
        name="install_bench.hosts",
        about="How long the site's playbook takes on 3 and on 30 hosts, which are containers.",
        seed_of="nothing",
        measure=_measured,
        text=text,
    ).main()


if __name__ == "__main__":
    sys.exit(main())
