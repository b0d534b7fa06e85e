"""The DNS records of a service on real name servers: all types, several zones and servers, and what goes wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from vcrecovery.core.episode import Episode, Request, Step
from vcrecovery.drivers.dns import Change
from vcrecovery.errors import ExitCode, ExternalError, RefusedError
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover_steps import FailoverSteps
from vcrecovery.plan.load import load_plan

from .name_servers import KEY, SECRET, NameServer, plan_section, zone_of
from .waiting import wait_for

pytestmark = pytest.mark.lab

RECORDS = """\
www 5 IN A 10.10.0.10
www 5 IN AAAA fd00:10::10
shop 5 IN CNAME web1.example.test.
_sip._tcp 5 IN SRV 0 0 5060 web1.example.test.
"""
GRANTS = [
    "name www.example.test. A AAAA",
    "name _vcrecovery.www.example.test. TXT",
    "name shop.example.test. CNAME",
    "name _vcrecovery.shop.example.test. TXT",
    "name _sip._tcp.example.test. SRV",
    "name _vcrecovery._sip._tcp.example.test. TXT",
]
DNS: list[dict[str, Any]] = [
    {"name": "www.example.test", "zone": "example.test", "ttl": 5},
    {"name": "www.example.test", "zone": "example.test", "ttl": 5, "type": "AAAA"},
    {
        "name": "shop.example.test",
        "zone": "example.test",
        "type": "CNAME",
        "primary": "web1.example.test",
        "standby": "Web2.Example.test",
    },
    {
        "name": "_sip._tcp.example.test",
        "zone": "example.test",
        "type": "SRV",
        "primary": {"target": "web1.example.test", "port": 5060},
        "standby": {"target": "web2.example.test", "port": 5061, "priority": 1, "weight": 2},
    },
    {"name": "www.other.test", "zone": "other.test"},
]
BEFORE = {
    ("www.example.test", "A"): ["10.10.0.10"],
    ("www.example.test", "AAAA"): ["fd00:10::10"],
    ("shop.example.test", "CNAME"): ["web1.example.test."],
    ("_sip._tcp.example.test", "SRV"): ["0 0 5060 web1.example.test."],
    ("www.other.test", "A"): ["10.10.0.10"],
}
AFTER = {
    ("www.example.test", "A"): ["10.20.0.10"],
    ("www.example.test", "AAAA"): ["fd00:20::10"],
    ("shop.example.test", "CNAME"): ["web2.example.test."],
    ("_sip._tcp.example.test", "SRV"): ["1 2 5061 web2.example.test."],
    ("www.other.test", "A"): ["10.20.0.10"],
}


@dataclass
class Site:
    """Three servers: ns1 is the primary of example.test and ns2 has a copy; ns3 is the primary of other.test."""

    folder: Path
    servers: dict[str, NameServer]

    @property
    def plan_file(self) -> Path:
        return self.folder / "plan.yml"

    def write_plan(self, **dns: object) -> Path:
        ns1, ns2, ns3 = (self.servers[name] for name in ("ns1", "ns2", "ns3"))
        section = plan_section({"example.test": [ns1, ns2], "other.test": [ns3]}, self.folder)
        plan = {
            "version": 1,
            "state_dir": str(self.folder / "state"),
            "hypervisors": {"hv1": {"uri": f"qemu:///system?socket={self.folder}/none"}},
            "secondaries": {
                "sec1": {
                    "lxd": f"{self.folder}/none",
                    "network": {"bridge": "vcr0", "address": "10.20.0.1/24", "address6": "fd00:20::1/64"},
                    "receiver": {"address": "10.10.0.1"},
                }
            },
            "dns": section | dns,
            "services": {
                "web": {
                    "primary": {
                        "hypervisor": "hv1",
                        "uuid": "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001",
                        "address": "10.10.0.10",
                        "address6": "fd00:10::10",
                    },
                    "standby": {"secondary": "sec1", "address": "10.20.0.10", "address6": "fd00:20::10"},
                    "ports": [80, 5061],
                    "dns": DNS,
                    "timeouts": {"dns": "1s"},
                }
            },
        }
        self.plan_file.write_text(yaml.safe_dump(plan))
        return self.plan_file

    def step(self, step: Step, epoch: int = 1) -> str:
        """Carries a step of a failover out, as a controller does that starts now."""
        episode = Episode(1, "web", epoch, "test", Request(), 0.0)
        return str(FailoverSteps(Environment(load_plan(self.plan_file)), "web").carry_out(step, episode).summary)

    def found(self) -> dict[tuple[str, str], list[str]]:
        """What the primary server of each zone says."""
        by_zone = {"example.test": self.servers["ns1"], "other.test": self.servers["ns3"]}
        return {
            (name, kind): by_zone[name.split(".", name.count(".") - 1)[-1]].dig(name, kind) for name, kind in BEFORE
        }

    def markers(self) -> set[str]:
        ns1, ns3 = self.servers["ns1"], self.servers["ns3"]
        found = [ns1.dig(f"_vcrecovery.{name}", "TXT") for name in ("www.example.test", "shop.example.test")]
        found += [ns1.dig("_vcrecovery._sip._tcp.example.test", "TXT"), ns3.dig("_vcrecovery.www.other.test", "TXT")]
        return {text for texts in found for text in texts}

    def serial(self, server: str, zone: str) -> int:
        return int(self.servers[server].dig(zone, "SOA")[0].split()[2])

    def online_check(self) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "vcrecovery", "plan", "check", "--online", "--plan", str(self.plan_file)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    servers = {name: NameServer(name, tmp_path / name) for name in ("ns1", "ns2", "ns3")}
    ns1, ns2, ns3 = servers.values()
    ns1.serve("example.test", RECORDS, GRANTS, [ns2])
    ns2.follow("example.test", ns1)
    ns3.serve(
        "other.test",
        "www 30 IN A 10.10.0.10\n",
        ["name www.other.test. A", "name _vcrecovery.www.other.test. TXT"],
    )
    site = Site(tmp_path, servers)
    try:
        for server in servers.values():
            server.start()
        site.write_plan()
        yield site
    finally:
        for server in servers.values():
            server.stop()


def test_every_type_in_every_zone_on_every_server(site: Site) -> None:
    assert site.found() == BEFORE
    serials = site.serial("ns1", "example.test"), site.serial("ns3", "other.test")
    said = site.step(Step.SWITCH)
    assert "www.example.test -> 10.20.0.10, fd00:20::10" in said
    assert "www.other.test -> 10.20.0.10" in said
    assert site.found() == AFTER
    assert site.markers() == {'"epoch=1"'}
    # One update for each name, whatever the number of its records: nobody sees half of it.
    assert site.serial("ns1", "example.test") == serials[0] + 3
    assert site.serial("ns3", "other.test") == serials[1] + 1
    wait_for(lambda: site.servers["ns2"].dig("www.example.test", "A") == ["10.20.0.10"], "the transfer to ns2")
    said = site.step(Step.VERIFY)
    assert all(server in said for server in site.servers)
    # Once more is harmless.
    site.step(Step.SWITCH)
    assert site.serial("ns1", "example.test") == serials[0] + 3


def test_an_older_epoch_changes_nothing_at_all(site: Site) -> None:
    site.servers["ns3"].change('update add _vcrecovery.www.other.test 60 TXT "epoch=7"')
    with pytest.raises(RefusedError, match=r"www\.other\.test belongs to epoch 7 by now; this controller is at 1"):
        site.step(Step.SWITCH)
    assert site.found() == BEFORE
    assert site.markers() == {'"epoch=7"'}
    env = Environment(load_plan(site.plan_file))
    assert FailoverSteps(env, "web").epoch_elsewhere() == 7


@pytest.mark.parametrize(
    ("name", "change", "elsewhere"),
    [
        ("www", Change("A", "10.10.0.10", "10.20.0.10", 5), "5 A 10.99.0.99"),
        ("www", Change("AAAA", "fd00:10::10", "fd00:20::10", 5), "5 AAAA fd00:99::99"),
        ("shop", Change("CNAME", "web1.example.test.", "web2.example.test.", 5), "5 CNAME elsewhere.test."),
        ("_sip._tcp", Change("SRV", "0 0 5060 web1.example.test.", "1 2 5061 web2.example.test.", 5), "5 SRV 9 9 9 x."),
    ],
    ids=lambda value: value.kind if isinstance(value, Change) else "",
)
def test_compare_and_swap(site: Site, tmp_path: Path, name: str, change: Change, elsewhere: str) -> None:
    ns1 = site.servers["ns1"]
    zone = zone_of("example.test", [ns1], tmp_path)
    full = f"{name}.example.test"
    # Another controller is faster by a moment: with the value, then with the epoch only.
    prepared = zone.prepare(full, [change], 3)
    ns1.change(f"update delete {full} {change.kind}", f"update add {full} {elsewhere}")
    with pytest.raises(ExternalError, match="just changed by another client; run it again"):
        zone.commit(prepared)
    with pytest.raises(RefusedError, match="which the plan does not know"):
        zone.prepare(full, [change], 3)
    ns1.change(f"update delete {full} {change.kind}", f"update add {full} 5 {change.kind} {change.old}")
    prepared = zone.prepare(full, [change], 3)
    ns1.change(f'update add _vcrecovery.{full} 60 TXT "epoch=4"')
    with pytest.raises(ExternalError, match="just changed by another client"):
        zone.commit(prepared)
    with pytest.raises(RefusedError, match="belongs to epoch 4"):
        zone.prepare(full, [change], 3)
    zone.commit(zone.prepare(full, [change], 5))
    assert ns1.dig(full, change.kind) == [change.new]
    assert ns1.dig(f"_vcrecovery.{full}", "TXT") == ['"epoch=5"']


def test_a_server_that_is_down_is_named_and_then_comes_back(site: Site) -> None:
    site.servers["ns2"].stop()
    site.step(Step.SWITCH)
    assert site.found() == AFTER
    with pytest.raises(ExternalError, match=r"DNS server ns2 \(127\.0\.0\.1:\d+\) does not answer.*\(ns1 has it\)"):
        site.step(Step.VERIFY)
    site.servers["ns2"].start()
    wait_for(lambda: site.servers["ns2"].dig("www.example.test", "A") == ["10.20.0.10"], "the transfer to ns2")
    assert "ns2" in site.step(Step.VERIFY)


def test_a_server_that_refuses_is_named(site: Site) -> None:
    ns2 = site.servers["ns2"]
    ns2.stop()
    ns2.zones = {}
    ns2.start()
    site.step(Step.SWITCH)
    with pytest.raises(ExternalError, match=r"DNS server ns2 .* answers REFUSED .*\(ns1 has it\)"):
        site.step(Step.VERIFY)


def test_a_server_that_stays_behind_is_named(site: Site) -> None:
    ns1, ns2 = site.servers["ns1"], site.servers["ns2"]
    ns2.stop()
    ns2.zones["example.test"] = f'type primary; file "{ns1.folder}/example.test.zone";'
    ns2.start()
    site.step(Step.SWITCH)
    with pytest.raises(ExternalError, match=r"DNS server ns2 .* still gives 10\.10\.0\.10, fd00:10::10 for www"):
        site.step(Step.VERIFY)


def test_the_server_for_updates_is_down_then_up(site: Site) -> None:
    site.servers["ns3"].stop()
    with pytest.raises(ExternalError, match=r"DNS server ns3 .* does not answer"):
        site.step(Step.SWITCH)
    assert site.found() | {("www.other.test", "A"): ["10.10.0.10"]} == BEFORE
    site.servers["ns3"].start()
    site.step(Step.SWITCH)
    assert site.found() == AFTER


def test_a_secondary_takes_no_updates(site: Site, tmp_path: Path) -> None:
    zone = zone_of("example.test", [site.servers["ns2"], site.servers["ns1"]], tmp_path)
    change = Change("A", "10.10.0.10", "10.20.0.10", 5)
    with pytest.raises(ExternalError, match=r"ns2 .*(takes no updates|answers REFUSED)"):
        zone.commit(zone.prepare("www.example.test", [change], 1))


@pytest.mark.parametrize(
    "secret_and_key",
    [
        ("d3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmc=", "vcrt.key"),
        ("d3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmctd3Jvbmc=", "unknown.key"),
    ],
    ids=["secret", "name"],
)
def test_a_wrong_key(site: Site, tmp_path: Path, secret_and_key: tuple[str, str]) -> None:
    secret, key = secret_and_key
    zone = zone_of("example.test", [site.servers["ns1"]], tmp_path, secret=secret, key=key)
    with pytest.raises(ExternalError, match=f"rejects TSIG key {key}"):
        zone.commit(zone.prepare("www.example.test", [Change("A", "10.10.0.10", "10.20.0.10", 5)], 1))
    assert site.found() == BEFORE


def test_while_its_key_is_rotated_the_next_secret_does(site: Site, tmp_path: Path) -> None:
    zone = zone_of(
        "example.test", [site.servers["ns1"]], tmp_path, secret="b2xkLW9sZC1vbGQtb2xkLW9sZC1vbGQtb2xkLW9sZC0="
    )
    (tmp_path / f"{KEY}.secret.next").write_text("bmV4dC1uZXh0LW5leHQtbmV4dC1uZXh0LW5leHQtbmU=\n")
    change = Change("A", "10.10.0.10", "10.20.0.10", 5)
    # Neither is the server's.
    with pytest.raises(ExternalError, match=f"rejects TSIG key {KEY}"):
        zone.commit(zone.prepare("www.example.test", [change], 1))
    (tmp_path / f"{KEY}.secret.next").write_text(SECRET + "\n")
    prepared = zone.prepare("www.example.test", [change], 1)
    # It is the only one by the time that the server rejects the one of before.
    (tmp_path / f"{KEY}.secret.next").rename(tmp_path / f"{KEY}.secret")
    zone.commit(prepared)
    assert site.servers["ns1"].dig("www.example.test", "A") == ["10.20.0.10"]


def test_an_alias_where_the_plan_has_an_address(site: Site, tmp_path: Path) -> None:
    ns1 = site.servers["ns1"]
    zone = zone_of("example.test", [ns1], tmp_path)
    # It leads to an address that the plan knows, but that address is another name's.
    ns1.stop()
    file = ns1.folder / "example.test.zone"
    file.write_text(f"{file.read_text()}alias IN CNAME www\n")
    ns1.start()
    with pytest.raises(RefusedError, match=r"alias\.example\.test is an alias of www\.example\.test\."):
        zone.prepare("alias.example.test", [Change("A", "10.10.0.10", "10.20.0.10", 5)], 1)


def test_an_address_where_the_plan_has_an_alias(site: Site, tmp_path: Path) -> None:
    ns1 = site.servers["ns1"]
    ns1.change("update delete shop.example.test CNAME")
    ns1.stop()
    ns1.zones["example.test"] = ns1.zones["example.test"].replace("shop.example.test. CNAME", "shop.example.test. ANY")
    ns1.start()
    ns1.change("update add shop.example.test 5 A 10.10.0.10")
    zone = zone_of("example.test", [ns1], tmp_path)
    change = Change("CNAME", "web1.example.test.", "web2.example.test.", 5)
    with pytest.raises(ExternalError, match="other records stand beside a CNAME"):
        zone.commit(zone.prepare("shop.example.test", [change], 1))
    assert ns1.dig("shop.example.test", "A") == ["10.10.0.10"]
    assert ns1.dig("_vcrecovery.shop.example.test", "TXT") == []


def test_a_wildcard_is_no_record_of_the_name(site: Site, tmp_path: Path) -> None:
    ns3 = site.servers["ns3"]
    ns3.stop()
    file = ns3.folder / "other.test.zone"
    file.write_text(f"{file.read_text()}*.wild IN A 10.10.0.10\n")
    ns3.zones["other.test"] = ns3.zones["other.test"].replace(
        "name www.other.test. A", "subdomain wild.other.test. ANY"
    )
    ns3.zones["other.test"] = ns3.zones["other.test"].replace("_vcrecovery.www", "_vcrecovery.a.wild")
    ns3.start()
    zone = zone_of("other.test", [ns3], tmp_path)
    with pytest.raises(ExternalError, match="a wildcard answers for it"):
        zone.commit(zone.prepare("a.wild.other.test", [Change("A", "10.10.0.10", "10.20.0.10", 5)], 1))


def test_what_would_stop_a_switch_is_found_beforehand(site: Site) -> None:
    ns1, ns2, ns3 = site.servers.values()
    said = site.online_check()
    assert "dns.zones" not in said.stdout, said.stdout
    ns1.stop()
    ns1.zones["example.test"] = ns1.zones["example.test"].replace("grant vcrt.key name shop.example.test. CNAME;", "")
    ns1.start()
    ns2.stop()
    ns3.change("update delete www.other.test A", "update add www.other.test 3600 A 10.99.0.99")
    serials = site.serial("ns1", "example.test"), site.serial("ns3", "other.test")
    done = site.online_check()
    assert done.returncode == ExitCode.USAGE
    for part in (
        "answers REFUSED to updates of shop.example.test; let key vcrt.key change CNAME",
        "DNS server ns2",
        "on ns3: www.other.test points at 10.99.0.99, which the plan does not know",
        "warning: dns.zones.other.test: A of www.other.test has a TTL of 3600 s",
    ):
        assert part in done.stdout, done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    # Looking changes nothing.
    assert (site.serial("ns1", "example.test"), site.serial("ns3", "other.test")) == serials
