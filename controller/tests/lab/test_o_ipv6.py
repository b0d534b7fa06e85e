"""A failover to a standby with two addresses: both answer, and both are in DNS."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from vcrecovery_lab.lxd_network import remove_pool_and_network

from .conftest import Lab
from .name_servers import NameServer, plan_section
from .own_standby import own_standby, pool

pytestmark = pytest.mark.lab

BRIDGE = "vcrt-six"
CONNECT = [sys.executable, "-c", "import socket, sys; socket.create_connection((sys.argv[1], 80), 5)", "{address}"]


def test_a_standby_with_two_addresses(lab: Lab, tmp_path: Path) -> None:
    server = NameServer("ns1", tmp_path / "ns1")
    records = "www 5 IN A 10.10.0.10\nwww 5 IN AAAA fd00:10::10\n"
    grants = ["name www.example.test. A AAAA", "name _vcrecovery.www.example.test. TXT"]
    server.serve("example.test", records, grants)
    with pool(lab, "vcrt-six", "dir") as name, own_standby(lab, "vcrt-six", name, tmp_path) as standby:
        plan = standby.data
        network = {"bridge": BRIDGE, "address": "10.211.4.1/24", "address6": "fd00:211:4::1/64"}
        plan["secondaries"]["sec1"]["network"] = network
        plan["dns"] = plan_section({"example.test": [server]}, tmp_path)
        service = plan["services"]["vcrt-six"]
        service["primary"] |= {"address": "10.10.0.10", "address6": "fd00:10::10"}
        record = {"name": "www.example.test", "zone": "example.test", "ttl": 5}
        try:
            server.start()
            standby.write_plan(
                standby={"secondary": "sec1", "address": "10.211.4.10", "address6": "fd00:211:4::10"},
                ports=[80, {"http": {"port": 80, "status": [200]}}, {"command": CONNECT}],
                dns=[record, record | {"type": "AAAA"}],
                timeouts={"ports": "60s"},
            )
            assert f"network {BRIDGE} created" in standby.apply()
            assert standby.apply() == "vcrt-six: nothing to do"
            standby.make_source()
            assert standby.sync().returncode == 0
            done = standby.fail_over()
            assert done.returncode == 0, done.stderr
            assert "[fd00:211:4::10]:80 http /" in done.stdout
            assert "fd00:211:4::10 python" in done.stdout
            assert "www.example.test -> 10.211.4.10, fd00:211:4::10" in done.stdout
            assert server.dig("www.example.test", "A") == ["10.211.4.10"]
            assert server.dig("www.example.test", "AAAA") == ["fd00:211:4::10"]
        finally:
            server.stop()
            standby.remove()
            remove_pool_and_network(standby.lxd, "vcrt-none", BRIDGE)
