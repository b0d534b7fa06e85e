"""`status` as an operator has it: the program itself, with hosts and servers that are away or hang."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from view_program import PATIENCE, Reader, command, env, on_a_terminal, only
from view_program import vcrecovery as started
from warm_program import vcrecovery

from lab.waiting import wait_for
from vcrecovery.errors import ExitCode
from vcrecovery.plan.modes import Mode
from vcrecovery.standby.modes import ChosenModes

# -- status ----------------------------------------------------------------------------------------------------


def test_what_hangs_is_said_to_hang_in_time(hanging: Path) -> None:
    begun = time.monotonic()
    done = started("status", "--within", "1", "--plan", hanging)
    # One after the other would be ten seconds for libvirt, ten for LXD, six for DNS.
    assert time.monotonic() - begun < 20
    assert done.returncode == 0
    assert done.stderr == ""
    for who in ("hypervisor hv1", "LXD on secondary sec1"):
        assert f"{who} did not answer within 1 s" in done.stdout
    # The question to DNS ends by itself after 3 s; where the machine stands still for so long, both are over then.
    assert re.search("its DNS server did not answer within 1 s|The DNS operation timed out", done.stdout), done.stdout


def test_the_ports_of_both_addresses_are_asked(local_plan: Path) -> None:
    with socket.create_server(("127.0.1.10", 0)) as old:
        port = old.getsockname()[1]
        with socket.socket(socket.AF_INET6) as new:
            # Not IPv4 as well, as IPv6's own wildcard would.
            new.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            new.bind(("::1", port))
            new.listen()
            text = local_plan.read_text().replace("address: 127.0.1.10}", "address: 127.0.1.10, address6: '::1'}")
            local_plan.write_text(text.replace("[1, {tcp: 2}]", f"[{port}]"))
            seen = only(vcrecovery("status", "web", "--json", "--plan", local_plan).stdout)
            assert seen["ports"] == {f"127.0.1.10:{port}": True, f"[::1]:{port}": True}
        seen = only(vcrecovery("status", "web", "--json", "--plan", local_plan).stdout)
        assert seen["ports"] == {f"127.0.1.10:{port}": True, f"[::1]:{port}": False}


def test_many_services_take_no_longer(hanging: Path) -> None:
    head, service = hanging.read_text().split("  web:\n")
    names = [f"web{number:03}" for number in range(100)]
    services = "".join(
        f"  {name}:\n"
        + service.replace("1f7e0001", f"1f7e{number:04}")
        .replace("127.0.0.10", f"127.0.0.{number + 10}")
        .replace("www.", f"{name}.")
        .replace("127.0.1.10", f"127.0.1.{number + 10}")
        for number, name in enumerate(names)
    )
    hanging.write_text(head + services)
    begun = time.monotonic()
    found = json.loads(started("status", "--json", "--within", "2", "--plan", hanging).stdout)["services"]
    # Far from 100 times the time-outs.
    assert time.monotonic() - begun < 45
    assert [service["service"] for service in found] == names


def test_status_as_data(failed_over: Path) -> None:
    entry = only(vcrecovery("status", "--json", "--plan", failed_over).stdout)
    assert (entry["serves"], entry["epoch"], entry["verdict"]) == ("standby", 1, "service down")
    assert (entry["health"], entry["down_since"]) == ("down", None)
    assert entry["last_failover"]["seconds"] == pytest.approx(2.435, abs=0.001)
    assert entry["dns"] == {"www.example.test": None}
    assert entry["standby"]["state"] == "unreachable"
    assert {finding["level"] for finding in entry["findings"]} == {"attention", "warning"}


def test_the_mode_that_was_chosen_is_shown(failed_over: Path) -> None:
    assert only(vcrecovery("status", "--json", "--plan", failed_over).stdout)["mode"] == "cold"
    ChosenModes(failed_over.parent / "state").write("web", Mode.FROZEN)
    assert only(vcrecovery("status", "--json", "--plan", failed_over).stdout)["mode"] == "frozen"


def test_status_of_one_service(failed_over: Path) -> None:
    done = vcrecovery("status", "web", "--plan", failed_over)
    assert done.returncode == 0
    for part in (
        "serves    standby at 127.0.0.10, epoch 1: down",
        "127.0.0.10:1: connection refused, 127.0.0.10:2: connection refused",
        "`vcrecovery explain 1`",
    ):
        assert part in done.stdout
    assert "\x1b" not in done.stdout


def test_check_says_what_needs_somebody(failed_over: Path) -> None:
    done = vcrecovery("status", "--check", "--plan", failed_over)
    assert done.returncode == ExitCode.ATTENTION
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("attention: web: ")
    assert last.startswith("warning: web: serving from the standby since ")
    nagios = vcrecovery("status", "--nagios", "--plan", failed_over)
    assert nagios.returncode == 2
    assert nagios.stdout.startswith("VCRECOVERY CRITICAL - web: ")
    assert "|" not in nagios.stdout


SHOWN = """echo '[{"addr_info": [{"local": "10.10.0.50"}]}]'"""
DENIED = "echo 'Could not fetch rule set generation id: Permission denied (you must be root)' >&2; exit 4"


@pytest.mark.parametrize(
    ("ip", "iptables", "is_here"),
    [
        ("echo '[]'", "", False),
        (SHOWN, "echo '-A VCRECOVERY -d 10.10.0.50/32 -j DNAT --to-destination 127.0.0.10'", True),
        (SHOWN, "echo 'iptables: Bad rule (does a matching rule exist in that chain?).' >&2; exit 1", False),
        # By a user who may not ask, and on a machine without that interface.
        (SHOWN, DENIED, None),
        ("echo 'Device \"eth9\" does not exist.' >&2; exit 1", "", None),
    ],
    ids=["gone", "here", "led nowhere", "may not ask", "another machine"],
)
def test_a_virtual_address_that_this_machine_has_lost_is_said(
    failed_over: Path, tmp_path: Path, ip: str, iptables: str, is_here: bool | None
) -> None:
    text = failed_over.read_text()
    here = "    virtual_ip: {address: 10.10.0.50/24, interface: eth9}\n    max_staleness"
    failed_over.write_text(text.replace("    max_staleness", here))
    (tmp_path / "bin").mkdir()
    for name, does in (("ip", ip), ("iptables", iptables)):
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    lost = (
        "the standby serves, and this machine does not have its virtual address 10.10.0.50 on eth9; the watcher tries"
    )
    for words in (("status",), ("status", "web"), ("status", "--check"), ("status", "--nagios")):
        said = " ".join(vcrecovery(*words, "--plan", failed_over, PATH=path).stdout.split())
        assert (lost in said) is (is_here is False), said
    entry = only(vcrecovery("status", "--json", "--plan", failed_over, PATH=path).stdout)
    assert (entry["virtual_ip"], entry["has_virtual_ip"]) == ("10.10.0.50 on eth9", is_here)


def test_a_watcher_that_watches_no_more_is_said(local_plan: Path) -> None:
    """Where none has ever run, as beside Zabbix's actions alone, none is missed."""
    asked = [("status",), ("status", "web"), ("status", "--check"), ("status", "--json"), ("status", "--check", "web")]
    vcrecovery("suspend", "web", "--plan", local_plan)
    vcrecovery("resume", "web", "--plan", local_plan)
    sign = local_plan.parent / "state/watching"

    def missed() -> list[bool]:
        return ["not at work since" in vcrecovery(*words, "--plan", local_plan).stdout for words in asked]

    assert not any(missed())
    with started_watcher(local_plan):
        wait_for(sign.exists, "its first sign of life", PATIENCE)
    assert not any(missed())
    # Its last one is two minutes old by now.
    long_ago = time.time() - 120
    os.utime(sign, (long_ago, long_ago))
    assert all(missed())
    done = vcrecovery("status", "--check", "--plan", local_plan)
    assert done.returncode == ExitCode.ATTENTION
    assert "attention: watcher: not at work since " in done.stdout
    assert "`systemctl status vcrecovery-watch`" in done.stdout


