"""What the measured failovers act on: many services whose world is real in its protocols, and instant.

The hypervisor is a real libvirtd with libvirt's own test driver, the secondary a simulated LXD (overhead_lxd), the
zone's server BIND, the ports listeners on loopback. The plan, the journal and the locks are files on a disk.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import libvirt
import yaml

from vcrecovery.transfer.heartbeat_copy import HEARTBEAT
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.private_libvirt import PrivateLibvirt
from vcrecovery_lab.run import run

from .stage_containers import PROGRAM

HOST, ZONE, KEY = "hv1", "bench.test", "bench.key"
_SECRET = base64.b64encode(b"a secret of the benchmark, bytes").decode()
#: Seconds for a server to answer.
_PATIENCE = 60.0


def name_of(number: int) -> str:
    return f"s{number}"


def address_of(network: int, number: int) -> str:
    return f"127.{network}.{number // 200}.{1 + number % 200}"


def uuid_of(number: int) -> str:
    return str(UUID(int=0x6F1C2A547C0D4A7E9A510D3B00000000 + number))


class Site:
    """`services` of them; what changes while they fail over is made anew by `fresh`."""

    def __init__(self, folder: Path, services: int, libvirt_uri: str, port: int, dns_port: int) -> None:
        self.folder = folder
        self.services = services
        self._libvirt_uri = libvirt_uri
        self._port = port
        self._dns_port = dns_port

    def plan(self, name: str, *, with_dns: bool, stable_for: str = "1ms") -> dict[str, Any]:
        """The ports need not go on answering by default: that would only be waited for."""
        folder = self.folder / name
        services = {
            name_of(number): {
                "primary": {"hypervisor": HOST, "uuid": uuid_of(number), "address": address_of(21, number)},
                "standby": {"secondary": "sec1", "address": address_of(20, number)},
                "ports": [self._port],
                "dns": [{"name": f"{name_of(number)}.{ZONE}", "zone": ZONE}] if with_dns else [],
                "timeouts": {"stable_for": stable_for},
            }
            for number in range(self.services)
        }
        return {
            "version": 1,
            "state_dir": str(folder / "state"),
            "hypervisors": {HOST: {"uri": self._libvirt_uri}},
            "secondaries": {
                "sec1": {
                    "lxd": str(folder / "lxd.socket"),
                    "network": {"bridge": "vcr0", "address": "127.20.255.254/16"},
                    "receiver": {"address": "127.0.0.1"},
                }
            },
            "dns": dns_of(self.folder, self._dns_port),
            "services": services,
        }

    @contextmanager
    def fresh(self, name: str, *, with_dns: bool) -> Iterator[Path]:
        """The plan's file, for a run in which every primary has just failed and every standby is off."""
        _start_again(self._libvirt_uri)
        with self.laid_out(name, self.plan(name, with_dns=with_dns)) as plan:
            yield plan

    @contextmanager
    def laid_out(self, name: str, data: dict[str, Any]) -> Iterator[Path]:
        """The plan's file, and an LXD in which every standby is off and fresh."""
        folder = self.folder / name
        folder.mkdir()
        plan = folder / "plan.yml"
        plan.write_text(yaml.safe_dump(data))
        with simulated_lxd(folder, [name_of(number) for number in range(self.services)]):
            yield plan


@contextmanager
def simulated_lxd(folder: Path, names: Sequence[str], start: str = "") -> Iterator[Path]:
    """In `folder`, with these containers, all of them off and fresh; its socket. `start`: see `overhead_lxd`."""
    for name in names:
        marker = folder / f"storage-pools/default/containers/{name}/rootfs{HEARTBEAT}"
        marker.parent.mkdir(parents=True)
        marker.write_text(json.dumps({"at": time.time(), "good_until": None, "queue": 0}))
    place = folder / "lxd.socket"
    words = [str(place), *([f"--start={start}"] if start else []), *names]
    lxd = subprocess.Popen([sys.executable, "-IS", str(Path(__file__).with_name("overhead_lxd.py")), *words])
    try:
        wait_until(lambda: _is_open(lxd, place), "the simulated LXD", _PATIENCE)
        yield place
    finally:
        lxd.kill()
        lxd.wait()


