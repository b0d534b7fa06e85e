"""The role `dns` lays out a primary and a secondary from the plan, and a second run changes nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dns.exception
import dns.message
import dns.query
import dns.tsigkeyring
import dns.update
import pytest
import yaml

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.dns import Change, Key, Server, Zone
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.run import LabError, run

from .role_plays import cut_off_after
from .waiting import wait_for

pytestmark = pytest.mark.lab

SERVERS = ("ns1", "ns2")


@dataclass
class Laid:
    """Two hosts on this machine, each with a BIND of its own."""

    folder: Path
    ports: dict[str, int]

    def play(self, *words: str, file: str = "play.yml") -> str:
        """What ansible-playbook prints."""
        done = self._played(*words, file=file)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def _played(self, *words: str, file: str, **more: str) -> subprocess.CompletedProcess[str]:
        program = CHECKOUT / ".venv/bin/ansible-playbook"
        command: list[str | Path] = [program, "-i", self.folder / "hosts.yml", self.folder / file, *words]
        env = {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"), **more}
        return run(command, timeout=300, env=env, check=False)

    def rotate_cut_off(self, changes: int, *words: str) -> bool:
        """Whether it was killed; it may end before."""
        done = self._played(*words, file="rotation.yml", **cut_off_after(changes))
        assert done.returncode in (0, -signal.SIGKILL), done.stdout + done.stderr
        return done.returncode != 0

    def dig(self, server: str, *words: str) -> str:
        command = ["dig", "@127.0.0.1", "-p", str(self.ports[server]), "+short", "+tcp", "+time=10", "+tries=2", *words]
        return run(command, timeout=60).stdout.strip()

    def update(self, key: str) -> subprocess.CompletedProcess[str]:
        script = (
            f"server 127.0.0.1 {self.ports['ns1']}\n"
            "update delete www.example.test A\nupdate add www.example.test 5 A 10.9.9.9\nsend\n"
        )
        return run(["nsupdate", "-k", self.folder / "ns1" / f"{key}.key"], timeout=30, stdin=script, check=False)


def _write(laid: Laid) -> None:
    service = {
        "primary": {"hypervisor": "hv1", "address": "10.10.0.10", "address6": "fd00::10"},
        "standby": {"secondary": "sec1", "address": "10.20.0.10", "address6": "fd00::20"},
        "dns": [
            {"name": "www.example.test", "zone": "example.test", "ttl": 5},
            {"name": "www.example.test", "zone": "example.test", "type": "AAAA"},
            {"name": "shop.example.test", "zone": "example.test", "type": "CNAME", "primary": "a.x", "standby": "b.x"},
            {
                "name": "_sip._tcp.other.test",
                "zone": "other.test",
                "type": "SRV",
                "primary": {"target": "a.x", "port": 5060},
                "standby": {"target": "b.x", "port": 5060},
            },
        ],
    }
    plan = {
        "dns": {
            "servers": {name: {"address": "127.0.0.1", "port": port} for name, port in laid.ports.items()},
            "keys": {"key1": {"name": "vcrt.key", "secret_file": str(laid.folder / "secrets/key1")}},
            "zones": {
                "example.test": {"servers": ["ns1", "ns2"], "key": "key1"},
                "other.test": {"servers": ["ns2"], "key": "key1"},
            },
        },
        "services": {"web": service},
    }
    hosts = {
        name: {
            "ansible_connection": "local",
            "dns_server": name,
            "dns_config_dir": str(laid.folder / name),
            "dns_zone_dir": str(laid.folder / name / "zones"),
            "dns_run_dir": str(laid.folder / name / "run"),
        }
        for name in SERVERS
    }
    variables = {
        "vcrecovery_plan": plan,
        "dns_standalone": True,
        "dns_packages": [],
        "dns_supervisor": "process",
        "dns_log_dir": str(laid.folder),
        "dns_controllers": ["ns1"],
    }
    inventory = {"all": {"children": {"dns_servers": {"hosts": hosts}}, "vars": variables}}
    (laid.folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
    play = {"hosts": "all", "gather_facts": False, "roles": ["vcrecovery.standby.dns"]}
    (laid.folder / "play.yml").write_text(yaml.safe_dump([play]))
    task = {"ansible.builtin.include_role": {"name": "vcrecovery.standby.dns", "tasks_from": "rotate_keys"}}
    rotation = {"hosts": "all", "gather_facts": False, "any_errors_fatal": True, "tasks": [task]}
    (laid.folder / "rotation.yml").write_text(yaml.safe_dump([rotation]))


def _end(laid: Laid) -> None:
    for name in SERVERS:
        record = laid.folder / name / "run/vcrecovery-named.json"
        if not record.exists():
            continue
        entry = json.loads(record.read_text())
        stat = Path(f"/proc/{entry['pid']}/stat")
        if stat.exists() and stat.read_text().rpartition(")")[2].split()[19] == entry["started"]:
            os.kill(entry["pid"], signal.SIGTERM)
            wait_for(
                lambda stat=stat: not stat.exists() or ") Z " in stat.read_text(),  # type: ignore[misc]
                f"the end of {name}",
            )


@pytest.fixture(scope="module")
def laid() -> Iterator[Laid]:
    # Not in pytest's folder, which BIND's own user may not enter.
    folder = Path(tempfile.mkdtemp(prefix="vcrt-dns-", dir="/var/tmp"))
    folder.chmod(0o755)
    laid = Laid(folder, {name: free_port() for name in SERVERS})
    _write(laid)
    try:
        # A rehearsal on new hosts says what would be done, and does nothing.
        assert "failed=0" in laid.play("--check")
        assert {path.name for path in folder.iterdir()} == {"hosts.yml", "play.yml", "rotation.yml"}
        laid.play()
        yield laid
    finally:
        _end(laid)
        shutil.rmtree(folder)


def test_both_servers_serve_what_the_plan_says(laid: Laid) -> None:
    wait_for(lambda: laid.dig("ns2", "www.example.test", "A"), "the first transfer to ns2")
    for server in SERVERS:
        assert laid.dig(server, "www.example.test", "A") == "10.10.0.10"
        assert laid.dig(server, "www.example.test", "AAAA") == "fd00::10"
        assert laid.dig(server, "shop.example.test", "CNAME") == "a.x."
        assert sorted(laid.dig(server, "example.test", "NS").split()) == ["ns1.example.test.", "ns2.example.test."]
    assert laid.dig("ns2", "_sip._tcp.other.test", "SRV") == "0 0 5060 a.x."
    assert laid.dig("ns1", "_sip._tcp.other.test", "SRV") == ""


def test_the_keys_may_do_what_they_are_for_and_nothing_else(laid: Laid) -> None:
    assert "update failed: REFUSED" in laid.update("key1-transfer").stderr
    transfer = ("example.test", "AXFR")
    assert "Transfer failed" in laid.dig("ns1", *transfer)
    assert "Transfer failed" in laid.dig("ns1", "-k", str(laid.folder / "ns1/key1.key"), *transfer)
    assert "10.10.0.10" in laid.dig("ns1", "-k", str(laid.folder / "ns2/key1-transfer.key"), *transfer)
    assert "Transfer failed" in laid.dig("ns2", "-k", str(laid.folder / "ns2/key1-transfer.key"), *transfer)
    # ns2 is a primary of another zone with the same key; were it none, it would not have it.
    secrets = [re.findall(r'secret "(\S+)"', (laid.folder / n / "key1.key").read_text()) for n in SERVERS]
    assert secrets[0] == secrets[1]
    assert (laid.folder / "secrets/key1").read_text().strip() == secrets[0][0]


def test_a_switch_reaches_the_secondary_and_a_second_run_changes_nothing(laid: Laid) -> None:
    servers = [Server(name, "127.0.0.1", port) for name, port in laid.ports.items()]
    key = Key("vcrt.key", "hmac-sha256", laid.folder / "secrets/key1")
    zone = Zone("example.test", servers, key, SystemClock())
    changes = [Change("A", "10.10.0.10", "10.20.0.10", 5), Change("AAAA", "fd00::10", "fd00::20", 5)]
    zone.check_key({"www.example.test": ["A", "AAAA"], "shop.example.test": ["CNAME"]})
    zone.commit(zone.prepare("www.example.test", changes, 1))
    wanted = {"A": "10.20.0.10", "AAAA": "fd00::20"}
    assert zone.wait_until_everywhere("www.example.test", wanted, timeout=60) == list(SERVERS)
    printed = laid.play()
    for name in SERVERS:
        assert re.search(rf"^{name} .*changed=0 .*failed=0", printed, re.MULTILINE), printed
    assert laid.dig("ns1", "www.example.test", "A") == "10.20.0.10"


def secrets(laid: Laid) -> list[str]:
    """Of the key for updates: the servers', and the controller's."""
    text = [(laid.folder / name / "key1.key").read_text() for name in SERVERS]
    return [*re.findall(r'secret "(\S+)"', "".join(text)), (laid.folder / "secrets/key1").read_text().strip()]


def leftovers(laid: Laid) -> list[Path]:
    return [*laid.folder.rglob("*.next"), *laid.folder.rglob("*.made")]


def may_change(laid: Laid) -> None:
    """Raises ExternalError when the controller's key is not each server's."""
    for zone, server in (("example.test", "ns1"), ("other.test", "ns2")):
        where = Server(server, "127.0.0.1", laid.ports[server])
        Zone(zone, [where], Key("vcrt.key", "hmac-sha256", laid.folder / "secrets/key1"), SystemClock()).check_key({})


YOUNG = ("-e", "vcrecovery_keys_older_than=1h")


def changes(printed: str) -> list[int]:
    return [int(count) for count in re.findall(r"changed=(\d+)", printed)]


def test_a_key_is_rotated(laid: Laid) -> None:
    before = secrets(laid)
    shutil.copy(laid.folder / "ns1/key1.key", laid.folder / "ns1/old.key")
    assert changes(laid.play(*YOUNG, file="rotation.yml")) == [0, 0]
    assert changes(laid.play("--check", file="rotation.yml")) == [2, 0]
    assert secrets(laid) == before
    laid.play(file="rotation.yml")
    after = secrets(laid)
    assert len(set(after)) == 1
    assert after[0] not in before
    may_change(laid)
    assert "update failed: NOTAUTH" in laid.update("old").stderr
    assert leftovers(laid) == []
    assert changes(laid.play(*YOUNG, file="rotation.yml")) == [0, 0]
    assert changes(laid.play()) == [0, 0]


@pytest.mark.parametrize("cut_off", ["made", "known", "written"])
def test_the_next_run_finishes_a_rotation_that_was_cut_off(laid: Laid, cut_off: str) -> None:
    made = run(["tsig-keygen", "-a", "hmac-sha256", "vcrt.key"], timeout=30).stdout
    (secret,) = re.findall(r'secret "(\S+)"', made)
    (laid.folder / "ns1/key1.key.next").write_text(made)
    if cut_off != "made":
        (laid.folder / "secrets/key1.next").write_text(secret + "\n")
    if cut_off == "written":
        # BIND has not read it.
        for name in SERVERS:
            (laid.folder / name / "key1.key").write_text(made)
    may_change(laid)
    laid.play(*YOUNG, file="rotation.yml")
    assert secrets(laid) == [secret] * 3
    may_change(laid)
    assert leftovers(laid) == []


@pytest.mark.parametrize("cut_off", ["made", "written"])
def test_the_role_leaves_the_controllers_secrets_alone_while_a_rotation_is_unfinished(laid: Laid, cut_off: str) -> None:
    """BIND has the secret of before, and the file the next one: the controllers would have no other."""
    made = run(["tsig-keygen", "-a", "hmac-sha256", "vcrt.key"], timeout=30).stdout
    (secret,) = re.findall(r'secret "(\S+)"', made)
    (laid.folder / "ns1/key1.key.next").write_text(made)
    if cut_off == "made":
        # A new controller gets the one that BIND has.
        (laid.folder / "secrets/key1").unlink()
    else:
        (laid.folder / "secrets/key1.next").write_text(secret + "\n")
        for name in SERVERS:
            (laid.folder / name / "key1.key").write_text(made)
    printed = laid.play()
    may_change(laid)
    assert changes(printed) == ([1, 0] if cut_off == "made" else [0, 0])
    assert "The replacement of key key1 is not finished" in printed
    laid.play(*YOUNG, file="rotation.yml")
    assert secrets(laid) == [secret] * 3
    may_change(laid)
    assert leftovers(laid) == []
    assert "is not finished" not in laid.play()


def test_a_key_that_was_removed_is_made_anew(laid: Laid) -> None:
    before = (laid.folder / "ns2/key1-transfer.key").read_text()
    (laid.folder / "ns1/key1-transfer.key").unlink()
    laid.play()
    after = (laid.folder / "ns2/key1-transfer.key").read_text()
    assert after == (laid.folder / "ns1/key1-transfer.key").read_text() != before
    assert "AXFR" not in laid.dig("ns1", "-k", str(laid.folder / "ns2/key1-transfer.key"), "example.test", "AXFR")


# -- the key of transfers --------------------------------------------------------------------------------------

#: Seconds. A transfer that is refused is tried again after 5 s or more.
REFUSED = 5.0


class Observer:
    """Never stops changing a record on ns1 and waiting for it on ns2."""

    def __init__(self, laid: Laid) -> None:
        self._laid, self._over = laid, threading.Event()
        self.lags: list[float] = []
        self.broken: list[str] = []
        self._thread = threading.Thread(target=self._go_on)

    def __enter__(self) -> Observer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(120)

    def _go_on(self) -> None:
        secret = (self._laid.folder / "secrets/key1").read_text().strip()
        keyring = dns.tsigkeyring.from_text({"vcrt.key": secret})
        number = 0
        while not self._over.wait(0.1):
            number += 1
            address = f"10.77.{number // 250}.{number % 250}"
            update = dns.update.UpdateMessage("example.test", keyring=keyring)
            update.replace("www", 5, "A", address)
            try:
                answer = dns.query.tcp(update, "127.0.0.1", timeout=10, port=self._laid.ports["ns1"])
                if answer.rcode() != 0:
                    raise OSError(f"refused: {answer.rcode()}")
                begun = time.monotonic()
                self._wait_for(address)
                self.lags.append(time.monotonic() - begun)
            except (OSError, dns.exception.DNSException, LabError) as error:
                self.broken.append(f"{type(error).__name__}: {error}")

    def _wait_for(self, address: str) -> None:
        query = dns.message.make_query("www.example.test", "A", flags=0)

        def is_there() -> bool:
            answer = dns.query.tcp(query, "127.0.0.1", timeout=10, port=self._laid.ports["ns2"])
            return address in answer.to_text()

        wait_until(is_there, f"{address} at ns2", 60, poll=0.02)


def transfer_key(laid: Laid, server: str) -> str:
    return (laid.folder / server / "key1-transfer.key").read_text()


def make_old(laid: Laid) -> Path:
    """A copy of the key of transfers, which is old enough to be rotated, while that of updates is young."""
    kept = laid.folder / "ns1/transfer-of-before.key"
    shutil.copy(laid.folder / "ns1/key1-transfer.key", kept)
    past = time.time() - 7200
    os.utime(laid.folder / "ns1/key1-transfer.key", (past, past))
    return kept


def assert_transfer_key_is_rotated(laid: Laid, before: Path) -> None:
    assert transfer_key(laid, "ns1") == transfer_key(laid, "ns2")
    assert transfer_key(laid, "ns1").count("secret") == 1
    assert re.findall("secret.*", transfer_key(laid, "ns1")) != re.findall("secret.*", before.read_text())
    for name in SERVERS:
        assert (laid.folder / name / "key1-transfer.key").stat().st_mode & 0o777 == 0o640
    transfer = ("example.test", "AXFR")
    assert "Transfer failed" in laid.dig("ns1", "-k", str(before), *transfer)
    assert "10.77." in laid.dig("ns1", "-k", str(laid.folder / "ns2/key1-transfer.key"), *transfer)
    assert leftovers(laid) == []


def test_the_key_of_transfers_is_rotated_while_zones_are_transferred(laid: Laid) -> None:
    before = make_old(laid)
    assert changes(laid.play(*YOUNG, "--check", file="rotation.yml")) == [1, 0]
    with Observer(laid) as observer:
        printed = laid.play(*YOUNG, "--diff", file="rotation.yml")
    assert changes(printed) == [8, 8]
    secrets_of_it = [re.findall(r'secret "(\S+)"', text)[0] for text in (before.read_text(), transfer_key(laid, "ns1"))]
    assert not any(secret in printed for secret in secrets_of_it)
    assert observer.broken == []
    assert len(observer.lags) > 10
    assert max(observer.lags) < REFUSED, observer.lags
    assert_transfer_key_is_rotated(laid, before)
    assert changes(laid.play(*YOUNG, file="rotation.yml")) == [0, 0]
    assert changes(laid.play()) == [0, 0]


@pytest.mark.at_length
@pytest.mark.timeout(3600)
def test_wherever_a_rotation_of_that_key_is_cut_off_zones_are_transferred_and_the_next_run_finishes_it(
    laid: Laid,
) -> None:
    for count in range(1, 40, 4):
        before = make_old(laid)
        with Observer(laid) as observer:
            killed = laid.rotate_cut_off(count, *YOUNG)
            if killed:
                laid.play(*YOUNG, file="rotation.yml")
        assert (observer.broken, max(observer.lags) < REFUSED) == ([], True), (count, observer.lags)
        assert_transfer_key_is_rotated(laid, before)
        if not killed:
            break
    assert count == 17
    assert changes(laid.play()) == [0, 0]
