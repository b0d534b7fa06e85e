"""The lab's Zabbix: it works, and nothing of it is left."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from vcrecovery_lab.pair.process import name
from vcrecovery_lab.progress import silent_progress
from vcrecovery_lab.run import LabError, run
from vcrecovery_lab.zabbix import Stack, packages, zabbix
from vcrecovery_lab.zabbix.process import PATIENCE, Child

from .waiting import wait_for
from .zabbix_stack import VERSIONS, throwaway_folder, throwaway_zabbix

pytestmark = pytest.mark.lab


def trapper_item(stack: Stack, host: str) -> str:
    api = stack.api()
    group = api.hostgroup.create(name=f"group of {host}")["groupids"][0]
    hostid = api.host.create(host=host, groups=[{"groupid": group}])["hostids"][0]
    item = api.item.create(hostid=hostid, name="value", key_="value", type=2, value_type=3)
    return str(item["itemids"][0])


def arrived(stack: Stack, item: str) -> list[str]:
    return [row["value"] for row in stack.api().history.get(itemids=[item], history=3, sortfield="clock")]


def test_a_value_goes_from_the_trapper_to_the_api(zabbix_each: Stack) -> None:
    api = zabbix_each.api()
    assert str(api.api_version()).startswith(zabbix_each.version)
    item = trapper_item(zabbix_each, "sent")
    zabbix_each.send(("sent", "value", 42))
    wait_for(lambda: arrived(zabbix_each, item) == ["42"], "the value")


def test_its_programs_hang_on_nothing_that_this_machine_has_installed(zabbix_each: Stack) -> None:
    made = zabbix_each.installation
    programs = [made.program(name) for name in ("zabbix_server", "zabbix_agentd", "zabbix_get", "postgres", "php8.2")]
    extensions = list(made.root.glob("usr/lib/php/*/*.so"))
    c_library = run(["dpkg", "--listfiles", "libc6"], timeout=60).stdout.split()
    of_c = {Path(file).name for file in c_library} | {"linux-vdso.so.1"}
    assert extensions
    for file in (*programs, *extensions):
        said = run(["ldd", file], timeout=60, env=made.env).stdout
        loaded = [line.split() for line in said.splitlines()]
        foreign = [words for words in loaded if Path(words[0]).name not in of_c and str(made.root) not in words[-2]]
        assert foreign == [], file


def test_an_agent_answers_whoever_has_the_key_and_runs_what_is_allowed(zabbix_each: Stack) -> None:
    agent = zabbix_each.agent("keyed", psk=True, allow=["system.run[/bin/echo *]"], deny=["system.run[*]"])
    assert agent.ask("agent.version").startswith(zabbix_each.version)
    assert agent.ask("system.run[/bin/echo hello]") == "hello"
    assert "NOTSUPPORTED" in agent.ask("system.run[/bin/ls /]")
    agent.psk = None
    assert not agent.ask("agent.version").startswith(zabbix_each.version)
    agent.stop()


def test_the_server_asks_an_agent_with_the_key(zabbix_each: Stack) -> None:
    agent = zabbix_each.agent("asked", psk=True)
    assert agent.psk is not None
    api = zabbix_each.api()
    group = api.hostgroup.create(name="group of asked")["groupids"][0]
    interface = {"type": 1, "main": 1, "useip": 1, "ip": "127.0.0.1", "dns": "", "port": str(agent.port)}
    encryption = {"tls_connect": 2, "tls_accept": 2, "tls_psk_identity": "asked", "tls_psk": agent.psk.file.read_text()}
    host = api.host.create(host="asked", groups=[{"groupid": group}], interfaces=[interface], **encryption)
    (hostid,) = host["hostids"]
    interfaceid = api.hostinterface.get(hostids=[hostid])[0]["interfaceid"]
    values = {"key_": "agent.ping", "type": 0, "value_type": 3, "delay": "1s", "interfaceid": interfaceid}
    (item,) = api.item.create(hostid=hostid, name="ping", **values)["itemids"]
    wait_for(lambda: "1" in arrived(zabbix_each, item), "the agent's answer")
    agent.stop()


def test_the_server_is_restarted_again_and_again_and_keeps_what_it_knows(zabbix_each: Stack) -> None:
    item = trapper_item(zabbix_each, "restarted")
    for number in range(3):
        zabbix_each.restart_server()
        zabbix_each.send(("restarted", "value", number))
        # A value is taken before it is written: one that is on its way is lost with the server.
        expected = [str(earlier) for earlier in range(number + 1)]
        wait_for(lambda expected=expected: arrived(zabbix_each, item) == expected, f"value {number}")  # type: ignore[misc]


def test_the_server_goes_on_when_its_database_comes_back(zabbix_each: Stack) -> None:
    item = trapper_item(zabbix_each, "without-database")
    zabbix_each.stop_database()
    zabbix_each.start_database()
    zabbix_each.send(("without-database", "value", 1), seconds=90)
    wait_for(lambda: arrived(zabbix_each, item) == ["1"], "the value")


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_left_of_a_stack(version: str) -> None:
    with throwaway_zabbix(version) as stack:
        stack.agent("left")
        ports = [stack.trapper_port, stack.api_port, stack.agents["left"].port]
        folder = stack.folder
        processes = stack.processes()
        assert {"postgres", "zabbix_server", "zabbix_agentd", "php8.2"} <= {name(pid) for pid in processes}
    assert [pid for pid in processes if Path(f"/proc/{pid}/cmdline").exists() and name(pid) != ""] == []
    assert not folder.exists()
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))


def test_two_stacks_of_one_version_live_side_by_side(zabbix70: Stack) -> None:
    with throwaway_zabbix("7.0") as other:
        assert other.url != zabbix70.url
        item = trapper_item(other, "side-by-side")
        other.send(("side-by-side", "value", 1))
        wait_for(lambda: arrived(other, item) == ["1"], "the value")
        assert not zabbix70.api().host.get(filter={"host": "side-by-side"})
    assert zabbix70.api().host.get(countOutput=True)


def test_the_end_of_a_program_waits_for_its_last_child(tmp_path: Path) -> None:
    log = tmp_path / "log"
    # The child cares for no signal to its parent, and outlives it by a second.
    script = "sh -c 'trap \"\" TERM; echo $$; sleep 1' & echo ready; exec sleep 600"
    child = Child("a parent", ["sh", "-c", script], log, env={})
    child.wait_until_ready(lambda: len(log.read_text().split()) == 2)
    (pid,) = (int(word) for word in log.read_text().split() if word.isdigit())
    child.end()
    assert not child.running()
    wait_for(lambda: not Path(f"/proc/{pid}").exists() or "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text(), "")


def test_a_program_that_ends_by_itself_is_told_with_its_last_words(tmp_path: Path) -> None:
    child = Child("a server", ["sh", "-c", "echo the port is taken; exit 1"], tmp_path / "log", env={})
    started = time.monotonic()
    with pytest.raises(LabError, match="a server ended by itself: the port is taken"):
        child.wait_until_ready(lambda: False)
    assert time.monotonic() - started < PATIENCE


def test_a_program_that_ignores_its_signal_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    child = Child("a deaf one", ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"], log, env={})
    child.wait_until_ready(lambda: "ready" in log.read_text(), 30)
    monkeypatch.setattr("vcrecovery_lab.zabbix.process.PATIENCE", 1.0)
    child.end()
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, signal.SIG_DFL)


def test_an_archive_that_is_not_there_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "RETRIES", 0)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{closed.getsockname()[1]}/debian bookworm"
        monkeypatch.setattr(packages, "_sources", lambda: [address])
        with pytest.raises(LabError, match=r"^the packages of Zabbix 6\.0 were not downloaded: ") as caught:
            packages.unpack("6.0", tmp_path, silent_progress)
    assert "\n" not in str(caught.value)


def test_a_folder_out_of_reach_and_an_unknown_version_are_told(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="would be too long"), zabbix("7.0", tmp_path / ("long" * 20)):
        pass
    with throwaway_folder() as folder:
        with pytest.raises(LabError, match=r"7\.0 and 6\.0"), zabbix("5.0", folder):
            pass
        folder.chmod(0o700)
        with pytest.raises(LabError, match="nobody cannot reach it"), zabbix("7.0", folder / "below"):
            pass
