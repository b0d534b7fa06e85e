"""A relay that is away delays nothing: neither what snmpd answers, nor what another relay is told. Loopback only."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import UUID

import jinja2
import pytest
import yaml

from vcrecovery.snmp.guest_notification import GuestNotification
from vcrecovery.snmp.mib import GuestState
from vcrecovery.snmp.notifier import receivers_of
from vcrecovery.snmp.sender import Sender
from vcrecovery.snmp.settings import load_settings
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.net_snmp import AUTH, PRIVACY, USER, Daemon, TrapReceiver, ask
from vcrecovery_lab.run import run

from .waiting import wait_for

UPTIME = ".1.3.6.1.2.1.1.3.0"
EVENTS = 4
#: Seconds for an answer, on a machine that is busy. One inform alone would take 3 s.
AT_ONCE = 2.0


@contextmanager
def away() -> Iterator[socket.socket]:
    """A relay that gets everything and answers nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.setblocking(False)
        yield sock


def datagrams(sock: socket.socket) -> int:
    """How many have come since the last call."""
    count = 0
    while True:
        try:
            sock.recv(65535)
        except BlockingIOError:
            return count
        count += 1


def snmpd_of_the_role(folder: Path, ports: list[int]) -> Daemon:
    """With the configuration that the role `hypervisor` writes for libvirt-snmp."""
    template = CHECKOUT / "roles/hypervisor/templates/snmpd.conf.j2"
    configuration = jinja2.Template(template.read_text(), undefined=jinja2.StrictUndefined, trim_blocks=True).render(
        ansible_managed="",
        hypervisor_snmp_listen="udp:127.0.0.1:@PORT@",
        hypervisor_snmp_base=".1.3.6.1.4.1.36957.1",
        hypervisor_snmp_user=USER,
        hypervisor_snmp_next_user=f"{USER}next",
        hypervisor_snmp_sender=USER,
        hypervisor_snmp_auth=AUTH,
        hypervisor_snmp_privacy=PRIVACY,
        hypervisor_snmp_agent="libvirt-snmp",
        hypervisor_snmp_destinations=[{"address": "127.0.0.1", "port": port} for port in ports],
    )
    socket_of_its_own = f"agentXSocket {folder}/agentx\n"
    return Daemon(folder, "snmpd", configuration + socket_of_its_own, "-I", "-smux")


def test_snmpd_answers_while_both_relays_are_away(tmp_path: Path) -> None:
    """As an inform, each event would hold snmpd up until it has given up finding the receiver's engine."""
    with ExitStack() as ends:
        relays = [ends.enter_context(away()) for _ in range(2)]
        snmpd = snmpd_of_the_role(tmp_path / "agent", [relay.getsockname()[1] for relay in relays])
        snmpd.start()
        ends.callback(snmpd.stop)
        wait_for(lambda: ask(snmpd.port, "snmpget", UPTIME).startswith(UPTIME), "snmpd's first answer")
        for relay in relays:
            datagrams(relay)
        got, waits = [0, 0], list[float]()
        for _ in range(EVENTS):
            words = ["-x", f"{tmp_path}/agent/agentx", "1.3.6.1.4.1.36957.0.1", "1.3.6.1.4.1.36957.1.1.1.3.0", "i", "1"]
            run(["agentxtrap", "-m", "", *words], timeout=60)
            begun = time.monotonic()
            assert ask(snmpd.port, "snmpget", UPTIME).startswith(UPTIME)
            waits.append(time.monotonic() - begun)
            for place, relay in enumerate(relays):
                got[place] += datagrams(relay)
        assert got == [EVENTS, EVENTS]
        # A machine that stands still makes one late, an inform each.
        assert sorted(waits)[EVENTS // 2] < AT_ONCE


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[TrapReceiver]:
    daemon = TrapReceiver(tmp_path / "receiver")
    daemon.start()
    yield daemon
    daemon.stop()


@pytest.mark.begins_first
def test_the_notifier_tells_one_relay_while_the_other_is_away(tmp_path: Path, receiver: TrapReceiver) -> None:
    with away() as gone:
        for name, secret in (("auth", AUTH), ("privacy", PRIVACY)):
            (tmp_path / name).touch(mode=0o600)
            (tmp_path / name).write_text(secret)
        ports = [gone.getsockname()[1], receiver.port]
        settings = {
            "host": "hv1",
            "users": {USER: {"auth_file": str(tmp_path / "auth"), "privacy_file": str(tmp_path / "privacy")}},
            "destinations": [{"address": "127.0.0.1", "port": port, "user": USER} for port in ports],
        }
        (tmp_path / "snmp-agent.yml").write_text(yaml.safe_dump(settings))
        waits = asyncio.run(tell(tmp_path / "snmp-agent.yml", receiver, 60))
    assert sorted(waits)[len(waits) // 2] < 0.3
    # One that waited for the other would be late most times; a machine that stands still makes a few late.
    assert sorted(waits)[len(waits) * 9 // 10] < AT_ONCE


async def tell(config: Path, receiver: TrapReceiver, count: int) -> list[float]:
    """Seconds until each of so many notifications, one every 0.2 s, has been confirmed by the relay that is there."""
    receivers = receivers_of(load_settings(config))
    senders = [Sender(one) for one in receivers]
    for one in receivers:
        await one.warm_up()
    running = [asyncio.create_task(sender.run()) for sender in senders]
    waits = []
    for number in range(count):
        begun = time.monotonic()
        notification = GuestNotification(UUID(int=number), "vm", GuestState.RUNNING, "started", "booted", begun)
        for sender in senders:
            sender.offer(notification)
        await senders[1].drain(30)
        waits.append(time.monotonic() - begun)
        await asyncio.sleep(max(0.0, 0.2 - waits[-1]))
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    for one in receivers:
        one.close()
    return waits
