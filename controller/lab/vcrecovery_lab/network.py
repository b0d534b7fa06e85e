"""Bridges between the host and the lab's machines."""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections.abc import Iterable
from typing import Any

from .run import LabError, run

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_ALIAS = "vcrecovery-lab"
_MAX_NAME = 15


def ensure_bridge(name: str, cidr: str) -> None:
    """Make the bridge, with the host's address on it; refuse a network that this machine uses elsewhere."""
    if len(name) > _MAX_NAME:
        raise LabError(f"network: {name}: interface names have at most {_MAX_NAME} characters")
    address = ipaddress.ip_interface(cidr)
    clash = overlap(address.network, used_networks(but=name))
    if clash:
        raise LabError(f"network: {name}: {address.network} overlaps {clash[1]} on {clash[0]}")
    link = _link(name)
    if link is None:
        # With an address of its own the bridge keeps it whatever ports come and go.
        mac = "02:" + hashlib.sha256(name.encode()).digest()[:5].hex(":")
        _ip("link", "add", "name", name, "address", mac, "type", "bridge")
        _ip("link", "set", "dev", name, "alias", _ALIAS)
    else:
        _require_ours(name, link)
    _ip("address", "replace", str(address), "dev", name)
    _ip("link", "set", "dev", name, "up")


def remove_bridge(name: str) -> None:
    """Remove the bridge if it is there; refuse one that the lab did not make."""
    link = _link(name)
    if link is not None:
        _require_ours(name, link)
        _ip("link", "delete", "dev", name)


def used_networks(but: str) -> list[tuple[str, Network]]:
    """The networks of this machine's addresses and routes on all interfaces but one, without default routes."""
    used: list[tuple[str, Network]] = []
    for link in _ip_json("address", "show"):
        for info in link.get("addr_info", []):
            if "local" in info:
                network = ipaddress.ip_interface(f"{info['local']}/{info['prefixlen']}").network
                used.append((link["ifname"], network))
    for family in ("-4", "-6"):
        for route in _ip_json(family, "route", "show"):
            if route["dst"] != "default" and "dev" in route:
                used += [(route["dev"], ipaddress.ip_network(route["dst"]))]
    return [(interface, network) for interface, network in used if interface != but]


def overlap(network: Network, used: Iterable[tuple[str, Network]]) -> tuple[str, Network] | None:
    """The first of the used networks that shares an address with the given one."""
    for interface, other in used:
        if network.version == other.version and network.overlaps(other):
            return interface, other
    return None


def _require_ours(name: str, link: dict[str, Any]) -> None:
    if link.get("ifalias") != _ALIAS:
        raise LabError(f"network: {name}: exists, and was not made by the lab")


def _link(name: str) -> dict[str, Any] | None:
    links = [link for link in _ip_json("link", "show") if link["ifname"] == name]
    return links[0] if links else None


def _ip_json(*words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(["ip", "-json", *words], timeout=30).stdout or "[]")
    return found


def _ip(*words: str) -> None:
    run(["ip", *words], timeout=30)
