"""The stages of `contracts` with real parts: QEMU under a libvirtd, LXD, BIND, sockets, programs, threads."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pydantic import TypeAdapter

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.dns import Zone
from vcrecovery.drivers.fence import power_off
from vcrecovery.drivers.libvirt import LibvirtHost
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.drivers.probe import Probes
from vcrecovery.drivers.runtime import THREADS
from vcrecovery.plan.probes import Port
from vcrecovery_lab.domain import boot_sector, boot_sector_domain
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.private_libvirt import PrivateLibvirt
from vcrecovery_lab.run import run
from vcrecovery_lab.stand_still import stand_still

from .name_servers import KEY, NameServer, zone_of
from .small_site import SmallSite
from .waiting import wait_for


class RealStage:
    """This machine and this process."""

    runtime, clock = THREADS, SystemClock()

    def __init__(self) -> None:
        self._broken: list[BaseException] = []

    def eventually(self, condition: Callable[[], object], what: str) -> None:
        wait_for(condition, what)

    def broken(self) -> Sequence[BaseException]:
        return self._broken

    def has_broken(self, what: threading.ExceptHookArgs) -> None:
        """For `threading.excepthook`."""
        assert what.exc_value is not None
        self._broken.append(what.exc_value)


# -- libvirt ---------------------------------------------------------------------------------------------------

#: The smallest system that powers off when it is asked to: it has ACPI note a press of the power button, works for
#: some milliseconds, sleeps until the next tick, looks, and in the end writes S5 to where SeaBIOS has put the PIIX4.
OBEYS = bytes.fromhex(
    "ba0206 b80001 ef"  # power button enabled: 0x0100 to port 0x602
    "bb1000 b9ffff e2fe 4b 75f8 f4"  # 16 x 65535 rounds, then HLT
    "ba0006 ed f6c401 74eb"  # pressed? bit 8 of port 0x600
    "ba0406 b80020 ef f4"  # off: 0x2000 to port 0x604
)


class RealHypervisor(RealStage):
    """`reset` makes its VM anew."""

    name, uuid = "vcrt-contract", "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0a01"

    def __init__(self) -> None:
        super().__init__()
        self._libvirt = PrivateLibvirt()
        self._libvirt.start()
        self._disk = self._libvirt.folder / "obeys.img"
        self._disk.write_bytes(boot_sector(OBEYS))
        self._disk.chmod(0o666)
        self.uri = self._libvirt.uri
        self.host = LibvirtHost("hv1", self.uri)

    def reset(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._libvirt.pid, signal.SIGCONT)
        if not self._libvirt.answers():
            self._libvirt.start()
        self._libvirt.forget(self.name)
        xml = boot_sector_domain(self.name, self.uuid, self._disk)
        self._libvirt.define(xml.replace("<devices>", "<features><acpi/></features><devices>", 1))
        self.host = LibvirtHost("hv1", self.uri, 1.0)

    def close(self) -> None:
        self._libvirt.close()

    def start(self) -> None:
        self._libvirt.virsh("start", self.name)

    def shut_down(self) -> None:
        def asked() -> bool:
            # As often as it takes: a system that has not booted yet does not hear it.
            run(["virsh", "-c", self.uri, "-q", "shutdown", self.name], timeout=60, check=False)
            return "running" not in self._libvirt.virsh("domstate", self.name)

        wait_for(asked, "the end of the guest")

    def crash(self) -> None:
        os.kill(self._libvirt.qemu(self.name), signal.SIGKILL)
        wait_for(lambda: "shut off" in self._libvirt.virsh("domstate", self.name), "the crash")

    def start_with_host(self) -> None:
        self._libvirt.virsh("autostart", self.name)

    def forget(self) -> None:
        self.end()
        self.begin()
        wait_for(self._answers, "an answer to the driver")

    def _answers(self) -> bool:
        with contextlib.suppress(Exception):
            return bool(self.host.guests())
        return False

    def hang(self) -> None:
        stand_still(self._libvirt.pid)

    def go_on(self) -> None:
        os.kill(self._libvirt.pid, signal.SIGCONT)

    def end(self) -> None:
        self._libvirt.stop()

    def begin(self) -> None:
        self._libvirt.start()


# -- ports -----------------------------------------------------------------------------------------------------


class RealServer(RealStage):
    address = "127.0.0.1"

    def __init__(self) -> None:
        super().__init__()
        self.probes = Probes(self.clock)
        self._number, self._status = free_port(), 200
        self.tcp: Port = TypeAdapter(Port).validate_python(self._number)
        self.http: Port = TypeAdapter(Port).validate_python({"http": {"port": self._number}})
        self._sockets: list[socket.socket] = []
        stage = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(stage._status)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server: ThreadingHTTPServer | None = ThreadingHTTPServer((self.address, self._number), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self._server = None

    def go_away(self) -> None:
        """Nobody accepts, and the queue is full: the kernel answers nobody any more."""
        self.close()
        listener = socket.socket()
        self._sockets.append(listener)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self.address, self._number))
        listener.listen(0)

        def is_full() -> bool:
            client = socket.socket()
            self._sockets.append(client)
            client.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                client.connect((self.address, self._number))
                return False
            return True

        wait_for(is_full, "a full queue")

    def answer_wrongly(self) -> None:
        self._status = 503

    def reset(self) -> None:
        """Leaves nothing of it."""
        self.close()
        for made in self._sockets:
            made.close()


# -- the fence command -----------------------------------------------------------------------------------------

SCRIPT = """\
#!/bin/sh
case $(cat {folder}/how) in
fail) echo "Error: unable to establish a session" >&2; echo "no route to the BMC" >&2; exit 1 ;;
hang) exec sleep 600 ;;
be_killed) kill -9 $$ ;;
*) echo "Sending"; echo "Chassis Power is off"; echo "$1" >{folder}/off ;;
esac
"""


class RealBmc(RealStage):
    """A script. Its folder has to be in PATH."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._how, self._off = folder / "how", folder / "off"
        self._how.write_text("work\n")
        script = folder / "power-off"
        script.write_text(SCRIPT.format(folder=folder))
        script.chmod(0o755)

    def power_off(self, timeout: float) -> str:
        return power_off("hv1", ["power-off", "hv1"], timeout)

    def fail(self) -> None:
        self._how.write_text("fail\n")

    def hang(self) -> None:
        self._how.write_text("hang\n")

    def be_killed(self) -> None:
        self._how.write_text("be_killed\n")

    def is_off(self) -> bool:
        return self._off.exists() and self._off.read_text() == "hv1\n"


