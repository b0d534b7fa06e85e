"""What `watch` and `metrics` say to machines: figures and log lines."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from test_exposition import check_exposition
from view_program import PATIENCE, Reader, command, env, vcrecovery

from vcrecovery_lab.ports import free_port


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
            env=env(),
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
            watcher.says("metrics cannot be served on 127.0.0.1:")
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
