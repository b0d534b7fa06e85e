"""The relay between real agents of net-snmp and a trapper that keeps what comes. No root, no lab: loopback only."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from relay_bench.agents import AUTH, Agent, Guest, agents
from relay_bench.program import LISTEN, SERVICE, SERVICE_UUID, Program, plan_of
from relay_bench.recorder import Recorded, Recorder
from vcrecovery.plan.monitoring import COPY_LIVES
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.stand_still import stand_still

from .relay_made import (  # noqa: F401 - fixtures
    CRASHED,
    HALF_BUSY,
    NEW_ROOT,
    OLD_ROOT,
    OTHER,
    POLL,
    RUNNING,
    SHUTOFF,
    WEB,
    Made,
    both_agents,
    cpu,
    relay_made,
    state,
    variables,
)
from .waiting import wait_for


def test_what_zabbix_is_told_of_a_hypervisor(made: Made) -> None:
    made.hv1.show([WEB, replace(OTHER, state=SHUTOFF, vcpus=0)])
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    made.wait_for_state("hv1", OTHER.uuid, "shutoff (not seen running)")

    def half() -> bool:
        """One of two vCPUs is busy. Single values depend on when snmpd's processes ran."""
        values = [float(v.text) for v in made.recorder.values("hv1", cpu(SERVICE_UUID))]
        return len(values) >= 5 and statistics.median(values) == pytest.approx(50, abs=20)

    made.recorder.wait_for(half, "utilisation")
    # One that is off uses none.
    assert {v.text for v in made.recorder.values("hv1", cpu(OTHER.uuid))} == {"0"}
    assert {v.text for v in made.recorder.values("hv1", "vcr.asked")} == {"1"}
    assert made.last("hv1", "vcr.summary") == f"{SERVICE}: VM web-vm is running"
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


