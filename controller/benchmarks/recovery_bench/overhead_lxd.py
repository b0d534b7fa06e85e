"""An LXD that has many containers and does everything at once: `python overhead_lxd.py SOCKET [--start=WORDS] NAME...`.

WORDS are a command that is run when a container is started, {} being its name: what starts need not be a container.

It speaks LXD's protocol (HTTP on a unix socket, ETags, operations) as far as a failover needs it, for measurements of
more containers than a machine has room for. Standard library only: it shares the machine with what is measured.
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

#: A machine on which as many standbys may start at once as anywhere.
_RESOURCES = {"cpu": {"total": 64}, "memory": {"total": 256 * 2**30}}
_READY = {"user.vcrecovery.ready": "true", "user.vcrecovery.role": "standby"}
_INSTANCE = re.compile(r"/1\.0/instances/([^/?]+)(/state)?")


class Server:
    """The containers, and the answers to what is asked of them."""

    def __init__(self, names: Sequence[str], start: str = "") -> None:
        self._start = start
        self.started: list[subprocess.Popen[bytes]] = []
        self._instances: dict[str, dict[str, Any]] = {
            name: {"name": name, "status": "Stopped", "config": dict(_READY), "devices": {}, "last_used_at": ""}
            for name in names
        }

    def answer(self, verb: str, path: str, headers: str, body: bytes) -> tuple[int, dict[str, Any], str]:
        """Status, document and ETag."""
        if path == "/1.0":
            return _found({"auth": "trusted", "api_status": "stable", "api_version": "1.0"})
        if path == "/1.0/resources":
            return _found(_RESOURCES)
        if path.startswith("/1.0/operations/"):
            return _found({"status_code": 200, "metadata": None, "err": ""})
        match = _INSTANCE.fullmatch(path)
        instance = self._instances.get(match[1]) if match else None
        if match is None or instance is None:
            return 404, {"type": "error", "error": "Not Found", "error_code": 404}, ""
        if verb == "GET":
            return _found(instance, _etag(instance))
        change = json.loads(body)
        if match[2]:
            instance["status"] = {"start": "Running", "unfreeze": "Running"}.get(change["action"], "Stopped")
            if self._start and change["action"] == "start":
                words = [word.format(match[1]) for word in shlex.split(self._start)]
                self.started.append(subprocess.Popen(words))
            operation = {"id": match[1], "status_code": 103}
            return 202, {"type": "async", "status_code": 100, "metadata": operation}, ""
        if f"if-match: {_etag(instance)}\r\n" not in f"{headers.lower()}\r\n":
            return 412, {"type": "error", "error": "Precondition failed", "error_code": 412}, ""
        instance["config"] |= change["config"]
        return _found({})


def _found(metadata: dict[str, Any], etag: str = "") -> tuple[int, dict[str, Any], str]:
    return 200, {"type": "sync", "status": "Success", "status_code": 200, "metadata": metadata}, etag


def _etag(instance: dict[str, Any]) -> str:
    return f"{hash(json.dumps(instance['config'])) & 0xFFFFFFFF:08x}"


class Connection(asyncio.Protocol):
    """Requests that come one after the other on a connection that stays open."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)  # noqa: S101  a stream has one
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, rest = self._received.partition(b"\r\n\r\n")
            first, _, headers = head.decode().partition("\r\n")
            length = re.search(r"^content-length: *(\d+)", headers, re.IGNORECASE | re.MULTILINE)
            size = int(length[1]) if length else 0
            if len(rest) < size:
                return
            self._received = rest[size:]
            verb, place, _ = first.split(" ")
            status, document, etag = self._server.answer(verb, place.partition("?")[0], headers, rest[:size])
            body = json.dumps(document).encode()
            lines = [f"HTTP/1.1 {status} Answer", "Content-Type: application/json", f"Content-Length: {len(body)}"]
            lines += [f"ETag: {etag}"] if etag else []
            self._transport.write("\r\n".join((*lines, "", "")).encode() + body)


async def _serve(socket: str, words: Sequence[str]) -> None:
    options = [word for word in words if word.startswith("--start=")]
    names = [word for word in words if word not in options]
    containers = Server(names, options[0].partition("=")[2] if options else "")
    server = await asyncio.get_running_loop().create_unix_server(lambda: Connection(containers), socket, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], sys.argv[2:]))
