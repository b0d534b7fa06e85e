"""What the relay does with what is forged, replayed, late or far too much. No root, no lab: loopback only."""

from __future__ import annotations

import shutil
import socket
import subprocess
from contextlib import suppress

import pytest

from relay_bench.agents import AUTH, PRIVACY, USER, client_environment
from relay_bench.eavesdropper import eavesdropping
from relay_bench.program import LISTEN, SERVICE_UUID
from relay_bench.stage_notifications import STRANGER, storm
from vcrecovery.relay.listener import dropped, listen
from vcrecovery_lab.net_snmp import Daemon
from vcrecovery_lab.ports import free_port

from .relay_made import CRASHED, LATER, OTHER, RUNNING, SHUTOFF, Made, both_agents, relay_made, state, variables  # noqa: F401 - fixtures


def test_forgeries_are_counted_and_change_nothing(made: Made) -> None:
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    source = made.hv1.address
    # A v2c trap of a stranger; v2c traps of a hypervisor with another community.
    assert made.client("snmptrap", "-v2c", "TARGET", *CRASHED, source=STRANGER)
    assert made.client("snmptrap", "-v2c", "-c", "public", "TARGET", *CRASHED, source=source)
    made.trap(made.hv1, CRASHED, engine="80001f8804deadbeef")
    made.trap(made.hv1, CRASHED, env=client_environment(made.folder / "liar", auth="another passphrase"))
    made.trap(made.hv1, CRASHED, env=client_environment(made.folder / "nobody", user="nobody"))
    # Neither authenticated nor private, and authenticated only.
    for level in ("noAuthNoPriv", "authNoPriv"):
        words = ["snmptrap", "-v3", "-l", level, "-e", f"0x{made.hv1.engine_id}", "TARGET", *CRASHED]
        assert made.client(*words, source=source)
    made.trap(made.hv1, variables("6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e9999", SHUTOFF, "stopped", "crashed"))
    made.trap(made.hv1, ["", "1.3.6.1.4.1.9.0.1"])
    made.trap(made.hv1, ["", "1.3.6.1.6.3.1.1.5.1"])  # coldStart, as each snmpd that starts
    send_raw(made, source, [b"", b"\x30", b"\x30\x82\xff\xff\x02\x01\x03", b"\x30\x03\x02\x01\x03", b"\x00" * 1000])
    made.wait_for_polls("hv1", 3)
    assert {v.text for v in made.recorder.values("hv1", state(SERVICE_UUID))} == {"running"}
    assert made.inform_once(made.hv1, CRASHED)
    made.wait_for_state("hv1", SERVICE_UUID, "shutoff (crashed)")
    assert made.stopped_counters() == {
        "taken": 1,
        "questions": 1,
        "of_snmpd": 1,
        "stranger": 1,
        "credentials": 4,
        "engine": 1,
        "user": 1,
        "guest": 1,
        "mib": 1,
        "encoding": 5,
    }
    assert made.log_has("notifications not taken: ")
    assert not made.log_has("Traceback")


