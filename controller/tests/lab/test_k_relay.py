"""The relay between real agents of net-snmp and a trapper that keeps what comes. No root, no lab: loopback only."""

from __future__ import annotations

import itertools
import json
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from relay_bench.agents import AUTH, PRIVACY, USER, Agent, Guest, agents, client_environment
from relay_bench.eavesdropper import eavesdropping
from relay_bench.program import LISTEN, SERVICE, SERVICE_UUID, Program, plan_of
from relay_bench.recorder import Recorded, Recorder
from relay_bench.stage_notifications import STRANGER, storm
from vcrecovery.plan.monitoring import COPY_LIVES
from vcrecovery_lab.net_snmp import Daemon
from vcrecovery_lab.ports import free_port

from .waiting import wait_for

POLL = 0.5
WEB = Guest(SERVICE_UUID, "web-vm", rate=10**9)
OTHER = Guest("6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0def", "other-vm", rate=0)
HALF_BUSY = Guest("6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0111", "half-busy", rate=10**9)
NEW_ROOT, OLD_ROOT = "1.3.6.1.4.1.36957", "1.3.6.1.4.1.12345"
SHUTOFF, RUNNING = 5, 1
#: Boots and time of an agent in its traps: long after every answer that the tests get from it.
LATER = "1,100000"


def state(uuid: str) -> str:
    return f"vcr.state[{uuid}]"


def cpu(uuid: str) -> str:
    return f"vcr.cpu[{uuid}]"


def variables(uuid: str, number: int, event: str = "", detail: str = "", root: str = NEW_ROOT) -> list[str]:
    """A notification as words for net-snmp's clients; with `event` it has this project's own variables too."""
    table = f"{root}.1.1.1"
    words = ["", f"{root}.0.1"]
    words += [f"{table}.2.0", "s", "a name", f"{table}.1.0", "x", uuid.replace("-", "")]
    words += [f"{table}.3.0", "i", str(number), f"{table}.9.0", "i", "1"]
    if event:
        words += [f"{root}.1.2.1.0", "s", event, f"{root}.1.2.2.0", "s", detail]
    return words


CRASHED = variables(SERVICE_UUID, SHUTOFF, "stopped", "crashed")


@dataclass
class Made:
    """Two hypervisors, the relay, and what stands for Zabbix."""

    folder: Path
    hv1: Agent
    hv2: Agent
    recorder: Recorder
    program: Program
    #: Of each item, how many values were waited for.
    _seen: dict[tuple[str, str], int] = field(default_factory=dict)

    def last(self, host: str, key: str) -> str | None:
        found = self.recorder.values(host, key)
        return found[-1].text if found else None

    def wait_for_state(self, host: str, uuid: str, word: str) -> None:
        """Until it comes after what was waited for before; the next one may be there by then.

        A notification counts for some seconds only. After that the table does, and both may come in one packet.
        """
        item = (host, state(uuid))

        def came() -> bool:
            words = [value.text for value in self.recorder.values(*item)]
            start = self._seen.get(item, 0)
            if word not in words[start:]:
                return False
            self._seen[item] = words.index(word, start) + 1
            return True

        self.recorder.wait_for(came, f"{host}: {word}")

    def wait_for_polls(self, host: str, count: int) -> None:
        """So many more answers of this agent than now."""
        wanted = len(self.recorder.values(host, "vcr.heartbeat")) + count
        self.recorder.wait_for(
            lambda: len(self.recorder.values(host, "vcr.heartbeat")) >= wanted, f"{count} polls of {host}"
        )

    def client(self, *words: str, source: str, env: dict[str, str] | None = None) -> bool:
        """Whether net-snmp's client says that it went well."""
        target = f"{LISTEN}:{self.program.port}"
        command = [words[0], "-m", "", "-Y", f"clientaddr {source}", *words[1:]]
        place = command.index("TARGET")
        command[place] = target
        environment = env or client_environment(self.folder / "client")
        return subprocess.run(command, env=environment, capture_output=True, timeout=120, check=False).returncode == 0

    def inform(self, agent: Agent, what: list[str], *, again: int = 10, after: int = 1) -> bool:
        """It is sent `again` so often, each time `after` so many seconds without an answer."""
        patience = ("-r", str(again), "-t", str(after))
        return self.client("snmpinform", "-v3", *patience, "TARGET", *what, source=agent.address)

    def inform_once(self, agent: Agent, what: list[str]) -> bool:
        """Where they are counted: a machine that stands still for some seconds is no reason to send it again."""
        return self.inform(agent, what, again=0, after=50)

    def trap(self, agent: Agent, what: list[str], **options: Any) -> None:
        engine = options.pop("engine", agent.engine_id)
        words = ["snmptrap", "-v3", "-e", f"0x{engine}", "-Z", LATER, "TARGET", *what]
        assert self.client(*words, source=agent.address, **options)

    def log_has(self, text: str) -> bool:
        return text in self.program.log.read_text()

    def stopped_counters(self) -> dict[str, int]:
        """Ends the relay, which has to be clean, and reads its counters."""
        assert self.program.stop() == 0
        return {reason: count for reason, count in self.program.counters().items() if count}


