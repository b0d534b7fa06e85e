"""The view as an operator has it: the program itself, with hosts and servers that are away or hang."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from test_exposition import check_exposition

from simulation import Simulation
from vcrecovery.errors import ExitCode
from vcrecovery.plan.modes import Mode
from vcrecovery.recover.states import Policy
from vcrecovery.sync.modes import ChosenModes
from vcrecovery_lab.ports import free_port

#: Seconds for what takes one or two; machines differ.
PATIENCE = 60.0
START = 1_790_000_000.0


def environment(**changes: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES", "TERM")}
    return {**kept, "TERM": "xterm", **changes}


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "vcrecovery", *(str(word) for word in words)]


def vcrecovery(*words: str | Path, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*words), capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment(**changes)
    )


@pytest.fixture
def local_plan(plan_file: Path) -> Path:
    """The same plan on the loopback, with ports that nobody has."""
    text = plan_file.read_text().replace("10.10.0.10", "127.0.1.10").replace("10.20.0.", "127.0.0.")
    plan_file.write_text(text.replace("10.10.0.1}", "127.0.2.1}").replace("[80, {tcp: 443}]", "[1, {tcp: 2}]"))
    return plan_file


@pytest.fixture
def simulation(local_plan: Path) -> Simulation:
    """Its journal is the plan's."""
    folder = local_plan.parent / "state"
    folder.mkdir()
    simulation = Simulation(folder, Policy(max_staleness=60.0))
    simulation.clock.time = START
    simulation.world.heartbeat_at = START - 5
    simulation.watch()
    simulation.clock.sleep(3)
    return simulation


@pytest.fixture
def failed_over(simulation: Simulation, local_plan: Path) -> Path:
    simulation.crash()
    simulation.watch()
    return local_plan


@pytest.fixture
def stopped(simulation: Simulation, local_plan: Path) -> Path:
    """A watcher that was killed in the start."""
    simulation.crash()
    simulation.kill_at = "before start"
    simulation.watch()
    return local_plan


@pytest.fixture
def hanging(local_plan: Path) -> Iterator[Path]:
    """libvirtd, LXD and DNS take connections, and never answer."""
    folder = local_plan.parent
    with (
        socket.socket(socket.AF_UNIX) as libvirtd,
        socket.socket(socket.AF_UNIX) as lxd,
        socket.create_server(("127.0.0.1", 0)) as dns,
    ):
        libvirtd.bind(str(folder / "no-libvirt"))
        lxd.bind(str(folder / "no-lxd.socket"))
        libvirtd.listen(50)
        lxd.listen(50)
        local_plan.write_text(local_plan.read_text().replace("port: 9}", f"port: {dns.getsockname()[1]}}}"))
        yield local_plan


def only(said: str) -> dict[str, Any]:
    (service,) = json.loads(said)["services"]
    assert isinstance(service, dict)
    return service


# -- status ----------------------------------------------------------------------------------------------------


def test_what_hangs_is_said_to_hang_in_time(hanging: Path) -> None:
    begun = time.monotonic()
    done = vcrecovery("status", "--within", "1", "--plan", hanging)
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
    found = json.loads(vcrecovery("status", "--json", "--within", "2", "--plan", hanging).stdout)["services"]
    # Far from 100 times the time-outs.
    assert time.monotonic() - begun < 45
    assert [service["service"] for service in found] == names


def test_status_as_data(failed_over: Path) -> None:
    entry = only(vcrecovery("status", "--json", "--plan", failed_over).stdout)
    assert (entry["serves"], entry["epoch"], entry["verdict"]) == ("standby", 1, "failed over")
    assert entry["last_failover"]["seconds"] == pytest.approx(1.82)
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
        "serves    standby at 127.0.0.10, epoch 1",
        "127.0.0.10:1 does not answer, 127.0.0.10:2 does not answer",
        "`vcrecovery explain 1`",
    ):
        assert part in done.stdout
    assert "\x1b" not in done.stdout


