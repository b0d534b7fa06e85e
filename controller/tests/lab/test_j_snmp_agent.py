"""The agent of hypervisors on real parts: libvirt and QEMU, snmpd, snmptrapd, net-snmp's programs."""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest
import yaml

from vcrecovery.snmp.mib import ENTERPRISE, OLD_ENTERPRISE, Column, Extra, Oid, column, scalar
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.net_snmp import AUTH, PRIVACY, USER, Agent, TrapReceiver, ask, parse, text
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.private_libvirt import PrivateLibvirt
from vcrecovery_lab.run import run
from vcrecovery_lab.stand_still import stand_still

from .conftest import PROGRAM
from .role_plays import end_daemons
from .waiting import wait_for

pytestmark = pytest.mark.lab

#: In capitals, as some tools print them.
ONE, TWO, OFF = (UUID(f"6F1C2A54-7C0D-4A7E-9A51-0D3B1F7E20{n:02X}") for n in (1, 254, 255))
ODD_NAME = 'o\'dd "näme" $(x) .1 NONE'
SLOW = 120.0


def dotted(oid: Oid) -> str:
    return "." + ".".join(map(str, oid))


def cell(which: Column, uuid: UUID, enterprise: Oid = ENTERPRISE) -> str:
    return dotted(column(which, uuid, enterprise))


LIBVIRT_ANSWERS = dotted(scalar(Extra.LIBVIRT))
TABLE = dotted((*ENTERPRISE, 1, 1))


@pytest.fixture(scope="module")
def libvirt() -> Iterator[PrivateLibvirt]:
    if os.geteuid() != 0:
        pytest.fail("the lab's tests make VMs: run them as root")
    daemon = PrivateLibvirt()
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.close()


@pytest.fixture(scope="module")
def guests(libvirt: PrivateLibvirt) -> PrivateLibvirt:
    libvirt.make("one", str(ONE))
    libvirt.make(ODD_NAME, str(TWO))
    libvirt.make("off", str(OFF), start=False)
    return libvirt


def table_command(uri: str, *words: str) -> str:
    # snmpd splits at spaces, and knows no quotes.
    return " ".join([str(PROGRAM), "snmp-agent", "table", "--host", "hv1", "--uri", uri, *words])