def _is_open(process: subprocess.Popen[bytes], place: Path | int) -> bool:
    if process.poll() is not None:
        raise OSError(f"what should listen on {place} ended with status {process.returncode}")
    try:
        if isinstance(place, int):
            socket.create_connection(("127.0.0.1", place), timeout=1).close()
        else:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(str(place))
    except OSError:
        return False
    return True


@contextmanager
def _hypervisor(services: int) -> Iterator[str]:
    """libvirt's URI of a host that has all primaries."""
    daemon = PrivateLibvirt()
    try:
        daemon.start()
        uri = f"test+unix:///default?socket={daemon.socket}"
        # The driver forgets its VMs with its last connection.
        with closing(libvirt.open(uri)) as connection:
            for number in range(services):
                connection.defineXML(
                    f"<domain type='test'><name>vm{number}</name><uuid>{uuid_of(number)}</uuid>"
                    "<memory>65536</memory><os><type>hvm</type></os></domain>"
                )
            yield uri
    finally:
        daemon.close()


def _start_again(uri: str) -> None:
    with closing(libvirt.open(uri)) as connection:
        for domain in connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_INACTIVE):
            domain.create()


def dns_of(folder: Path, port: int) -> dict[str, Any]:
    """The plan's section for the name server in `folder`."""
    return {
        "servers": {"ns1": {"address": "127.0.0.1", "port": port}},
        "keys": {"key1": {"name": KEY, "secret_file": str(folder / "secret")}},
        "zones": {ZONE: {"servers": ["ns1"], "key": "key1"}},
    }


@contextmanager
def name_server(folder: Path, addresses: Mapping[str, str]) -> Iterator[int]:
    """BIND with a zone in which each of these names has its address; its port."""
    with socket.socket() as tcp:
        tcp.bind(("127.0.0.1", 0))
        port: int = tcp.getsockname()[1]
    records = "".join(f"{name} IN A {address}\n" for name, address in addresses.items())
    (folder / "zone").write_text(
        f"$TTL 30\n@ IN SOA ns1 hostmaster ( 1 60 10 604800 5 )\n@ IN NS ns1\nns1 IN A 127.0.0.1\n{records}"
    )
    (folder / "named.conf").write_text(
        f'options {{ directory "{folder}"; pid-file none; lock-file none; session-keyfile none; recursion no; '
        f"listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; }};\ncontrols {{ }};\n"
        f'key "{KEY}" {{ algorithm hmac-sha256; secret "{_SECRET}"; }};\n'
        f'zone "{ZONE}" {{ type primary; file "{folder}/zone"; update-policy {{ grant {KEY} zonesub ANY; }}; }};\n'
    )
    (folder / "secret").touch(mode=0o600)
    (folder / "secret").write_text(_SECRET + "\n")
    with (folder / "named.log").open("wb") as log:
        named = subprocess.Popen(["named", "-g", "-n", "1", "-c", str(folder / "named.conf")], stdout=log, stderr=log)
    try:
        wait_until(lambda: _is_open(named, port), "named", _PATIENCE)
        yield port
    finally:
        named.terminate()
        named.wait()


@contextmanager
def site(folder: Path, services: int) -> Iterator[Site]:
    """Everything that the failovers need, in `folder`, until the end of the block."""
    with ExitStack() as ends:
        libvirt_uri = ends.enter_context(_hypervisor(services))
        names = {name_of(number): address_of(21, number) for number in range(services)}
        dns_port = ends.enter_context(name_server(folder, names))
        # The kernel answers; nobody has to accept.
        port = _listen([address_of(20, number) for number in range(services)], ends)
        yield Site(folder, services, libvirt_uri, port, dns_port)


def _listen(addresses: Sequence[str], ends: ExitStack) -> int:
    """The port, the same on all addresses."""
    port = 0
    for address in addresses:
        sock = ends.enter_context(socket.create_server((address, port), backlog=128))
        port = sock.getsockname()[1]
    return port


def fail_over(plan: Path, compiled: Path) -> tuple[float, float]:
    """`vcrecovery failover --host`, as an operator calls it: seconds from its start to its end, and of CPU time.

    `compiled` keeps Python's bytecode, which an installed program has. Raises LabError when a service was not done.
    """
    env = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(compiled)}
    words: list[str | Path] = [PROGRAM, "failover", "--host", HOST, "--plan", plan]
    before, begun = os.times(), time.perf_counter()
    run(words, timeout=600, env=env)
    seconds, after = time.perf_counter() - begun, os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return seconds, used
