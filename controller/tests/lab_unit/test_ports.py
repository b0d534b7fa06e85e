"""Ports for servers: nobody's, and no client's."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from vcrecovery_lab import ports
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.run import LabError


def test_none_is_given_twice_nor_to_clients() -> None:
    low, high = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    found = [free_port() for _ in range(50)]
    assert len(set(found)) == 50
    assert [port for port in found if low <= port <= high] == []


def test_it_can_be_listened_on_by_both_protocols() -> None:
    port = free_port("127.0.1.7")
    with socket.create_server(("127.0.1.7", port)), socket.socket(type=socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.1.7", port))
        assert udp.getsockname() == ("127.0.1.7", port)


def test_neither_those_in_use_nor_those_of_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = free_port()
    monkeypatch.setattr(ports, "_LOWEST", taken)
    monkeypatch.setattr(ports, "_HIGHEST", taken + 1)
    with pytest.raises(LabError, match=r"no free port at 127\.0\.0\.1"):
        free_port()
    script = (
        f"from vcrecovery_lab import ports; ports._LOWEST, ports._HIGHEST = {taken}, {taken + 1}; ports.free_port()"
    )
    path = str(Path(ports.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "no free port at 127.0.0.1" in done.stderr


def test_one_that_somebody_else_listens_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(ports, "_LOWEST", port)
        monkeypatch.setattr(ports, "_HIGHEST", port + 1)
        with pytest.raises(LabError):
            free_port()
