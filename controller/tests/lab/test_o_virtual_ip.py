"""A virtual address moves to the standby, and the neighbours, who have the old place in their caches, hear of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from vcrecovery_lab.run import run

from .waiting import wait_for

pytestmark = pytest.mark.lab

#: The network of the clients, and the standbys' own behind the secondary.
VIP = {4: "10.211.4.50/25", 6: "fd00:211:4::50/64"}
STANDBY = {4: "10.211.4.130", 6: "fd00:211:4:1::130"}
ADDRESSES = {
    "client": ("10.211.4.10/25", "fd00:211:4::10/64"),
    "old": (VIP[4], VIP[6]),
    "secondary": ("10.211.4.1/25", "fd00:211:4::1/64"),
}
ACT = """\
import sys
from ipaddress import ip_interface
from vcrecovery.drivers import virtual_ip
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.errors import VCRecoveryError
verb, address, interface, standby = sys.argv[1:]
wanted = virtual_ip.VirtualIp(ip_interface(address), interface)
try:
    match verb:
        case "take": print(virtual_ip.take(wanted, standby, SystemClock()))
        case "holds": print(virtual_ip.holds(wanted, standby))
        case "give-up": virtual_ip.give_up(wanted)
except VCRecoveryError as error:
    sys.exit(str(error))
"""
SERVE = """\
import socket, sys
with socket.create_server(("::", 80), family=socket.AF_INET6, dualstack_ipv6=True) as server:
    while True:
        sock, _ = server.accept()
        with sock:
            sock.sendall(sys.argv[1].encode())
"""
FETCH = """\
import socket, sys
with socket.create_connection((sys.argv[1], 80), 20) as sock:
    print(sock.recv(100).decode())