@contextmanager
def started_watcher(plan: Path) -> Iterator[None]:
    with subprocess.Popen(
        command("watch", "--plan", plan), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=env()
    ) as process:
        try:
            yield
        finally:
            process.terminate()


@pytest.mark.parametrize("words", [("status", ""), ("status", "--check", "")])
def test_an_empty_name_is_no_name(local_plan: Path, words: tuple[str, ...]) -> None:
    """As that of a variable that is not set."""
    done = vcrecovery(*words, "--plan", local_plan)
    assert done.returncode == ExitCode.USAGE
    assert len(done.stderr.splitlines()) == 1


def test_a_check_that_cannot_look_is_an_error(local_plan: Path) -> None:
    (local_plan.parent / "state").write_text("a file where a folder should be")
    done = vcrecovery("status", "--check", "--plan", local_plan)
    assert done.returncode == ExitCode.EXTERNAL
    assert len(done.stderr.splitlines()) == 1


def test_a_hostile_reason(local_plan: Path) -> None:
    evil = "x\x1b]0;owned\x07\nweb  healthy"
    vcrecovery("suspend", "web", "--reason", evil, "--plan", local_plan)
    for words in (("status",), ("status", "web"), ("status", "--check")):
        said = vcrecovery(*words, "--plan", local_plan).stdout
        assert "\\x1b]0;owned\\x07\\x0aweb  healthy" in said
        assert "\x1b" not in said