def test_check_says_what_needs_somebody(failed_over: Path) -> None:
    done = vcrecovery("status", "--check", "--plan", failed_over)
    assert done.returncode == ExitCode.ATTENTION
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("attention: web: ")
    assert last.startswith("warning: web: the standby serves since ")
    nagios = vcrecovery("status", "--nagios", "--plan", failed_over)
    assert nagios.returncode == 2
    assert nagios.stdout.startswith("VCRECOVERY CRITICAL - web: ")
    assert "|" not in nagios.stdout


def test_a_check_that_cannot_look_is_an_error(local_plan: Path) -> None:
    (local_plan.parent / "state").write_text("a file where a folder should be")
    done = vcrecovery("status", "--check", "--plan", local_plan)
    assert done.returncode == ExitCode.OUTSIDE
    assert len(done.stderr.splitlines()) == 1


def test_a_hostile_reason(local_plan: Path) -> None:
    evil = "x\x1b]0;owned\x07\nweb  healthy"
    vcrecovery("pause", "web", "--reason", evil, "--plan", local_plan)
    for words in (("status",), ("status", "web"), ("status", "--check")):
        said = vcrecovery(*words, "--plan", local_plan).stdout
        assert "\\x1b]0;owned\\x07\\x0aweb  healthy" in said
        assert "\x1b" not in said


def test_output_that_cannot_be_printed(local_plan: Path) -> None:
    vcrecovery("pause", "web", "--reason", "Störung 日本", "--plan", local_plan)
    done = subprocess.run(
        command("status", "--plan", local_plan),
        capture_output=True,
        timeout=PATIENCE,
        check=False,
        env=environment(PYTHONIOENCODING="latin-1"),
    )
    assert done.returncode == 0, done.stderr
    assert b"St\xf6rung \\u65e5\\u672c" in done.stdout


# -- status --watch --------------------------------------------------------------------------------------------