"""


@dataclass
class Network:
    """Four machines: a client, the old holder of the address, the secondary, and behind that the standby."""

    def inside(self, name: str, *words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        return run(["ip", "netns", "exec", f"vcrt-{name}", *words], timeout=60, check=check)

    def act(self, verb: str, family: int, interface: str = "lan") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", ACT, verb, VIP[family], interface, STANDBY[family]]
        return self.inside("secondary", *command, check=False)

    def fetch(self, family: int) -> str:
        """What the client gets at the address."""
        return self.inside("client", sys.executable, "-c", FETCH, self.vip(family), check=False).stdout.strip()

    def vip(self, family: int) -> str:
        return VIP[family].partition("/")[0]

    def neighbour(self, family: int) -> str:
        """The hardware address that the client has in its cache."""
        words = self.inside("client", "ip", "neigh", "show", self.vip(family)).stdout.split()
        return words[words.index("lladdr") + 1] if "lladdr" in words else ""

    def hardware(self, name: str) -> str:
        return self.inside(name, "cat", "/sys/class/net/lan/address").stdout.strip()

    def old_dies(self) -> None:
        self.inside("old", "ip", "link", "set", "lan", "down")


@pytest.fixture
def network() -> Iterator[Network]:
    made = Network()
    with ExitStack() as undo:

        def namespace(name: str) -> None:
            run(["ip", "netns", "add", f"vcrt-{name}"], timeout=30)
            undo.callback(run, ["ip", "netns", "del", f"vcrt-{name}"], timeout=30)
            made.inside(name, "ip", "link", "set", "lo", "up")

        def wire(name: str, end: str, other: str, other_end: str) -> None:
            peer = ("peer", "name", other_end, "netns", f"vcrt-{other}")
            run(["ip", "link", "add", end, "netns", f"vcrt-{name}", "type", "veth", *peer], timeout=30)
            for where, which in ((name, end), (other, other_end)):
                made.inside(where, "ip", "link", "set", which, "up")

        def address(name: str, interface: str, *addresses: str) -> None:
            for one in addresses:
                nodad = ["nodad"] if ":" in one else []
                made.inside(name, "ip", "address", "add", one, "dev", interface, *nodad)

        for name in ("switch", "standby", *ADDRESSES):
            namespace(name)
        made.inside("switch", "ip", "link", "add", "switch0", "type", "bridge")
        made.inside("switch", "ip", "link", "set", "switch0", "up")
        for name, addresses in ADDRESSES.items():
            wire(name, "lan", "switch", name)
            made.inside("switch", "ip", "link", "set", name, "master", "switch0")
            address(name, "lan", *addresses)
        wire("secondary", "inner", "standby", "eth0")
        address("secondary", "inner", "10.211.4.129/25", "fd00:211:4:1::129/64")
        address("standby", "eth0", f"{STANDBY[4]}/25", f"{STANDBY[6]}/64")
        made.inside("standby", "ip", "route", "add", "default", "via", "10.211.4.129")
        made.inside("standby", "ip", "-6", "route", "add", "default", "via", "fd00:211:4:1::129")
        made.inside("secondary", "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
        for name in ("old", "standby"):
            server = subprocess.Popen(["ip", "netns", "exec", f"vcrt-{name}", sys.executable, "-c", SERVE, name])
            undo.callback(server.wait, 30)
            undo.callback(server.kill)
        yield made


@pytest.mark.parametrize("family", [4, 6])
def test_the_address_moves(network: Network, family: int) -> None:
    wait_for(lambda: network.fetch(family) == "old", "the old holder's answer")
    assert network.neighbour(family) == network.hardware("old")

    refused = network.act("take", family)
    assert refused.returncode == 1
    assert "still has" in refused.stderr
    assert network.act("holds", family).stdout == "False\n"
    assert network.fetch(family) == "old"

    network.old_dies()
    taken = network.act("take", family)
    assert taken.stdout == "True\n", taken.stderr
    # Told, not found out: nothing was asked in between.
    wait_for(lambda: network.neighbour(family) == network.hardware("secondary"), "the news in the client's cache")
    wait_for(lambda: network.fetch(family) == "standby", "the standby's answer")
    assert network.inside("secondary", sys.executable, "-c", FETCH, network.vip(family)).stdout == "standby\n"
    assert network.act("holds", family).stdout == "True\n"

    again = network.act("take", family)
    assert again.stdout == "False\n", again.stderr
    program = "iptables" if family == 4 else "ip6tables"
    rules = network.inside("secondary", program, "-t", "nat", "-S").stdout
    assert rules.count("DNAT") == 1, rules

    # A firewall that is loaded anew: the secondary itself would answer.
    for hook in ("PREROUTING", "OUTPUT"):
        network.inside("secondary", program, "-t", "nat", "-F", hook)
        assert network.act("holds", family).stdout == "False\n"
        assert network.act("take", family).stdout == "False\n"
        assert network.act("holds", family).stdout == "True\n"
    wait_for(lambda: network.fetch(family) == "standby", "the standby's answer again")

    assert network.act("give-up", family).returncode == 0
    assert network.act("holds", family).stdout == "False\n"
    assert network.fetch(family) == ""
    assert "DNAT" not in network.inside("secondary", program, "-t", "nat", "-S").stdout
    assert network.act("give-up", family).returncode == 0


def test_an_address_that_a_killed_controller_left_is_not_taken_from_its_holder(network: Network) -> None:
    wait_for(lambda: network.fetch(6) == "old", "the old holder's answer")
    network.inside("secondary", "ip", "address", "add", VIP[6], "dev", "lan")

    def flags() -> str:
        return network.inside("secondary", "ip", "address", "show", "dev", "lan").stdout

    wait_for(lambda: "dadfailed" in flags(), "the kernel's own look")
    assert network.act("holds", 6).stdout == "False\n"
    refused = network.act("take", 6)
    assert refused.returncode == 1
    assert "still has" in refused.stderr
    assert network.vip(6) not in flags()
    assert network.fetch(6) == "old"
    assert network.neighbour(6) == network.hardware("old")


def test_what_cannot_be_is_said_in_one_line(network: Network) -> None:
    done = network.act("take", 4, "none0")
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "none0" in done.stderr
    network.old_dies()
    network.inside("secondary", "sysctl", "-qw", "net.ipv4.ip_forward=0")
    done = network.act("take", 4)
    assert "this machine forwards nothing" in done.stderr
    assert network.act("holds", 4).stdout == "False\n"