def test_zabbix_down_then_up(made: Made) -> None:
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    made.wait_for_state("hv2", OTHER.uuid, "running")
    # Of an item that Zabbix has not taken yet, only the newest value is kept.
    made.recorder.wait_for(lambda: made.recorder.values("hv1", "vcr.heartbeat"), "the first heartbeat of hv1")
    made.recorder.wait_for(lambda: made.recorder.values("hv2", "vcr.heartbeat"), "the first heartbeat of hv2")
    made.recorder.stop()
    zabbix = f"measurements wait: Zabbix's trapper {made.recorder.address}:{made.recorder.port} does not answer"
    wait_for(lambda: made.log_has(zabbix), "the log line")
    assert made.inform(made.hv1, CRASHED)
    assert made.inform(made.hv1, variables(SERVICE_UUID, RUNNING, "started", "booted"))
    assert made.inform(made.hv2, variables(OTHER.uuid, SHUTOFF, "stopped", "destroyed"))
    before = len(made.recorder.values(key="vcr.heartbeat"))
    up_at = time.time()
    made.recorder.start()
    made.wait_for_state("hv2", OTHER.uuid, "shutoff (destroyed)")
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    # Nothing is lost or out of order, and each value has the time at which it was true.
    words = [v.text for v in made.recorder.values("hv1", state(SERVICE_UUID))]
    assert words[-2:] == ["shutoff (crashed)", "running"]
    assert made.recorder.values("hv1", state(SERVICE_UUID))[-1].clock < up_at
    made.recorder.wait_for(
        lambda: any(v.clock < up_at for v in made.recorder.values(key="vcr.heartbeat")[before:]), "old heartbeats"
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


def test_an_agent_whose_table_hangs_is_silent_and_comes_back(made: Made) -> None:
    """Its sysUpTime stands still with it: nothing old is taken for new."""
    made.wait_for_state("hv1", SERVICE_UUID, "running")
    programs = made.hv1.table_programs()
    for pid in programs:
        stand_still(pid)
    try:
        wait_for(lambda: made.log_has("the SNMP agent of hypervisor hv1"), "the log line")
        wait_for(lambda: _is_silent(made), "the end of its heartbeats")
    finally:
        for pid in programs:
            os.kill(pid, signal.SIGCONT)
    made.wait_for_polls("hv1", 4)
    assert {v.text for v in made.recorder.values("hv1", state(SERVICE_UUID))} == {"running"}


def _is_silent(made: Made) -> bool:
    """Whether none of its heartbeats comes while the other one is polled."""
    before = len(made.recorder.values("hv1", "vcr.heartbeat"))
    made.wait_for_polls("hv2", 4)
    return len(made.recorder.values("hv1", "vcr.heartbeat")) == before


def as_libvirt_snmp(agent: Agent, *guests: Guest) -> None:
    """The table as libvirt-snmp shows it: it never says whether libvirt answers, and its copy lives 5.000 s."""
    agent.show(guests, libvirt=None, copy=COPY_LIVES)


BUSY = {"hv1": replace(WEB, rate=2 * 10**9), "hv2": OTHER}


@dataclass
class Copying:
    """The relay at the default poll, with two agents that are libvirt-snmp; of hv1 the plan says so."""

    agents: list[Agent]
    recorder: Recorder
    program: Program

    def beats(self, host: str) -> list[Recorded]:
        return self.recorder.values(host, "vcr.heartbeat")


@pytest.fixture
def copying(tmp_path: Path) -> Iterator[Copying]:
    recorder = Recorder("127.0.1.8", free_port("127.0.1.8"))
    with agents(tmp_path / "agents", 2) as pair:
        plan = plan_of(tmp_path, pair, recorder, 5.0, v2c=False)
        plan["hypervisors"]["hv1"]["snmp"]["agent"] = "libvirt-snmp"
        for agent in pair:
            as_libvirt_snmp(agent, BUSY[agent.name], HALF_BUSY)
        program = Program(tmp_path, plan)
        recorder.start()
        program.start()
        try:
            yield Copying(pair, recorder, program)
        finally:
            status = program.stop()
            recorder.stop()
        assert status == 0


@pytest.mark.begins_first
def test_libvirt_snmp_at_the_default_poll(copying: Copying) -> None:
    """Every value right, whether the plan says what it is or not."""
    recorder, beats = copying.recorder, copying.beats
    recorder.wait_for(lambda: all(len(beats(host)) >= 7 for host in BUSY), "seven polls")
    for host in BUSY:
        # At first the agents are asked in turn, and what was read too soon gives no value.
        heard = beats(host)[2:]
        assert min(b.clock - a.clock for a, b in itertools.pairwise(heard)) > COPY_LIVES + 0.5
        for uuid, load in ((BUSY[host].uuid, 100 if host == "hv1" else 0), (HALF_BUSY.uuid, 50)):
            values = [v for v in recorder.values(host, cpu(uuid)) if v.clock >= heard[0].clock]
            # On a busy machine a walk may last too long for a value.
            assert len(values) >= len(heard) - 1
            assert [float(v.text) for v in values] == [pytest.approx(load, abs=5)] * len(values)
    said = [line for line in copying.program.log.read_text().splitlines() if "is asked every 6 s" in line]
    assert len(said) == 1
    assert "hypervisors.hv2.snmp.agent: libvirt-snmp" in said[0]
    assert {v.text for v in recorder.values("hv1", state(SERVICE_UUID))} == {"running"}


@pytest.mark.begins_first
def test_libvirt_snmp_is_silent_once_it_has_lost_its_libvirtd(copying: Copying) -> None:
    recorder, beats = copying.recorder, copying.beats
    recorder.wait_for(lambda: all(len(beats(host)) >= 2 for host in BUSY), "two polls")
    as_libvirt_snmp(copying.agents[0])
    lost = "has lost libvirt: its table is empty; restart it there"
    wait_for(lambda: lost in copying.program.log.read_text(), "the loss")
    silent, others = len(beats("hv1")), len(beats("hv2"))
    recorder.wait_for(lambda: len(beats("hv2")) >= others + 2, "polls of the other")
    assert len(beats("hv1")) == silent
    as_libvirt_snmp(copying.agents[0], WEB)
    recorder.wait_for(lambda: len(beats("hv1")) > silent, "its return")
    assert {v.text for v in recorder.values("hv1", state(SERVICE_UUID))} == {"running"}


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