@pytest.fixture(scope="module")
def agent(guests: PrivateLibvirt, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    daemon = Agent(tmp_path_factory.mktemp("agent"), table_command(guests.uri), dotted(ENTERPRISE))
    daemon.start()
    try:
        wait_for(lambda: agent_says(daemon, ONE, Column.STATE) == "1", "the table", SLOW)
        yield daemon
    finally:
        daemon.stop()


def agent_says(agent: Agent, uuid: UUID, which: Column) -> str:
    return agent.walk(TABLE).get(cell(which, uuid), "")


def whole_table(agent: Agent) -> dict[str, str]:
    """With a row for each VM. On a busy machine libvirt may be late for a poll, which gets no table then."""
    found: dict[str, str] = {}

    def complete() -> bool:
        found.clear()
        found.update(agent.walk(TABLE))
        return all(cell(Column.ROW_STATUS, uuid) in found for uuid in (ONE, TWO, OFF))

    wait_for(complete, "the whole table", SLOW)
    return found


def test_the_table_is_what_libvirt_says(guests: PrivateLibvirt, agent: Agent) -> None:
    found = whole_table(agent)
    columns = [which for which in Column if which is not Column.UUID]
    assert list(found) == [cell(which, uuid) for which in columns for uuid in (ONE, TWO, OFF)]
    for name, uuid, state in (("one", ONE, "1"), (ODD_NAME, TWO, "1"), ("off", OFF, "5")):
        said = dict(re.findall(r"^(\S.*?):\s+(\S+)", guests.virsh("dominfo", str(uuid)), re.MULTILINE))
        assert text(found[cell(Column.NAME, uuid)]) == name
        assert found[cell(Column.STATE, uuid)] == state
        assert found[cell(Column.CPU_COUNT, uuid)] == said["CPU(s)"]
        assert int(found[cell(Column.MEMORY_CURRENT, uuid)]) * 1024 == int(said["Used memory"])
        assert int(found[cell(Column.MEMORY_LIMIT, uuid)]) * 1024 == int(said["Max memory"])
        assert found[cell(Column.ROW_STATUS, uuid)] == "1"
    assert found[cell(Column.CPU_TIME, OFF)] == "0"
    assert text(agent.walk(dotted(scalar(Extra.HOST)[:-1]))[dotted(scalar(Extra.HOST))]) == "hv1"
    wait_for(lambda: agent.get(LIBVIRT_ANSWERS).endswith(" 1"), "that libvirt answers", SLOW)


def cpu_time_of(guests: PrivateLibvirt, uuid: UUID) -> int:
    return int(re.findall(r"cpu\.time=(\d+)", guests.virsh("domstats", "--cpu-total", str(uuid)))[0])


def test_cpu_time_is_libvirts_and_fresh(guests: PrivateLibvirt, agent: Agent) -> None:
    before = cpu_time_of(guests, ONE)
    time.sleep(1.1)  # what was read before the question is not used again
    said = int(whole_table(agent)[cell(Column.CPU_TIME, ONE)])
    assert before <= said <= cpu_time_of(guests, ONE)


def test_what_changes_is_seen_by_the_next_poll(guests: PrivateLibvirt, agent: Agent) -> None:
    uuid = UUID("6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e2003")
    guests.make("transient", str(uuid), transient=True)
    try:
        wait_for(lambda: agent_says(agent, uuid, Column.STATE) == "1", "the new VM", SLOW)
        guests.virsh("suspend", "transient")
        wait_for(lambda: agent_says(agent, uuid, Column.STATE) == "3", "its pause", SLOW)
    finally:
        guests.forget("transient")
    wait_for(lambda: agent_says(agent, uuid, Column.STATE) == "", "the end of its row", SLOW)
    wait_for(lambda: agent.get(LIBVIRT_ANSWERS).endswith(" 1"), "that libvirt answers", SLOW)


def test_a_qemu_that_hangs_holds_nobody_up(guests: PrivateLibvirt, agent: Agent) -> None:
    stand_still(pid := guests.qemu("one"))
    try:
        time.sleep(1.1)  # what was read before the question is not used again
        found = whole_table(agent)
        assert [found.get(cell(Column.STATE, uuid)) for uuid in (ONE, TWO, OFF)] == ["1", "1", "5"]
    finally:
        os.kill(pid, signal.SIGCONT)


def test_nothing_can_be_set(guests: PrivateLibvirt, agent: Agent) -> None:
    for oid, value in ((cell(Column.ROW_STATUS, ONE), "6"), (cell(Column.STATE, ONE), "5")):
        assert "notWritable" in agent.set(oid, "i", value)
    assert guests.virsh("domstate", "one").strip() == "running"


def test_libvirt_hangs_dies_and_comes_back(guests: PrivateLibvirt, agent: Agent) -> None:
    stand_still(guests.pid)
    try:
        wait_for(lambda: agent.get(LIBVIRT_ANSWERS).endswith(" 2"), "the silence of a libvirtd that hangs", SLOW)
        assert agent.walk(TABLE) == {}
        # sysUpTime answers while only libvirt hangs, and quickly.
        assert min(agent.seconds_to_answer(".1.3.6.1.2.1.1.3.0") for _ in range(5)) < 2.0
    finally:
        os.kill(guests.pid, signal.SIGCONT)
    wait_for(lambda: agent_says(agent, ONE, Column.STATE) == "1", "the table after the hang", SLOW)
    guests.kill()
    wait_for(lambda: agent.get(LIBVIRT_ANSWERS).endswith(" 2"), "the silence of a dead libvirtd", SLOW)
    assert agent.walk(TABLE) == {}
    guests.start()
    wait_for(lambda: agent_says(agent, ONE, Column.STATE) == "1", "the table after the restart", SLOW)
    assert whole_table(agent)[cell(Column.STATE, OFF)] == "5"


def test_the_old_enterprise(guests: PrivateLibvirt, tmp_path: Path) -> None:
    command = table_command(guests.uri, "--enterprise", "12345")
    agent = Agent(tmp_path / "agent", command, dotted(OLD_ENTERPRISE))
    agent.start()
    try:
        wait_for(
            lambda: agent.walk(dotted(OLD_ENTERPRISE)).get(cell(Column.STATE, OFF, OLD_ENTERPRISE)) == "5",
            "the table",
            SLOW,
        )
    finally:
        agent.stop()


# -- notifications ---------------------------------------------------------------------------------------------


class Notifier:
    """`vcrecovery snmp-agent notify` and what it says."""

    def __init__(self, folder: Path, uri: str, destination: dict[str, object], **more: object) -> None:
        for name, passphrase in (("auth", AUTH), ("privacy", PRIVACY), ("community", "vcr-community")):
            file = folder / name
            file.touch(mode=0o600)
            file.write_text(passphrase + "\n")
        settings = {
            "host": "hv1",
            "uri": uri,
            "users": {USER: {"auth_file": str(folder / "auth"), "privacy_file": str(folder / "privacy")}},
            "destinations": [{"address": "127.0.0.1", **destination}],
            **more,
        }
        self.config = folder / "snmp-agent.yml"
        self.config.write_text(yaml.safe_dump(settings))
        self.log = folder / "notify.log"

    def start(self) -> None:
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [PROGRAM, "snmp-agent", "notify", "--config", self.config], stdout=output, stderr=output
            )
        try:
            wait_for(lambda: self.says("following libvirt's events"), "the notifier", SLOW)
        except BaseException:
            self.process.kill()
            self.process.wait(timeout=30)
            raise

    def says(self, words: str, times: int = 1) -> bool:
        return self.log.read_text().count(words) >= times

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(timeout=30) == 0
        assert "Traceback" not in self.log.read_text()
        assert AUTH not in self.log.read_text()


