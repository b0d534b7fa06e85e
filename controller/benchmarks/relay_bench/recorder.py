"""Stands for Zabbix's trapper: speaks its protocol, keeps what comes, and can fail in every way."""

from __future__ import annotations

import json
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

_HEADER = struct.Struct("<4sBII")


@dataclass(frozen=True)
class Recorded:
    """`clock` is the value's own time, `arrived` when it came; seconds since the epoch."""

    host: str
    key: str
    text: str
    clock: float
    arrived: float


class _Request(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        recorder = self.server.recorder  # type: ignore[attr-defined]
        header = self._exactly(_HEADER.size)
        if header is None:
            return
        body = self._exactly(_HEADER.unpack(header)[2])
        if body is not None:
            recorder.take(body, time.time(), self.request)

    def _exactly(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            part = self.request.recv(size - len(data))
            if not part:
                return None
            data += part
        return data


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


class Recorder:
    """`refuses` says of a host and key whether Zabbix has no such item; `mode` is ok, silent or garbage."""

    def __init__(self, address: str, port: int) -> None:
        self.address, self.port = address, port
        self.refuses: Callable[[str, str], bool] = lambda _host, _key: False
        self.mode = "ok"
        self.requests = 0
        self._changed = threading.Condition()
        self._values: list[Recorded] = []
        self._server: _Server | None = None

    def start(self) -> None:
        self._server = _Server((self.address, self.port), _Request)
        self._server.recorder = self  # type: ignore[attr-defined]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def take(self, body: bytes, arrived: float, connection: socket.socket) -> None:
        self.requests += 1
        if self.mode == "silent":
            connection.settimeout(60)
            connection.recv(1)
            return
        if self.mode == "garbage":
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            return
        data = json.loads(body)["data"]
        good = [
            Recorded(v["host"], v["key"], v["value"], v["clock"] + v["ns"] / 1e9, arrived)
            for v in data
            if not self.refuses(v["host"], v["key"])
        ]
        with self._changed:
            self._values += good
            self._changed.notify_all()
        info = f"processed: {len(good)}; failed: {len(data) - len(good)}; total: {len(data)}; seconds spent: 0.000040"
        answer = json.dumps({"response": "success", "info": info}).encode()
        connection.sendall(_HEADER.pack(b"ZBXD", 1, len(answer), 0) + answer)

    def values(self, host: str = "", key: str = "") -> list[Recorded]:
        """In the order of their coming; of all hosts and keys, or those that are named."""
        with self._changed:
            return [v for v in self._values if (not host or v.host == host) and (not key or v.key == key)]

    def wait_for(self, condition: Callable[[], object], what: str, timeout: float = 120.0) -> None:
        """Until `condition` holds, looked at after every request. Raises TimeoutError."""
        deadline = time.monotonic() + timeout
        while not condition():
            with self._changed:
                self._changed.wait(0.1)
            if time.monotonic() > deadline:
                last = [f"{v.host} {v.key} {v.text[:80]}" for v in self._values[-5:]]
                raise TimeoutError(f"{what} has not come within {timeout:.0f} s; the last values: {last}")
