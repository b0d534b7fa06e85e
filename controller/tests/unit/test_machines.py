"""The VM of a secondary: its definition, its seed, and what `plan check` says of it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from vcrecovery.machines.definition import definition, signature_in
from vcrecovery.machines.machine import Machine
from vcrecovery.machines.seed import FILES, Seed, seed_files
from vcrecovery.plan.load import load_with_warnings
from vcrecovery.plan.problems import PlanError

GIB = 1 << 30
MACHINE = Machine("sec1", "hv2", 2, 4 * GIB, 40 * GIB, 0, "br0", "", "/images")
SEED = Seed(
    "sec1", "192.0.2.20/24", "192.0.2.1", ("192.0.2.53",), ("ssh-ed25519 AAAA me",), ("PRIVATE", "ssh-ed25519 B")
)


def defined(machine: Machine, seed: Seed = SEED) -> str:
    return definition(machine, "kvm", seed_files(machine, seed))


def test_the_definition_says_what_was_asked_for() -> None:
    machine = dataclasses.replace(MACHINE, standbys_disk=100 * GIB, standbys_network="br1")
    tree = ET.fromstring(defined(machine))  # noqa: S314  our own
    assert (tree.get("type"), tree.findtext("name"), tree.findtext("vcpu")) == ("kvm", "sec1", "2")
    assert tree.findtext("memory") == str(4 * GIB)
    assert [disk.get("file") for disk in tree.findall("devices/disk/source")] == [
        "/images/sec1.qcow2",
        "/images/sec1-standbys.img",
        "/images/sec1-seed.iso",
    ]
    assert [card.get("bridge") for card in tree.findall("devices/interface/source")] == ["br0", "br1"]
    macs = [card.get("address") for card in tree.findall("devices/interface/mac")]
    assert len(set(macs)) == 2
    assert all(mac is not None and mac.startswith("52:54:00:") for mac in macs)


def test_names_that_xml_would_take_for_something_else() -> None:
    tree = ET.fromstring(defined(dataclasses.replace(MACHINE, folder="/a&b'<c>")))  # noqa: S314  our own
    first = tree.find("devices/disk/source")
    assert first is not None
    assert first.get("file") == "/a&b'<c>/sec1.qcow2"


def test_its_signature_changes_with_all_that_it_is_made_of() -> None:
    others = [
        defined(dataclasses.replace(MACHINE, memory=8 * GIB)),
        defined(dataclasses.replace(MACHINE, owner="hv3")),
        defined(MACHINE, dataclasses.replace(SEED, address="192.0.2.21/24")),
        defined(MACHINE, dataclasses.replace(SEED, root_keys=())),
        definition(MACHINE, "qemu", seed_files(MACHINE, SEED)),
    ]
    assert len({signature_in(xml) for xml in [defined(MACHINE), *others]}) == 6
    # As libvirt writes it.
    assert signature_in(defined(MACHINE).replace("'", '"')) == signature_in(defined(MACHINE))
    assert signature_in("<domain><name>sec1</name></domain>") == ""


def test_the_seed_is_what_cloud_init_reads() -> None:
    machine = dataclasses.replace(MACHINE, standbys_disk=GIB, standbys_network="br1")
    texts = seed_files(machine, SEED)
    assert tuple(texts) == FILES
    user = yaml.safe_load(texts["user-data"])
    assert texts["user-data"].startswith("#cloud-config\n")
    assert user["ssh_authorized_keys"] == ["ssh-ed25519 AAAA me"]
    assert user["ssh_keys"] == {"ed25519_private": "PRIVATE", "ed25519_public": "ssh-ed25519 B"}
    assert user["mounts"][0][:3] == ["LABEL=standbys", "/srv/standbys", "ext4"]
    assert user["bootcmd"] == [["ip", "link", "set", "dev", "standbys", "up"]]
    cards = yaml.safe_load(texts["network-config"])["ethernets"]
    assert cards["eth0"]["match"] == {"macaddress": machine.cards[0].mac}
    assert (cards["eth0"]["addresses"], cards["eth0"]["gateway4"]) == (["192.0.2.20/24"], "192.0.2.1")
    assert (cards["standbys"]["match"], cards["standbys"]["dhcp4"]) == ({"macaddress": machine.cards[1].mac}, False)


def test_another_seed_is_another_instance() -> None:
    def instance(seed: Seed) -> str:
        return str(json.loads(seed_files(MACHINE, seed)["meta-data"])["instance-id"])

    assert instance(SEED) == instance(dataclasses.replace(SEED))
    assert instance(SEED) != instance(dataclasses.replace(SEED, name_servers=()))


def a_plan(**vm: Any) -> dict[str, Any]:
    image = {"image": "/images/debian.qcow2", "network": "br0"}
    return {
        "version": 1,
        "hypervisors": {"hv1": {}, "hv2": {}},
        "secondaries": {
            "sec1": {
                "network": {"bridge": "vcr0", "address": "10.20.0.1/24"},
                "receiver": {"address": "192.0.2.20"},
                "vm": {"hypervisor": "hv2", "address": "192.0.2.20/24", **image, **vm},
            }
        },
        "services": {
            "web": {
                "primary": {
                    "hypervisor": "hv1",
                    "uuid": "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001",
                    "address": "192.0.2.10",
                },
                "standby": {"secondary": "sec1", "address": "10.20.0.10"},
                "ports": [80],
            }
        },
    }


def said_of(tmp_path: Path, plan: dict[str, Any]) -> list[str]:
    file = tmp_path / "plan.yml"
    file.write_text(yaml.safe_dump(plan))
    try:
        return [str(warning) for warning in load_with_warnings(file)[1]]
    except PlanError as error:
        return [str(problem) for problem in error.problems]


def test_a_good_one(tmp_path: Path) -> None:
    assert said_of(tmp_path, a_plan()) == []


@pytest.mark.parametrize(
    ("vm", "said"),
    [
        ({"hypervisor": "hv3"}, "no hypervisor is called 'hv3'"),
        ({"hypervisor": "hv1"}, "hv1 also runs what stands by there (web): when it fails, both are gone"),
        ({"gateway": "198.51.100.1"}, "198.51.100.1 is not in 192.0.2.0/24"),
        ({"address": "192.0.2.21/24"}, "192.0.2.20 is no address of its VM, which has 192.0.2.21 and 10.20.0.1"),
        ({"address": "10.20.0.20/24"}, "10.20.0.0/24 overlaps 10.20.0.0/24, in which the VM has its address"),
        ({"memory": "256MiB"}, "memory is below 512MiB"),
        ({"image": "debian.qcow2"}, "'debian.qcow2' is not absolute"),
        ({"network": "a bridge"}, "network"),
    ],
)
def test_what_cannot_be_or_should_not(tmp_path: Path, vm: dict[str, Any], said: str) -> None:
    found = said_of(tmp_path, a_plan(**vm))
    assert any(said in line for line in found), found


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("hv2", "hv2 runs the VMs of both sec1 and sec2: when it fails, both are gone"),
        ("hv1", "hv1 also runs its primary: when it fails, that and its spare are gone"),
        ("hv3", ""),
    ],
)
def test_a_spare_that_would_fail_with_what_it_is_for(tmp_path: Path, host: str, said: str) -> None:
    plan = a_plan()
    first = plan["secondaries"]["sec1"]
    plan["hypervisors"]["hv3"] = {}
    plan["secondaries"]["sec2"] = {
        "lxd": "/run/sec2/unix.socket",
        "network": {"bridge": "vcr0", "address": "10.21.0.1/24"},
        "receiver": {"address": "192.0.2.21"},
        "vm": {**first["vm"], "hypervisor": host, "address": "192.0.2.21/24"},
    }
    plan["services"]["web"]["standby"]["spare"] = {"secondary": "sec2", "address": "10.21.0.10"}
    found = said_of(tmp_path, plan)
    assert [said in line and "standby.spare.secondary" in line for line in found] == ([True] if said else []), found


def test_two_that_are_one(tmp_path: Path) -> None:
    plan = a_plan(domain="standbys")
    second = {**plan["secondaries"]["sec1"], "network": {"bridge": "vcr0", "address": "10.21.0.1/24"}}
    plan["secondaries"]["sec2"] = second
    found = said_of(tmp_path, plan)
    assert any("standbys on hv2 is the VM of secondary sec1 already" in line for line in found), found
    assert any("192.0.2.20 is the address of secondary sec1 already" in line for line in found), found
