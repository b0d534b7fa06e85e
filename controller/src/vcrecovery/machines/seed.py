"""What cloud-init finds at the boot of such a VM (its data source NoCloud): a disk with the label `cidata`."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Tuple

from .iso import iso
from .machine import STANDBYS_CARD, Machine

#: The names of the files on that disk.
FILES = ("meta-data", "user-data", "network-config")
#: Where a disk of the standbys' own is mounted. LXD wants an empty folder for a pool: `pool` in it.
STANDBYS_MOUNT = "/srv/standbys"


@dataclass(frozen=True)
class Place:
    """What it is called, and where it is found. `address` is in CIDR notation, `gateway` empty for none."""

    host_name: str
    address: str
    gateway: str
    name_servers: Tuple[str, ...]


@dataclass(frozen=True)
class Seed(Place):
    """`root_keys`: public SSH keys that may log in as root.

    `host_key`: the private and the public key that the VM's SSH server shows, so that nobody has to believe the first
    answer.
    """

    root_keys: Tuple[str, ...]
    host_key: Tuple[str, str]


def seed_files(machine: Machine, seed: Seed) -> Dict[str, str]:
    """The text of each of FILES. JSON is YAML."""
    return seed_files_with(machine, seed, f"#cloud-config\n{_text(_user_data(machine, seed))}")


def seed_files_with(machine: Machine, place: Place, user: str) -> Dict[str, str]:
    """The same, with other user data."""
    network = _text(_network(machine, place))
    # cloud-init does its work once for each instance: what has changed is another one.
    known = hashlib.sha256(f"{machine.uuid}\0{network}\0{user}".encode()).hexdigest()
    meta = _text({"instance-id": f"vcr-{known[:16]}", "local-hostname": place.host_name})
    return {"meta-data": meta, "user-data": user, "network-config": network}


def seed_disk(files: Mapping[str, str]) -> bytes:
    """The whole disk with them, as cloud-init looks for it."""
    return iso("cidata", {name: text.encode() for name, text in files.items()})


def _network(machine: Machine, place: Place) -> Dict[str, Any]:
    own, *standbys = machine.cards
    card: Dict[str, Any] = {"match": {"macaddress": own.mac}, "set-name": "eth0", "addresses": [place.address]}
    if place.gateway:
        card["gateway4"] = place.gateway
    if place.name_servers:
        card["nameservers"] = {"addresses": list(place.name_servers)}
    cards = {"eth0": card}
    if standbys:
        # LXD makes its bridge over it; it has no address of its own.
        cards[STANDBYS_CARD] = {
            "match": {"macaddress": standbys[0].mac},
            "set-name": STANDBYS_CARD,
            "dhcp4": False,
            "optional": True,
        }
    return {"version": 2, "ethernets": cards}


def _user_data(machine: Machine, seed: Seed) -> Dict[str, Any]:
    mounts: List[List[str]] = []
    if machine.standbys_disk:
        users = ("lxd.service", "snap.lxd.daemon.service", "incus.service")
        options = ",".join(["defaults", "nofail", *(f"x-systemd.before={unit}" for unit in users)])
        mounts = [[f"LABEL={STANDBYS_CARD}", STANDBYS_MOUNT, "ext4", options, "0", "2"]]
    return {
        "hostname": seed.host_name,
        "manage_etc_hosts": True,
        "users": [],
        "disable_root": False,
        "ssh_pwauth": False,
        "ssh_authorized_keys": list(seed.root_keys),
        "ssh_keys": {"ed25519_private": seed.host_key[0], "ed25519_public": seed.host_key[1]},
        "growpart": {"mode": "auto", "devices": ["/"]},
        "resize_rootfs": True,
        "mounts": mounts,
        # At each boot: LXD makes it a port of its bridge, and leaves it down; so do some who configure networks.
        "bootcmd": [["ip", "link", "set", "dev", STANDBYS_CARD, "up"]] if machine.standbys_network else [],
    }


def _text(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"