@contextmanager
def notifying(folder: Path, uri: str, destination: dict[str, object], **more: object) -> Iterator[Notifier]:
    notifier = Notifier(folder, uri, destination, **more)
    notifier.start()
    try:
        yield notifier
    finally:
        notifier.stop()


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[TrapReceiver]:
    daemon = TrapReceiver(tmp_path / "receiver")
    daemon.start()
    yield daemon
    daemon.stop()


def told(receiver: TrapReceiver, enterprise: Oid = ENTERPRISE) -> list[tuple[str, str, str, str]]:
    """Name, event, detail and state of each notification, in their order."""

    def said(entry: dict[str, str], which: Column | Extra) -> str:
        return entry.get(dotted(scalar(which, enterprise)), "")

    return [
        (
            text(said(entry, Column.NAME)),
            text(said(entry, Extra.EVENT)),
            text(said(entry, Extra.DETAIL)),
            said(entry, Column.STATE),
        )
        for entry in receiver.received()
    ]


def told_of(receiver: TrapReceiver, name: str) -> list[tuple[str, str, str]]:
    """Each once: an inform whose answer is late is sent again."""
    entries = [(event, detail, state) for who, event, detail, state in told(receiver) if who == name]
    return [entry for entry, _ in itertools.groupby(entries)]


def test_a_killed_vm_is_told_as_failed(guests: PrivateLibvirt, receiver: TrapReceiver, tmp_path: Path) -> None:
    with notifying(tmp_path, guests.uri, {"port": receiver.port, "user": USER}):
        guests.make("crash", uuid := "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e2004")
        try:
            wait_for(lambda: ("started", "booted", "1") in told_of(receiver, "crash"), "its start", SLOW)
            os.kill(guests.qemu("crash"), signal.SIGKILL)
            wait_for(lambda: told_of(receiver, "crash")[-1][0] == "stopped", "its end", SLOW)
        finally:
            guests.forget("crash")
    assert told_of(receiver, "crash")[-1] in (("stopped", "failed", "5"), ("stopped", "crashed", "5"))
    entry = receiver.received()[-1]
    assert entry[".1.3.6.1.6.3.1.1.4.1.0"] == dotted((*ENTERPRISE, 0, 1))
    assert UUID(bytes=bytes.fromhex(entry[dotted(scalar(Column.UUID))])) == UUID(uuid)
    assert entry[dotted(scalar(Column.ROW_STATUS))] == "2"
    assert text(entry[dotted(scalar(Extra.HOST))]) == "hv1"
    assert list(entry)[2:] == [
        dotted(scalar(which))
        for which in (
            Column.NAME, Column.UUID, Column.STATE, Column.ROW_STATUS, Extra.EVENT, Extra.DETAIL, Extra.HOST, Extra.AGE
        )
    ]  # fmt: skip