class Reader:
    """What a program writes, with a bound on each wait."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.text = ""

    def until(self, wanted: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + PATIENCE
        while not wanted(self.text):
            left = deadline - time.monotonic()
            assert left > 0, self.text
            if select.select([self._fd], [], [], left)[0]:
                self.text += os.read(self._fd, 65536).decode()
        return self.text


def test_a_pipe_gets_a_frame_for_each_change(local_plan: Path) -> None:
    # What is asked gets its answer in time, also where a machine stands still for some seconds.
    words = command("status", "--watch", "--every", "0.1", "--within", str(PATIENCE), "--plan", local_plan)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            reader = Reader(process.stdout.fileno())
            reader.until(lambda text: text.count("--- ") == 1 and "needs somebody" in text)
            assert vcrecovery("pause", "web", "--plan", local_plan).returncode == 0
            said = reader.until(lambda text: "vcrecovery resume web" in text)
            # Nothing was printed in between, however often it looked.
            assert said.count("--- ") == 2
            assert "\x1b" not in said
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0
            assert process.stderr.read() == b""
        finally:
            process.kill()


def test_frames_as_data_are_a_line_each(local_plan: Path) -> None:
    words = command("status", "--watch", "--json", "--every", "0.1", "--plan", local_plan)
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        try:
            said = Reader(process.stdout.fileno()).until(lambda text: text.endswith("\n"))
            assert only(said)["service"] == "web"
        finally:
            process.kill()


def on_a_terminal(*words: str | Path, until: Callable[[str], bool], **changes: str) -> str:
    """What the program shows on a terminal. It is interrupted when `until` holds."""
    master, slave = pty.openpty()
    try:
        with subprocess.Popen(
            command(*words), stdin=slave, stdout=slave, stderr=slave, env=environment(**changes), close_fds=True
        ) as process:
            try:
                said = Reader(master).until(until)
                process.send_signal(signal.SIGINT)
                process.wait(PATIENCE)
            finally:
                process.kill()
    finally:
        os.close(slave)
        os.close(master)
    return said


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
    said = on_a_terminal(*words, until=lambda text: "needs somebody" in text, TERM="dumb")
    assert said.startswith("--- ")
    assert "\x1b" not in said


def test_a_failover_on_a_dumb_terminal(local_plan: Path) -> None:
    words = ("failover", "web", "--plan", local_plan)
    assert "\x1b" not in on_a_terminal(*words, until=lambda text: "vcrecovery: error: " in text, TERM="dumb")


# -- history and explain ---------------------------------------------------------------------------------------


def test_explain(failed_over: Path) -> None:
    by_number = vcrecovery("explain", "1", "--plan", failed_over)
    assert by_number.returncode == 0
    for word in ("last", "web", "#1"):
        assert vcrecovery("explain", word, "--plan", failed_over).stdout == by_number.stdout
    for part in (
        "web, epoch 1, episode 1: done after 1.820 s",
        "every port answers: switching DNS",
        "1.000 s (the biggest part)  ports open: port 80",
        "ports that answer  none",
        "where the 1.820 s went",
    ):
        assert part in by_number.stdout
    data = json.loads(vcrecovery("explain", "--json", "--plan", failed_over).stdout)
    assert data["steps"][1]["sentence"].startswith("failure confirmed (shutoff (crashed)")
    assert data["shares"][0]["name"] == "probe"


def test_explain_says_what_an_open_failover_waits_for(stopped: Path) -> None:
    said = vcrecovery("explain", "--plan", stopped).stdout
    assert "not finished after" in said
    assert "waits for a controller: the last one ended in step start" in said
    assert "step fence: the primary was fenced a while ago, and may be back: fencing it again" in said
    assert "`vcrecovery failover web` goes on from there" in said
    data = json.loads(vcrecovery("explain", "--json", "--plan", stopped).stdout)
    assert data["waits_for"]
    assert data["to_do"]
    check = vcrecovery("status", "--check", "--plan", stopped)
    assert "epoch 1 is not finished" in check.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["explain", "7"], "no episode 7 (the newest is 1)"),
        (["explain", "wbe"], "did you mean web?"),
        (["explain", "99999999999999999999999"], "has no service"),
        (["explain", "\x1b[2J"], "has no service '\\x1b[2J'"),
        (["history", "--since", "soon"], "'soon' is no time; write 2h"),
        (["completion", "tcsh"], "bash"),
    ],
)
def test_errors(failed_over: Path, words: list[str], said: str) -> None:
    plan = [] if words[0] == "completion" else ["--plan", str(failed_over)]
    done = vcrecovery(*words, *plan)
    assert done.returncode == ExitCode.USAGE
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr


def test_explain_without_any_failover(local_plan: Path) -> None:
    assert vcrecovery("explain", "--plan", local_plan).stdout == "no failover yet\n"


def test_a_service_that_has_left_the_plan_can_still_be_explained(failed_over: Path) -> None:
    failed_over.write_text(failed_over.read_text().replace("  web:\n", "  shop:\n"))
    assert "web, epoch 1" in vcrecovery("explain", "web", "--plan", failed_over).stdout


def test_history_since(failed_over: Path) -> None:
    def episodes(*words: str) -> list[int]:
        said = vcrecovery("history", "--json", *words, "--plan", failed_over).stdout
        return [episode["episode"] for episode in json.loads(said)["episodes"]]

    assert episodes() == episodes("--since", "2026-09-20") == episodes("web", "--limit", "1") == [1]
    assert episodes("--since", "2026-09-23T00:00+00:00") == []
    said = vcrecovery("history", "--since", "1s", "--plan", failed_over).stdout
    assert said == "no failover since 1s\n"
    assert "episode 1" in vcrecovery("history", "--plan", failed_over).stdout


# -- figures and logs ------------------------------------------------------------------------------------------


def test_metrics(failed_over: Path) -> None:
    done = vcrecovery("metrics", "--plan", failed_over)
    assert done.returncode == 0, done.stderr
    found = check_exposition(done.stdout)
    assert found["vcrecovery_service_epoch"] == {'service="web"': 1}
    assert found["vcrecovery_primary_power"]['service="web",power="unreachable"'] == 1
    assert found["vcrecovery_episodes_total"]['service="web",outcome="done"'] == 1


class Watcher:
    """`vcrecovery watch` and what it logs."""

    def __init__(self, plan: Path, *words: str) -> None:
        self._process = subprocess.Popen(
            command("watch", "--plan", plan, *words), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
            env=environment(),
        )  # fmt: skip
        assert self._process.stderr is not None
        self._reader = Reader(self._process.stderr.fileno())

    def says(self, text: str) -> str:
        return self._reader.until(lambda said: text in said and said.endswith("\n"))

    def end(self) -> None:
        self._process.terminate()
        try:
            assert self._process.wait(PATIENCE) == 0
        finally:
            self._process.kill()
            self._process.wait()
            assert self._process.stderr is not None
            self._process.stderr.close()


def with_metrics(plan: Path, port: int) -> Path:
    plan.write_text(plan.read_text() + f"metrics: {{port: {port}}}\n")
    return plan


def get(port: int, path: str, method: str = "GET") -> tuple[int, str, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=PATIENCE) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["Content-Type"], error.read().decode()


def test_the_watcher_serves_figures(failed_over: Path) -> None:
    port = free_port()
    watcher = Watcher(with_metrics(failed_over, port))
    try:
        watcher.says(f"http://127.0.0.1:{port}/metrics")
        status, kind, text = get(port, "/metrics")
        assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert check_exposition(text)["vcrecovery_service_epoch"] == {'service="web"': 1}
        assert get(port, "/metrics", "HEAD")[2] == ""
        assert get(port, "/")[0] == 200
        assert get(port, "/etc/passwd")[0] == 404
        assert get(port, "/metrics", "POST")[0] == 501
        # Those who ask slowly, or nothing, take no more than their share.
        idle = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) for _ in range(3)]
        try:
            idle[0].sendall(b"GET /metr")
            assert get(port, "/metrics")[0] == 200
        finally:
            for connection in idle:
                connection.close()
    finally:
        watcher.end()


def test_a_port_that_is_taken_does_not_end_the_watcher(failed_over: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        watcher = Watcher(with_metrics(failed_over, taken.getsockname()[1]))
        try:
            watcher.says("figures cannot be served on 127.0.0.1:")
            watcher.says("web: the standby serves")
        finally:
            watcher.end()


def test_log_lines_as_data_carry_the_episode(stopped: Path) -> None:
    watcher = Watcher(stopped, "--log-format", "json")
    try:
        said = watcher.says('"episode"')
    finally:
        watcher.end()
    lines = [json.loads(line) for line in said.splitlines() if line.endswith("}")]
    for entry in lines:
        assert {"time", "level", "logger", "message"} <= set(entry)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry["time"])
    tied = [entry for entry in lines if "episode" in entry]
    assert tied
    assert all((entry["service"], entry["epoch"], entry["episode"]) == ("web", 1, 1) for entry in tied)
    assert any(entry.get("service") == "web" and "episode" not in entry for entry in lines)


def test_log_lines_as_text(stopped: Path) -> None:
    watcher = Watcher(stopped)
    try:
        said = watcher.says("[episode 1]")
    finally:
        watcher.end()
    assert all(re.match(r"\d{4}-\d\d-\d\d .* (INFO|WARNING|ERROR) ", line) for line in said.splitlines()), said


# -- completion and startup ------------------------------------------------------------------------------------


def completed(line: str, plan: Path, shell: str = "bash") -> list[str]:
    words = line.split(" ")
    changes = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_VCRECOVERY_COMPLETE": f"{shell}_complete"}
    done = vcrecovery(VCRECOVERY_PLAN=str(plan), **changes)
    assert (done.returncode, done.stderr) == (0, "")
    return [text.removeprefix("plain,") for text in done.stdout.split()]


def test_completion_knows_the_plan(failed_over: Path) -> None:
    assert completed("vcrecovery exp", failed_over) == ["explain"]
    for verb in ("failover", "status", "pause", "standby reset"):
        assert completed(f"vcrecovery {verb} w", failed_over) == ["web"]
    assert completed("vcrecovery failover x", failed_over) == []
    assert completed("vcrecovery explain ", failed_over) == ["last", "web", "1"]
    assert completed("vcrecovery failover --vm 6", failed_over) == ["6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0001"]
    assert "--check" in completed("vcrecovery status --c", failed_over)
    assert completed("vcrecovery watch --log-format j", failed_over) == ["json"]
    other = failed_over.parent / "other.yml"
    other.write_text("services: {mail: {}, 'a; rm -rf /': {}}")
    assert completed(f"vcrecovery status --plan {other} ", failed_over) == ["mail"]


def test_completion_of_a_failover(plan_file: Path) -> None:
    text = plan_file.read_text().replace('/no-libvirt"}', '/no-libvirt", site: north}')
    text = text.replace("secondaries:\n", "  hv2: {site: south}\nsecondaries:\n", 1)
    plan_file.write_text(f"{text}  mail: {{needs: [web]}}\ngroups: {{front: {{services: [web]}}}}\n")
    for said, offered in (
        ("", ["web", "mail"]),
        ("web ", []),
        ("--host ", ["hv1", "hv2"]),
        ("--host h", ["hv1", "hv2"]),
        ("--host hv1 ", []),
        ("--site ", ["north", "south"]),
        ("--group ", ["front"]),
        ("--restore-point ", ["latest"]),
        # The word that takes a fence's place is the name of what is meant.
        ("web --primary-is-down ", ["web"]),
        ("--force mail --primary-is-down ", ["mail"]),
        ("--host hv2 --primary-is-down ", ["hv2"]),
        ("--site north --primary-is-down ", ["north"]),
        ("--site north --primary-is-down s", []),
        ("--group front --primary-is-down ", ["front"]),
        ("--vm 6F1C2A54-7c0d-4a7e-9a51-0d3b1f7e0001 --primary-is-down ", ["web"]),
        ("--primary-is-down ", ["web", "mail", "hv1", "hv2", "north", "south", "front"]),
        ("--primary-is-down hv1 --host ", ["hv1", "hv2"]),
    ):
        assert completed(f"vcrecovery failover {said}", plan_file) == offered, said


def test_completion_of_a_broken_plan_is_empty(tmp_path: Path) -> None:
    for text in ("services: [", "- a", "services: 3", "", "services: {web: }\x00"):
        plan = tmp_path / "plan.yml"
        plan.write_text(text)
        assert completed("vcrecovery status ", plan) in ([], ["web"])
    assert completed("vcrecovery explain ", tmp_path / "none.yml") == ["last"]
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    done = vcrecovery("completion", shell)
    assert done.returncode == 0
    assert f"_VCRECOVERY_COMPLETE={shell}_complete" in done.stdout


def test_bash_takes_the_script(failed_over: Path, tmp_path: Path) -> None:
    program = tmp_path / "bin/vcrecovery"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m vcrecovery "$@"\n')
    program.chmod(0o755)
    script = tmp_path / "completion"
    script.write_text(vcrecovery("completion", "bash").stdout)
    typed = "COMP_WORDS=(vcrecovery status w); COMP_CWORD=2"
    ask = f'. {script}; {typed}; _vcrecovery_completion {program}; echo "$COMPREPLY"'
    done = subprocess.run(
        ["bash", "--norc", "-c", ask],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=environment(VCRECOVERY_PLAN=str(failed_over)),
    )
    assert (done.stdout, done.stderr) == ("web\n", "")


_LOADED = """
import sys
from vcrecovery.cli.main import main
try:
    main()
finally:
    heavy = {"pydantic", "libvirt", "pylxd", "dns", "requests", "pysnmp"} & set(sys.modules)
    print(sorted(heavy), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (["--help"], {}),
        (["status", "--help"], {}),
        (["explain", "--help"], {}),
        (["completion", "bash"], {}),
        ([], {"COMP_WORDS": "vcrecovery fail", "COMP_CWORD": "1", "_VCRECOVERY_COMPLETE": "bash_complete"}),
        ([], {"COMP_WORDS": "vcrecovery status w", "COMP_CWORD": "2", "_VCRECOVERY_COMPLETE": "bash_complete"}),
    ],
)
def test_what_must_be_quick_loads_little(words: list[str], changes: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=environment(**changes),
    )
    assert done.stderr.splitlines()[-1] == "[]"