@pytest.fixture(scope="module")
def pair_of_agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Agent]]:
    with agents(tmp_path_factory.mktemp("agents"), 2) as made:
        yield made


@pytest.fixture
def made(tmp_path: Path, pair_of_agents: list[Agent]) -> Iterator[Made]:
    hv1, hv2 = pair_of_agents
    hv1.show([WEB])
    hv2.show([replace(OTHER, rate=10**8)])
    recorder = Recorder("127.0.1.8", free_port("127.0.1.8"))
    program = Program(tmp_path, plan_of(tmp_path, [hv1, hv2], recorder, POLL, v2c=True))
    recorder.start()
    program.start()
    try:
        recorder.wait_for(
            lambda: all(recorder.values(host, "vcr.heartbeat") for host in ("hv1", "hv2")), "both agents' answers"
        )
        yield Made(tmp_path, hv1, hv2, recorder, program)
    finally:
        assert program.process is not None
        program.process.kill()
        program.process.wait()
        recorder.stop()


def test_what_zabbix_is_told_of_a_hypervisor(made: Made) -> None:
    made.hv1.show([WEB, replace(OTHER, state=SHUTOFF, vcpus=0)])
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    made.wait_for_state("hv1", OTHER.uuid, "shutoff (not seen running)")

    def half() -> bool:
        """One of two vCPUs is busy. Single values depend on when snmpd's processes ran."""
        values = [float(v.text) for v in made.recorder.values("hv1", cpu(SERVICE_UUID))]
        return len(values) >= 5 and statistics.median(values) == pytest.approx(50, abs=20)

    made.recorder.wait_for(half, "utilisation")
    assert not made.recorder.values("hv1", cpu(OTHER.uuid))
    listing = json.loads(made.last("hv1", "vcr.guests") or "")
    assert listing == [
        {"{#UUID}": SERVICE_UUID, "{#VM}": "web-vm", "{#SERVICE}": SERVICE},
        {"{#UUID}": OTHER.uuid, "{#VM}": "other-vm", "{#SERVICE}": ""},
    ]
    assert {v.text for v in made.recorder.values("hv1", "vcr.heartbeat")} == {"1"}


def test_an_inform_is_answered_and_told_at_once_with_its_reason(made: Made) -> None:
    before = time.time()
    assert made.inform(made.hv1, CRASHED)
    made.wait_for_state("hv1", SERVICE_UUID, "shutoff (crashed)")
    assert made.recorder.values("hv1", state(SERVICE_UUID))[-1].clock >= before - 0.001
    # The table says the same later, without a reason: that stays.
    made.hv1.show([replace(WEB, state=SHUTOFF)])
    made.wait_for_polls("hv1", 4)
    assert made.last("hv1", state(SERVICE_UUID)) == "shutoff (crashed)"
    assert made.inform(made.hv1, variables(SERVICE_UUID, RUNNING, "started", "booted"))
    made.wait_for_state("hv1", SERVICE_UUID, "running")