def test_what_an_operator_does_is_told_as_such(guests: PrivateLibvirt, receiver: TrapReceiver, tmp_path: Path) -> None:
    with notifying(tmp_path, guests.uri, {"port": receiver.port, "user": USER}):
        # A transient VM is gone with its end: nobody could be asked any more how it ended.
        guests.make("brief", "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e2005", transient=True)
        try:
            for word in ("suspend", "resume", "destroy"):
                guests.virsh(word, "brief")
        finally:
            guests.forget("brief")
        wait_for(lambda: ("stopped", "destroyed", "5") in told_of(receiver, "brief"), "its end", SLOW)
    seen = told_of(receiver, "brief")
    wanted = [
        ("started", "booted", "1"),
        ("suspended", "paused", "3"),
        ("resumed", "unpaused", "1"),
        ("stopped", "destroyed", "5"),
    ]
    assert [entry for entry in seen[seen.index(wanted[0]) :] if entry in wanted] == wanted


def test_v2c_traps_with_the_old_enterprise(guests: PrivateLibvirt, receiver: TrapReceiver, tmp_path: Path) -> None:
    destination = {"port": receiver.port, "community_file": str(tmp_path / "community")}
    with notifying(tmp_path, guests.uri, destination, enterprise=12345):
        guests.make("old", "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e2006", transient=True)
        guests.forget("old")
        wait_for(lambda: ("old", "stopped", "destroyed", "5") in told(receiver, OLD_ENTERPRISE), "the trap", SLOW)
    assert receiver.received()[-1][".1.3.6.1.6.3.1.1.4.1.0"] == dotted((*OLD_ENTERPRISE, 0, 1))


def test_a_receiver_that_was_away_gets_all_in_order(
    guests: PrivateLibvirt, receiver: TrapReceiver, tmp_path: Path
) -> None:
    with notifying(tmp_path, guests.uri, {"port": receiver.port, "user": USER}) as notifier:
        guests.virsh("suspend", "one")
        wait_for(lambda: told_of(receiver, "one")[-1:] == [("suspended", "paused", "3")], "the first pause", SLOW)
        receiver.stop()
        for word in ("resume", "suspend", "resume"):
            guests.virsh(word, "one")
        wait_for(lambda: notifier.says("its notifications are queued"), "the notifier's complaint", SLOW)
        receiver.start()
        wait_for(lambda: len(told_of(receiver, "one")) >= 4, "what happened meanwhile", SLOW)
        receiver.stop()
        receiver.become_another()
        guests.virsh("suspend", "one")
        guests.virsh("resume", "one")
        receiver.start()
        wait_for(lambda: len(told_of(receiver, "one")) >= 6, "what another engine was told", SLOW)
    pause, resume = ("suspended", "paused", "3"), ("resumed", "unpaused", "1")
    assert told_of(receiver, "one") == [pause, resume] * 3


def test_libvirt_restarts_and_what_happened_meanwhile_is_told(
    guests: PrivateLibvirt, receiver: TrapReceiver, tmp_path: Path
) -> None:
    guests.make("orphan", "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e2007")
    try:
        pid = guests.qemu("orphan")
        with notifying(tmp_path, guests.uri, {"port": receiver.port, "user": USER}) as notifier:
            guests.kill()
            wait_for(lambda: notifier.says("connection to libvirt lost"), "the loss", SLOW)
            os.kill(pid, signal.SIGKILL)
            guests.start()
            wait_for(lambda: notifier.says("following libvirt's events", 2), "the return", SLOW)
            wait_for(lambda: told_of(receiver, "orphan") != [], "the VM that died meanwhile", SLOW)
            guests.virsh("suspend", "one")
            guests.virsh("resume", "one")
            wait_for(lambda: ("resumed", "unpaused", "1") in told_of(receiver, "one"), "events again", SLOW)
        event, detail, state = told_of(receiver, "orphan")[-1]
        assert (event, state) == ("stopped", "5")
        assert detail in ("failed", "crashed", "daemon")
    finally:
        guests.forget("orphan")