# -- LXD -------------------------------------------------------------------------------------------------------


class RealSecondary(RealStage):
    """The standby of a small site."""

    name = "web"

    def __init__(self, site: SmallSite) -> None:
        super().__init__()
        self.product, self.client = site.lxd.software.product, site.lxd.client
        self._lxd = site.lxd
        self._site = site
        self.lxd: LxdServer = site.lxd.server

    def reset(self) -> None:
        if not self._lxd.runs:
            self._lxd.start()
        self._lxd.stop_all()
        for name in self.lxd.snapshots(self.name):
            self.lxd.delete_snapshot(self.name, name, 60)
        self._site.stand_by(self.name)

    def take_restore_point(self, name: str) -> None:
        self.lxd.take_snapshot(self.name, name, 60)

    def kill_init(self) -> None:
        os.kill(json.loads(self._lxd.lxc("query", f"/1.0/instances/{self.name}/state"))["pid"], signal.SIGKILL)

    def end(self) -> None:
        self._lxd.kill()

    def begin(self) -> None:
        self._lxd.start()


# -- names -----------------------------------------------------------------------------------------------------

ZONE = "contract.test"


class RealNameServers(RealStage):
    name, primary, standby = f"www.{ZONE}", "10.10.0.10", "10.20.0.10"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._ns1, self._ns2 = NameServer("ns1", folder / "ns1"), NameServer("ns2", folder / "ns2")
        grants = [f"name {self.name}. A CNAME", f"name _vcrecovery.{self.name}. TXT"]
        self._ns1.serve(ZONE, f"www 5 IN A {self.primary}\n", grants, [self._ns2])
        self._ns2.follow(ZONE, self._ns1)
        self.zone: Zone = zone_of(ZONE, [self._ns1, self._ns2], folder)
        self._ns1.start()
        self._ns2.start()

    def reset(self) -> None:
        for server in (self._ns1, self._ns2):
            if server.process is None:
                server.start()
        self.go_on()
        self._ns1.change(
            *(f"update delete {self.name} {kind}" for kind in ("A", "CNAME")),
            f"update delete _vcrecovery.{self.name} TXT",
        )
        self.others_write("A", self.primary)
        wait_for(lambda: self._ns2.dig(self.name, "A") == [self.primary], "the name at ns2")
        wait_for(lambda: not self._ns2.dig(f"_vcrecovery.{self.name}", "TXT"), "the marker at ns2")

    def close(self) -> None:
        self._ns1.stop()
        self._ns2.stop()

    def others_write(self, kind: str, *values: str) -> None:
        gone = ("A",) if kind == "CNAME" else ()
        self._ns1.change(
            *(f"update delete {self.name} {old}" for old in (*gone, kind)),
            *(f"update add {self.name} 5 {kind} {value}" for value in values),
        )

    def others_switch(self, epoch: int, address: str) -> None:
        marker = f"_vcrecovery.{self.name}"
        self.others_write("A", address)
        self._ns1.change(f"update delete {marker} TXT", f'update add {marker} 60 TXT "epoch={epoch}"')

    def with_another_key(self) -> Zone:
        folder = self._folder / "other"
        folder.mkdir(exist_ok=True)
        return zone_of(ZONE, [self._ns1, self._ns2], folder, secret=base64.b64encode(b"x" * 32).decode(), key=KEY)

    def hang(self) -> None:
        assert self._ns1.process is not None
        stand_still(self._ns1.process.pid)

    def go_on(self) -> None:
        assert self._ns1.process is not None
        self._ns1.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self._ns1.stop()

    def begin(self) -> None:
        self._ns1.start()

    def end_second(self) -> None:
        self._ns2.stop()