def test_output_that_cannot_be_printed(local_plan: Path) -> None:
    vcrecovery("suspend", "web", "--reason", "Störung 日本", "--plan", local_plan)
    done = subprocess.run(
        command("status", "--plan", local_plan),
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        env=env(PYTHONIOENCODING="latin-1"),
    )
    assert done.returncode == 0, done.stderr
    assert b"St\xf6rung \\u65e5\\u672c" in done.stdout


# -- status --watch --------------------------------------------------------------------------------------------


def test_a_pipe_gets_a_frame_for_each_change(local_plan: Path) -> None:
    # What is asked gets its answer in time, also where a machine stands still for some seconds.
    words = command("status", "--watch", "--every", "0.1", "--within", str(PATIENCE), "--plan", local_plan)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            reader = Reader(process.stdout.fileno())
            reader.until(lambda text: text.count("--- ") == 1 and "needs attention" in text)
            assert vcrecovery("suspend", "web", "--plan", local_plan).returncode == 0
            said = reader.until(lambda text: "vcrecovery resume web" in text)
            # Nothing was printed in between, however often it looked.
            assert said.count("--- ") == 2
            assert "\x1b" not in said
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0
            assert process.stderr.read() == b""
        finally:
            process.kill()


def test_a_pipe_without_a_reader_ends_it(local_plan: Path) -> None:
    """Also while nothing changes, so that nothing is written."""
    words = command("status", "--watch", "--every", "3600", "--within", str(PATIENCE), "--plan", local_plan)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            Reader(process.stdout.fileno()).until(lambda text: "needs attention" in text)
            assert process.poll() is None
            process.stdout.close()
            assert process.wait(PATIENCE) == 0
            assert process.stderr.read() == b""
        finally:
            process.kill()


def test_frames_as_data_are_a_line_each(local_plan: Path) -> None:
    words = command("status", "--watch", "--json", "--every", "0.1", "--plan", local_plan)
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=env()) as process:
        assert process.stdout is not None
        try:
            said = Reader(process.stdout.fileno()).until(lambda text: text.endswith("\n"))
            assert only(said)["service"] == "web"
        finally:
            process.kill()


def test_a_terminal_is_redrawn(local_plan: Path) -> None:
    said = on_a_terminal(
        *("status", "--watch", "--every", "0.1", "--plan", local_plan),
        until=lambda text: text.count("\x1b[H") >= 3,
        COLUMNS="60",
        LINES="10",
    )
    assert said.startswith("\x1b[2J\x1b[H")
    assert said.count("\x1b[2J") == 1
    frame = said.split("\x1b[H")[1]
    assert "more line(s)" in frame
    assert len(frame.splitlines()) <= 10
    for line in re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", frame).splitlines():
        assert len(line) <= 80, line


def test_colours_and_their_absence(local_plan: Path) -> None:
    coloured = on_a_terminal("status", "--plan", local_plan, until=lambda text: "follow" in text, COLUMNS="200")
    assert "\x1b[31m" in coloured
    plain = on_a_terminal(
        "status", "--plan", local_plan, until=lambda text: "follow" in text, COLUMNS="200", NO_COLOR="1"
    )
    assert "\x1b" not in plain
    dumb = on_a_terminal(
        "status", "--plan", local_plan, until=lambda text: "follow" in text, COLUMNS="200", TERM="dumb"
    )
    assert "\x1b" not in dumb


def test_a_dumb_terminal_gets_a_frame_for_each_change(local_plan: Path) -> None:
    words = ("status", "--watch", "--every", "0.1", "--within", str(PATIENCE), "--plan", local_plan)
    said = on_a_terminal(*words, until=lambda text: "needs attention" in text, TERM="dumb")
    assert said.startswith("--- ")
    assert "\x1b" not in said


def test_a_failover_on_a_dumb_terminal(local_plan: Path) -> None:
    words = ("failover", "web", "--plan", local_plan)
    assert "\x1b" not in on_a_terminal(*words, until=lambda text: "vcrecovery: error: " in text, TERM="dumb")