# -- the role --------------------------------------------------------------------------------------------------


def apply_role(folder: Path, libvirt: PrivateLibvirt, port: int, receiver: TrapReceiver) -> int:
    """Runs the role's part for SNMP into a folder; how many tasks changed something."""
    variables = {
        "hypervisor_snmp_agent": "vcrecovery",
        "hypervisor_snmp_destinations": [{"address": "127.0.0.1", "port": receiver.port}],
        "hypervisor_snmp_user": USER,
        "hypervisor_snmp_auth": AUTH,
        "hypervisor_snmp_privacy": PRIVACY,
        "hypervisor_snmp_uri": libvirt.uri,
        "hypervisor_snmp_listen": f"udp:127.0.0.1:{port}",
        "hypervisor_snmp_packages": [],
        "hypervisor_snmp_account": "root",
        "hypervisor_supervisor": "process",
        "hypervisor_venv": str(PROGRAM.parents[1]),
        "secondary_has_the_program": True,
        **{
            f"hypervisor_{name}_dir": str(folder / name)
            for name in ("config", "run", "log", "snmp_config", "snmp_state")
        },
    }
    for name in ("config", "snmp_config", "snmp_state"):
        (folder / name).mkdir(exist_ok=True)
    playbook = folder / "play.yml"
    role = {"name": "vcrecovery.standby.hypervisor", "tasks_from": "snmp"}
    play = {"hosts": "hv1", "connection": "local", "tasks": [{"ansible.builtin.include_role": role}], "vars": variables}
    playbook.write_text(yaml.safe_dump([play]))
    command = [str(CHECKOUT / ".venv/bin/ansible-playbook"), "-i", "hv1,", str(playbook)]
    env = {"ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    done = run(command, timeout=300, env=env, check=False)
    printed = done.stdout + done.stderr
    recap = re.search(r"changed=(\d+) +unreachable=0 +failed=0", printed)
    assert recap, printed
    assert AUTH not in printed
    assert PRIVACY not in printed
    return int(recap[1])


def test_the_role(
    guests: PrivateLibvirt, receiver: TrapReceiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(CHECKOUT)
    port = free_port()
    try:
        assert apply_role(tmp_path, guests, port, receiver) > 0
        wait_for(lambda: parse(ask(port, "snmpbulkwalk", TABLE)).get(cell(Column.STATE, ONE)) == "1", "the table", SLOW)
        assert parse(ask(port, "snmpget", ".1.3.6.1.2.1.1.3.0")) != {}
        assert parse(ask(port, "snmpbulkwalk", ".1.3.6.1.2.1.2")) == {}
        assert "noAccess" in ask(port, "snmpset", cell(Column.ROW_STATUS, ONE), "i", "6")
        community = [
            "snmpget",
            "-m",
            "",
            "-v2c",
            "-c",
            "public",
            "-t",
            "1",
            "-r",
            "0",
            f"127.0.0.1:{port}",
            ".1.3.6.1.2.1.1.3.0",
        ]
        assert run(community, timeout=30, check=False).returncode != 0
        for folder in ("config", "log", "run", "snmp_config", "snmp_state"):
            for file in filter(Path.is_file, (tmp_path / folder).rglob("*")):
                content = file.read_text(errors="replace")
                if AUTH in content or PRIVACY in content:
                    assert file.stat().st_mode & 0o077 == 0, file
        assert AUTH not in (tmp_path / "snmp_state/snmpd.conf").read_text()
        log = tmp_path / "log/vcrecovery-snmp-agent.log"
        wait_for(lambda: "following libvirt's events" in log.read_text(), "the notifier", SLOW)
        guests.virsh("suspend", "one")
        guests.virsh("resume", "one")
        wait_for(lambda: ("resumed", "unpaused", "1") in told_of(receiver, "one"), "the notification", SLOW)
        assert apply_role(tmp_path, guests, port, receiver) == 0
    finally:
        end_daemons(tmp_path / "run")