def test_traps_of_libvirt_snmp_with_both_roots(made: Made) -> None:
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    made.trap(made.hv1, variables(SERVICE_UUID, SHUTOFF))
    made.wait_for_state("hv1", SERVICE_UUID, "shutoff")
    made.trap(made.hv1, variables(SERVICE_UUID, RUNNING, root=OLD_ROOT))
    made.wait_for_state("hv1", SERVICE_UUID, "running")


def test_a_notification_with_the_uuid_in_capitals_or_as_the_index(made: Made) -> None:
    capitals = [f"{NEW_ROOT}.1.1.1.1.0", "s", SERVICE_UUID.upper(), f"{NEW_ROOT}.1.1.1.3.0", "i", "3"]
    assert made.inform(made.hv1, ["", f"{NEW_ROOT}.0.1", *capitals])
    made.wait_for_state("hv1", SERVICE_UUID, "paused")
    index = ".".join(str(int(SERVICE_UUID.replace("-", "")[place : place + 2], 16)) for place in range(0, 32, 2))
    assert made.inform(made.hv1, ["", f"{NEW_ROOT}.0.1", f"{NEW_ROOT}.1.1.1.3.{index}", "i", "1"])
    made.wait_for_state("hv1", SERVICE_UUID, "running")


def test_the_table_of_an_old_libvirt_snmp(made: Made) -> None:
    made.hv2.show([replace(OTHER, uuid="6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0123")], enterprise=12345)
    made.wait_for_state("hv2", "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0123", "running")


def test_v2c_traps_are_taken_of_hypervisors_with_the_community(made: Made) -> None:
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    assert made.client("snmptrap", "-v2c", "TARGET", *variables(SERVICE_UUID, SHUTOFF), source=made.hv1.address)
    made.wait_for_state("hv1", SERVICE_UUID, "shutoff")


def test_a_guest_that_crashes_without_any_notification(made: Made) -> None:
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    made.hv1.show([replace(WEB, state=SHUTOFF)])
    made.wait_for_state("hv1", SERVICE_UUID, "shutoff")


def test_a_guest_that_crashes_while_the_relay_restarts(made: Made) -> None:
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    assert made.program.stop() == 0
    made.hv1.show([replace(WEB, state=SHUTOFF)])
    made.program.start()
    made.wait_for_state("hv1", SERVICE_UUID, "shutoff")
    # The agents' informs still come through: the relay's engine is the same, and has started once more.
    assert made.inform(made.hv1, CRASHED)
    made.wait_for_state("hv1", SERVICE_UUID, "shutoff (crashed)")


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
    assert made.stopped_counters() == {"taken": 2, "questions": 2, "repeated": 20}
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


def test_zabbix_down_then_up(made: Made) -> None:
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    made.wait_for_state("hv2", OTHER.uuid, "running")
    made.recorder.stop()
    zabbix = f"trapper {made.recorder.address}:{made.recorder.port} does not answer"
    wait_for(lambda: made.log_has(zabbix), "the log line")
    assert made.inform(made.hv1, CRASHED)
    assert made.inform(made.hv1, variables(SERVICE_UUID, RUNNING, "started", "booted"))
    assert made.inform(made.hv2, variables(OTHER.uuid, SHUTOFF, "stopped", "destroyed"))
    before = len(made.recorder.values("hv1", "vcr.heartbeat"))
    up_at = time.time()
    made.recorder.start()
    made.wait_for_state("hv2", OTHER.uuid, "shutoff (destroyed)")
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    # Nothing is lost or out of order, and each value has the time at which it was true.
    words = [v.text for v in made.recorder.values("hv1", state(SERVICE_UUID))]
    assert words[-2:] == ["shutoff (crashed)", "running"]
    assert made.recorder.values("hv1", state(SERVICE_UUID))[-1].clock < up_at
    made.recorder.wait_for(
        lambda: any(v.clock < up_at for v in made.recorder.values("hv1", "vcr.heartbeat")[before:]), "old heartbeats"
    )
    wait_for(lambda: made.log_has("Zabbix answers again"), "the log line")


