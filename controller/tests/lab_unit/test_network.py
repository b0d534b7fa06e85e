"""Which networks the lab refuses to use."""

from ipaddress import ip_network

import pytest

from vcrecovery_lab import network
from vcrecovery_lab.network import overlap
from vcrecovery_lab.run import LabError

USED = [("eth0", ip_network("192.0.2.0/24")), ("eth1", ip_network("10.1.2.3/32")), ("eth0", ip_network("fd00::/64"))]


@pytest.mark.parametrize("cidr", ["192.0.2.0/24", "192.0.2.128/25", "192.0.0.0/16", "10.1.2.0/24", "fd00::/16"])
def test_overlap(cidr: str) -> None:
    assert overlap(ip_network(cidr), USED) is not None


@pytest.mark.parametrize("cidr", ["192.0.3.0/24", "10.1.3.0/24", "fd01::/64", "::/128"])
def test_no_overlap(cidr: str) -> None:
    assert overlap(ip_network(cidr), USED) is None


def test_a_network_in_use_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "used_networks", lambda but: USED)
    with pytest.raises(LabError, match=r"vcrlab-x: 192\.0\.2\.0/24 overlaps 192\.0\.2\.0/24 on eth0"):
        network.ensure_bridge("vcrlab-x", "192.0.2.1/24")


def test_used_networks_leaves_out_the_own_interface_and_the_default_route(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        ("address", "show"): [
            {"ifname": "eth0", "addr_info": [{"local": "192.0.2.2", "prefixlen": 24}]},
            {"ifname": "vcrlab-x", "addr_info": [{"local": "10.211.1.1", "prefixlen": 24}]},
        ],
        ("-4", "route", "show"): [{"dst": "default", "dev": "eth0"}, {"dst": "10.9.0.0/16", "dev": "eth0"}],
        ("-6", "route", "show"): [],
    }
    monkeypatch.setattr(network, "_ip_json", lambda *words: answers[words])
    assert network.used_networks(but="vcrlab-x") == [
        ("eth0", ip_network("192.0.2.0/24")),
        ("eth0", ip_network("10.9.0.0/16")),
    ]