def captured_trap(made: Made, what: list[str], *options: str) -> bytes:
    """A real datagram of net-snmp, caught on its way."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.1.10", 0))
        sock.settimeout(30)
        target = f"127.0.1.10:{sock.getsockname()[1]}"
        words = ["snmptrap", "-m", "", *options, target, *what]
        subprocess.run(words, env=client_environment(made.folder / "client"), check=True, timeout=60)
        return sock.recv(65535)


def send_raw(made: Made, source: str, datagrams: list[bytes]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((source, 0))
        for datagram in datagrams:
            sock.sendto(datagram, (LISTEN, made.program.port))


def test_a_trap_that_is_cut_anywhere_changed_or_replayed(made: Made) -> None:
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    v3 = captured_trap(made, CRASHED, "-v3", "-e", f"0x{made.hv1.engine_id}", "-Z", LATER)
    old = captured_trap(made, CRASHED, "-v3", "-e", f"0x{made.hv1.engine_id}", "-Z", "1,99000")
    v2c = captured_trap(made, CRASHED, "-v2c")
    cut = [data[:length] for data in (v3, v2c) for length in range(0, len(data), 7)]
    for first in range(0, len(cut), 50):
        send_raw(made, made.hv1.address, cut[first : first + 50])
        made.wait_for_polls("hv1", 1)
    flipped = bytes([*v3[:-1], v3[-1] ^ 1])
    send_raw(made, made.hv1.address, [flipped])
    made.wait_for_polls("hv1", 1)
    assert {v.text for v in made.recorder.values("hv1", state(SERVICE_UUID))} == {"running"}
    send_raw(made, made.hv1.address, [v3])
    made.wait_for_state("hv1", SERVICE_UUID, "shutoff (crashed)")
    assert made.inform_once(made.hv1, variables(SERVICE_UUID, RUNNING, "started", "booted"))
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    send_raw(made, made.hv1.address, [v3, old])
    made.wait_for_polls("hv1", 2)
    assert made.last("hv1", state(SERVICE_UUID)) == "running"
    assert made.stopped_counters() == {
        "taken": 2, "questions": 1, "encoding": len(cut), "late": 1, "repeated": 1, "credentials": 1
    }  # fmt: skip


def test_a_replayed_inform_is_answered_and_changes_nothing(made: Made) -> None:
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    with eavesdropping(made.hv1.address, (LISTEN, made.program.port)) as middle:
        middle.inform(made.folder, variables(SERVICE_UUID, 3, "suspended", "paused"))
    made.wait_for_state("hv1", SERVICE_UUID, "paused")
    assert made.inform(made.hv1, variables(SERVICE_UUID, RUNNING, "resumed", "unpaused"))
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((made.hv1.address, 0))
        sock.settimeout(30)
        for _ in range(20):
            sock.sendto(middle.informs[-1], (LISTEN, made.program.port))
            assert sock.recv(65535)
    made.wait_for_polls("hv1", 2)
    assert made.last("hv1", state(SERVICE_UUID)) == "running"
    counters = made.stopped_counters()
    # The agent itself repeats an inform whose answer is late.
    counters.pop("again", None)
    assert counters == {"taken": 2, "questions": 2, "repeated": 20}
    assert made.log_has("notifications not taken: heard before: 20")


def test_an_inform_whose_answers_got_lost_is_taken_once(made: Made) -> None:
    """net-snmp sends it again in another message."""
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    with eavesdropping(made.hv1.address, (LISTEN, made.program.port), loses=2) as middle:
        middle.inform(made.folder, CRASHED)
        assert middle.lost == 2
    made.wait_for_state("hv1", SERVICE_UUID, "shutoff (crashed)")
    counters = made.stopped_counters()
    assert counters["taken"] == 1
    assert counters.get("again", 0) + counters.get("repeated", 0) == 2


def test_a_relay_that_lost_its_state_is_found_again_by_an_snmpd_that_goes_on(made: Made) -> None:
    """It keeps the engine ID of where its informs go for as long as it lives."""
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    agentx = made.folder / "agentx"
    words = f'-Ci -v 3 -u {USER} -l authPriv -a SHA-256 -A "{AUTH}" -x AES -X "{PRIVACY}"'
    configuration = (
        f"agentaddress udp:127.0.0.1:@PORT@\nmaster agentx\nagentXSocket {agentx}\n"
        f"[snmp] clientaddr {made.hv1.address}\n"
        f"trapsess {words} {LISTEN}:{made.program.port}\n"
    )
    snmpd = Daemon(made.folder / "snmpd", "snmpd", configuration, "-I", "-smux")
    snmpd.start()
    try:
        for number, word in ((3, "paused"), (SHUTOFF, "shutoff (not seen running)")):
            what = variables(SERVICE_UUID, number)[1:]
            subprocess.run(["agentxtrap", "-m", "", "-x", str(agentx), *what], timeout=60, check=True)
            made.wait_for_state("hv1", SERVICE_UUID, word)
            assert made.program.stop() == 0
            shutil.rmtree(made.program.state)
            made.hv1.show([])
            made.program.start()
            made.wait_for_polls("hv1", 1)
    finally:
        snmpd.stop()


@pytest.mark.parametrize("spoofed", [False, True], ids=["strangers", "spoofed hypervisor"])
def test_a_storm_of_10000_a_second_stops_nobody(made: Made, spoofed: bool) -> None:
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    made.wait_for_state("hv2", OTHER.uuid, "running")
    forged = captured_trap(made, CRASHED, "-v3", "-e", f"0x{made.hv1.engine_id}", "-Z", LATER, "-A", "not the secret")
    source = made.hv1.address if spoofed else STRANGER
    with storm(source, made.program.port, 600, [forged]) as raging:
        made.wait_for_polls("hv1", 3)
        for word, what in (
            ("shutoff (crashed)", variables(OTHER.uuid, SHUTOFF, "stopped", "crashed")),
            ("running", variables(OTHER.uuid, RUNNING, "started", "booted")),
        ):
            # What gets lost in it is sent again.
            assert made.inform(made.hv2, what, again=60)
            made.wait_for_state("hv2", OTHER.uuid, word)
        made.wait_for_polls("hv2", 3)
        assert raging.poll() is None, "the storm was over before"
    assert {v.text for v in made.recorder.values("hv1", state(SERVICE_UUID))} == {"running"}
    # When it is over, the hypervisor in whose name it came is heard again.
    assert made.inform(made.hv1, CRASHED)
    made.wait_for_state("hv1", SERVICE_UUID, "shutoff (crashed)")
    counters = made.stopped_counters()
    assert counters["rate" if spoofed else "stranger"] > 1000
    assert counters["taken"] >= 3


def test_what_comes_faster_than_it_is_read_is_counted() -> None:
    with (
        listen(LISTEN, port := free_port(LISTEN)) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        assert dropped(receiver) == 0
        sent = 0
        while not dropped(receiver):
            sender.sendto(b"x" * 1000, (LISTEN, port))
            sent += 1
        kept = 0
        with suppress(BlockingIOError):
            while receiver.recv(2000):
                kept += 1
        assert dropped(receiver) == sent - kept == 1