@pytest.mark.parametrize("mode", ["garbage", "silent"])
def test_a_zabbix_that_accepts_but_does_not_do_its_work(made: Made, mode: str) -> None:
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    made.recorder.mode = mode
    wait_for(lambda: made.log_has("protocol" if mode == "garbage" else "gives no answer"), "the log line")
    assert made.inform(made.hv1, CRASHED), "reception waits for Zabbix"
    made.recorder.mode = "ok"
    made.wait_for_state("hv1", SERVICE_UUID, "shutoff (crashed)")


def test_items_that_zabbix_does_not_know_yet(made: Made) -> None:
    new = replace(OTHER, uuid="6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0777", name="new-vm")
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    made.recorder.refuses = lambda _host, key: new.uuid in key
    listings = len(made.recorder.values("hv1", "vcr.guests"))
    made.hv1.show([WEB, new])
    made.recorder.wait_for(
        lambda: any(new.uuid in v.text for v in made.recorder.values("hv1", "vcr.guests")[listings:]), "the discovery"
    )
    # The others of its hypervisor do not suffer.
    assert made.inform(made.hv1, CRASHED)
    made.wait_for_state("hv1", SERVICE_UUID, "shutoff (crashed)")
    assert not made.recorder.values("hv1", state(new.uuid))
    made.recorder.refuses = lambda _host, _key: False
    made.wait_for_state("hv1", new.uuid, "running")


@pytest.mark.parametrize("new_engine", [False, True], ids=["same engine", "new engine"])
def test_an_agent_that_is_away_gives_no_heartbeat_and_one_that_restarts_no_wrong_utilisation(
    tmp_path: Path, new_engine: bool
) -> None:
    recorder = Recorder("127.0.1.8", free_port("127.0.1.8"))
    recorder.start()
    with agents(tmp_path / "agents", 1) as (agent,):
        agent.show([WEB])
        program = Program(tmp_path, plan_of(tmp_path, [agent], recorder, POLL, v2c=False))
        program.start()
        try:
            recorder.wait_for(lambda: len(recorder.values("hv1", cpu(SERVICE_UUID))) >= 2, "utilisation")
            agent.stop()
            wait_for(lambda: "the SNMP agent of hypervisor hv1" in program.log.read_text(), "the log line")
            silent = len(recorder.values("hv1", "vcr.heartbeat"))
            # The VM was restarted too: its CPU time begins again.
            agent.show([replace(WEB, cpu_time=0)])
            if new_engine:
                agent.engine_id = "80001f88046e6577"
            agent.start()
            recorder.wait_for(lambda: len(recorder.values("hv1", "vcr.heartbeat")) > silent + 4, "heartbeats")
            assert all(0 <= float(v.text) <= 100 for v in recorder.values("hv1", cpu(SERVICE_UUID)))
            assert {v.text for v in recorder.values("hv1", state(SERVICE_UUID))} == {"running"}
        finally:
            assert program.stop() == 0
            recorder.stop()


def test_a_libvirtd_that_restarts_loses_no_guest_and_an_undefined_guest_is_absent_once(made: Made) -> None:
    made.hv1.show([WEB, OTHER])
    made.wait_for_state("hv1", OTHER.uuid, "running")
    made.hv1.show([], libvirt=2)
    wait_for(lambda: made.log_has("libvirt does not answer it"), "the log line")
    silent = len(made.recorder.values("hv1", "vcr.heartbeat"))
    made.wait_for_polls("hv2", 4)
    assert len(made.recorder.values("hv1", "vcr.heartbeat")) == silent, "it knows nothing of the guests"
    made.hv1.show([replace(WEB, name="renamed")])
    made.wait_for_state("hv1", OTHER.uuid, "absent")
    made.wait_for_polls("hv1", 4)
    assert [v.text for v in made.recorder.values("hv1", state(OTHER.uuid))] == ["running", "absent"]
    assert [v.text for v in made.recorder.values("hv1", state(SERVICE_UUID))] == ["running"]
    assert "renamed" in (made.last("hv1", "vcr.guests") or "")


