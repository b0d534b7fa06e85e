"""A whole failover with a virtual address in place of DNS: on the real LXD, for a client beside the old holder."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from vcrecovery_lab.run import run

from .conftest import Lab
from .netfilter import forget_the_chain
from .own_standby import own_standby, pool
from .waiting import wait_for

pytestmark = pytest.mark.lab

NAME = "vcrt-vip"
#: The clients' network; this machine, which is the secondary, is in it too.
BRIDGE = "vcrt-vip"
HERE, CLIENT, VIP, LENGTH = "10.211.4.1", "10.211.4.10", "10.211.4.50", 25


class Clients:
    """A client and the old holder of the address, each a namespace, on one bridge with this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def inside(self, name: str, *words: str | Path, check: bool = True) -> str:
        return run(["ip", "netns", "exec", f"vcrt-vip-{name}", *words], timeout=60, check=check).stdout.strip()

    def page(self) -> str:
        """What the client gets at the address."""
        words = ["curl", "--silent", "--noproxy", "*", "--max-time", "30", f"http://{VIP}/"]
        return self.inside("client", *words, check=False)

    def neighbour(self) -> str:
        """The hardware address that the client has in its cache."""
        words = self.inside("client", "ip", "neigh", "show", VIP).split()
        return words[words.index("lladdr") + 1] if "lladdr" in words else ""

    def serve_from_old(self) -> subprocess.Popen[bytes]:
        (self.folder / "index.html").write_text("old\n")
        server = [sys.executable, "-m", "http.server", "--directory", str(self.folder), "80"]
        words = ["ip", "netns", "exec", "vcrt-vip-old", *server]
        return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[Clients]:
    folder = tmp_path / "old"
    folder.mkdir()
    made = Clients(folder)
    with ExitStack() as undo:
        run(["ip", "link", "add", BRIDGE, "type", "bridge"], timeout=30)
        undo.callback(run, ["ip", "link", "del", BRIDGE], timeout=30)
        run(["ip", "address", "add", f"{HERE}/{LENGTH}", "dev", BRIDGE], timeout=30)
        run(["ip", "link", "set", BRIDGE, "up"], timeout=30)
        for name, address in (("client", CLIENT), ("old", VIP)):
            space, end = f"vcrt-vip-{name}", f"vcrtv-{name}"
            run(["ip", "netns", "add", space], timeout=30)
            undo.callback(run, ["ip", "netns", "del", space], timeout=30)
            run(["ip", "link", "add", end, "type", "veth", "peer", "name", "lan", "netns", space], timeout=30)
            run(["ip", "link", "set", end, "master", BRIDGE, "up"], timeout=30)
            made.inside(name, "ip", "address", "add", f"{address}/{LENGTH}", "dev", "lan")
            made.inside(name, "ip", "link", "set", "lo", "up")
            made.inside(name, "ip", "link", "set", "lan", "up")
        server = made.serve_from_old()
        undo.callback(server.wait, 30)
        undo.callback(server.kill)
        undo.callback(forget_the_chain)
        yield made


def hardware_of_this_machine() -> str:
    return Path(f"/sys/class/net/{BRIDGE}/address").read_text().strip()


def addresses_here() -> str:
    return run(["ip", "-4", "address", "show", "dev", BRIDGE], timeout=30).stdout


def test_a_failover_with_a_virtual_address(lab: Lab, tmp_path: Path, clients: Clients) -> None:
    with pool(lab, NAME, "dir") as name, own_standby(lab, NAME, name, tmp_path, timeouts={"ports": "60s"}) as standby:
        standby.write_plan(virtual_ip={"address": f"{VIP}/{LENGTH}", "interface": BRIDGE})
        standby.apply()
        standby.make_source()
        assert standby.sync().returncode == 0
        wait_for(lambda: clients.page() == "old", "the old holder's answer")
        old = clients.neighbour()
        assert old not in ("", hardware_of_this_machine())

        # The operator's word was wrong: the address is not taken from one that still has it.
        early = standby.fail_over()
        assert early.returncode == 4
        assert f"{old} still has {VIP} on {BRIDGE}" in early.stderr
        assert VIP not in addresses_here()
        assert clients.page() == "old"

        clients.inside("old", "ip", "link", "set", "lan", "down")
        # Held for the client as the old one's, and not asked for again: only an announcement can change it.
        clients.inside("client", "ip", "neigh", "replace", VIP, "lladdr", old, "dev", "lan", "nud", "reachable")
        done = standby.fail_over()
        assert done.returncode == 0, done.stderr
        assert f"{VIP} on {BRIDGE} -> {standby.data['services'][NAME]['standby']['address']}" in done.stdout
        wait_for(lambda: clients.neighbour() == hardware_of_this_machine(), "the news in the client's cache")
        wait_for(lambda: clients.page() == "one", "the standby's answer at the address")
        # Also to one who asks who has it, nobody else answers.
        clients.inside("client", "ip", "neigh", "flush", "dev", "lan")
        assert clients.page() == "one"
        assert clients.neighbour() == hardware_of_this_machine()
        (shown,) = json.loads(standby.vcrecovery("status", NAME, "--json").stdout)["services"]
        assert (shown["serves"], shown["virtual_ip"]) == ("standby", f"{VIP} on {BRIDGE}")

        standby.stand_by_again()
        assert VIP not in addresses_here()
        assert VIP not in run(["iptables", "-w", "5", "-t", "nat", "-S"], timeout=30).stdout
        clients.inside("old", "ip", "link", "set", "lan", "up")
        wait_for(lambda: clients.page() == "old", "the primary's answer, which has its address back")