def as_libvirt_snmp(agent: Agent, *guests: Guest) -> None:
    """The table as libvirt-snmp shows it: it never says whether libvirt answers, and its copy lives 5.000 s."""
    agent.show(guests, libvirt=None, copy=COPY_LIVES)


def test_libvirt_snmp_at_the_default_poll(tmp_path: Path, pair_of_agents: list[Agent]) -> None:
    """Every value right, whether the plan says what it is or not; and silence once it has lost its libvirtd."""
    recorder = Recorder("127.0.1.8", free_port("127.0.1.8"))
    plan = plan_of(tmp_path, pair_of_agents, recorder, 5.0, v2c=False)
    plan["hypervisors"]["hv1"]["snmp"]["agent"] = "libvirt-snmp"
    busy = {"hv1": replace(WEB, rate=2 * 10**9), "hv2": OTHER}
    for agent in pair_of_agents:
        as_libvirt_snmp(agent, busy[agent.name], HALF_BUSY)
    program = Program(tmp_path, plan)
    recorder.start()
    program.start()
    try:

        def beats(host: str) -> list[Recorded]:
            return recorder.values(host, "vcr.heartbeat")

        recorder.wait_for(lambda: all(len(beats(host)) >= 7 for host in busy), "seven polls")
        for host in busy:
            # At first the agents are asked in turn, and what was read too soon gives no value.
            heard = beats(host)[2:]
            assert min(b.clock - a.clock for a, b in itertools.pairwise(heard)) > COPY_LIVES + 0.5
            for uuid, load in ((busy[host].uuid, 100 if host == "hv1" else 0), (HALF_BUSY.uuid, 50)):
                values = [v for v in recorder.values(host, cpu(uuid)) if v.clock >= heard[0].clock]
                assert [float(v.text) for v in values] == [pytest.approx(load, abs=1)] * len(heard)
        said = [line for line in program.log.read_text().splitlines() if "is asked every 6 s" in line]
        assert len(said) == 1
        assert "hypervisors.hv2.snmp.agent: libvirt-snmp" in said[0]
        as_libvirt_snmp(pair_of_agents[0])
        wait_for(
            lambda: "has lost libvirt: its table is empty; restart it there" in program.log.read_text(), "the loss"
        )
        silent, others = len(beats("hv1")), len(beats("hv2"))
        recorder.wait_for(lambda: len(beats("hv2")) >= others + 2, "polls of the other")
        assert len(beats("hv1")) == silent
        as_libvirt_snmp(pair_of_agents[0], WEB)
        recorder.wait_for(lambda: len(beats("hv1")) > silent, "its return")
        assert {v.text for v in recorder.values("hv1", state(SERVICE_UUID))} == {"running"}
    finally:
        assert program.stop() == 0
        recorder.stop()


def relay_of(folder: Path, plan: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    Program(folder, plan)
    words = [sys.executable, "-m", "vcrecovery", "relay", "--plan", str(folder / "plan.yml")]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def test_what_cannot_work_is_said_in_one_line(tmp_path: Path) -> None:
    recorder = Recorder("127.0.1.8", 10051)
    agent = Agent("hv1", "127.0.2.1", tmp_path / "hv1", 0)
    plan = plan_of(tmp_path, [agent], recorder, POLL, v2c=True)
    (tmp_path / "auth").chmod(0o640)
    done = relay_of(tmp_path, plan)
    assert done.returncode == 2
    assert "can be read by others" in done.stderr
    assert AUTH not in done.stderr
    (tmp_path / "auth").chmod(0o600)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((LISTEN, plan["snmp"]["traps"]["port"]))
        done = relay_of(tmp_path, plan)
    assert done.returncode == 4
    assert "cannot listen on" in done.stderr

    (tmp_path / "community").unlink()
    done = relay_of(tmp_path, plan)
    assert done.returncode == 2
    assert "cannot be read" in done.stderr

    del plan["zabbix"]
    done = relay_of(tmp_path, plan)
    assert done.returncode == 2
    assert "no Zabbix" in done.stderr
    assert "Traceback" not in done.stderr
