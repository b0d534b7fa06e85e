"""A data centre in small: an LXD of its own with standbys of one busybox each, and a real BIND with their names."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, TypeVar

import yaml

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.lxd import Instance, TryAgainError
from vcrecovery.plan.load import load_plan
from vcrecovery.standby.container import EPOCH_KEY, ROLE_KEY, STANDBY, apply
from vcrecovery.standby.modes import RAW_KEY
from vcrecovery_lab.busybox_tree import give_away, plant, stamp
from vcrecovery_lab.container_programs import Programs
from vcrecovery_lab.private_lxd import PrivateLxd

from .conftest import PROGRAM
from .flavours import chosen
from .loaded_program import LOADED
from .name_servers import NameServer, plan_section

BRIDGE, GATEWAY = "vcrlab-small", "10.211.8.1/24"
ZONE = "small.test"
#: Nobody listens there on loopback, so the primaries' ports are closed. It is the standbys' port, too.
PORT = 7080
#: The init of the smallest system that answers on a port; it ends at the signal with which LXD stops a container.
INIT = """\
#!/bin/busybox sh
trap 'exit 0' 3 15 30 37
{serve}
while :; do /bin/busybox sleep 1 & wait $!; done
"""
SERVE = f"/bin/busybox httpd -p {PORT} -h /www"

AnySite = TypeVar("AnySite", bound="SmallSite")


def page_at(address: str) -> str | None:
    """None when nobody answers."""
    with closing(HTTPConnection(address, PORT, timeout=10)) as connection:
        try:
            connection.request("GET", "/")
            answer = connection.getresponse()
            return answer.read().decode().strip() if answer.status == HTTPStatus.OK else None
        except (OSError, HTTPException):
            return None


class SmallSite:
    """Services named `names` on hypervisor hv1, whose libvirt does not answer and whose fence command works.

    `fenced` has a line for each run of that command.
    """

    def __init__(self, folder: Path, names: Sequence[str], programs: Programs | None = None) -> None:
        self.folder, self.names = folder, tuple(names)
        self.lxd = PrivateLxd(BRIDGE, programs or chosen())
        self.ns1 = NameServer("ns1", folder / "ns1")
        self.ns2 = NameServer("ns2", folder / "ns2")
        self.plan, self.state, self.fenced = folder / "plan.yml", folder / "state", folder / "fenced"
        self.data: dict[str, Any] = {}
        self.write_plan()

    def write_plan(self, **services: dict[str, Any]) -> None:
        """`services`: changes to the services of these names."""
        fence = ["sh", "-c", f"echo hv1 >> {shlex.quote(str(self.fenced))}; echo Chassis power is off"]
        self.data = {
            "version": 1,
            "state_dir": str(self.state),
            "hypervisors": {"hv1": {"uri": f"qemu:///session?socket={self.folder}/none", "fence": {"command": fence}}},
            "secondaries": {
                "sec1": {
                    "lxd": str(self.lxd.socket),
                    "storage_pool": BRIDGE,
                    "network": {"bridge": BRIDGE, "address": GATEWAY},
                    "receiver": {"address": "127.0.0.1"},
                }
            },
            "dns": plan_section({ZONE: [self.ns1, self.ns2]}, self.folder),
            "services": {name: self._service(number) for number, name in enumerate(self.names)},
        }
        for name, changes in services.items():
            self.data["services"][name].update(changes)
        self.save_plan()

    def save_plan(self) -> None:
        self.plan.write_text(yaml.safe_dump(self.data))

    def _service(self, number: int) -> dict[str, Any]:
        return {
            "primary": {
                "hypervisor": "hv1",
                "uuid": f"6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e5{number:03d}",
                "address": f"127.0.5.{number + 1}",
            },
            "standby": {"secondary": "sec1", "address": self.address(self.names[number])},
            "ports": [PORT],
            "dns": [{"name": f"{self.names[number]}.{ZONE}", "zone": ZONE, "ttl": 5}],
            "sync": {"exclude_profile": None},
        }

    def address(self, name: str) -> str:
        return f"10.211.8.{10 + self.names.index(name)}"

    def primary(self, name: str) -> str:
        return f"127.0.5.{self.names.index(name) + 1}"

    def start(self) -> None:
        grants = [f"name {name}.{ZONE}. A" for name in self.names]
        grants += [f"name _vcrecovery.{name}.{ZONE}. TXT" for name in self.names]
        self.ns1.serve(ZONE, self._records(), grants, [self.ns2])
        self.ns2.follow(ZONE, self.ns1)
        self.ns1.start()
        self.ns2.start()
        self.lxd.start()
        self.make_standbys()

    def make_standbys(self) -> None:
        plan = load_plan(self.plan)
        # The first makes the pool and the bridge. The others are its copies: LXD takes 5 s to find out that it cannot
        # start an empty container, which is how each chooses its ID map.
        first, *others = self.names
        apply(plan, first, self.lxd.server, SystemClock())
        for name in others:
            self.lxd.lxc("copy", first, name, "--config", f"{RAW_KEY}=")
            apply(plan, name, self.lxd.server, SystemClock())
        for name in self.names:
            self.fill(name)

    def _records(self) -> str:
        return "".join(f"{name} 5 IN A {self.primary(name)}\n" for name in self.names)

    def rootfs(self, name: str) -> Path:
        return self.lxd.server.rootfs(BRIDGE, name)

    def instance(self, name: str) -> Instance:
        found = self.lxd.server.get(name)
        assert found is not None
        return found

    def fill(self, name: str, serve: str = SERVE) -> None:
        """Its system, with a heartbeat of now, as a sync of its primary brings it."""
        top = self.rootfs(name)
        plant(top, {"sbin/init": INIT.format(serve=serve)}, ["www"])
        (top / "www/index.html").write_text(f"{name}\n")
        self.stamp(name)
        for left in ("go", "calm"):
            (top / left).unlink(missing_ok=True)
        give_away(top)

    def stamp(self, name: str) -> None:
        stamp(self.rootfs(name), SystemClock().now())

    # -- what an operator calls and sees ------------------------------------------------------------------------

    def command(self, *words: str) -> list[str]:
        return [str(PROGRAM), *words, "--plan", str(self.plan)]

    def vcrecovery(self, *words: str, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        return LOADED.run([*words, "--plan", str(self.plan)], timeout)

    def episodes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.vcrecovery("history", "--limit", "1000", "--json").stdout)[
            "episodes"
        ]
        return found

    def page(self, name: str) -> str | None:
        """What whoever asks by the name gets, without a cache; None when nobody answers."""
        addresses = self.ns1.dig(f"{name}.{ZONE}", "A")
        return page_at(addresses[0])

    def address_in_dns(self, name: str) -> list[str]:
        return self.ns1.dig(f"{name}.{ZONE}", "A")

    def serial(self) -> int:
        return int(self.ns1.dig(ZONE, "SOA")[0].split()[2])

    @contextmanager
    def watched(self) -> Iterator[Callable[[], str]]:
        """A `vcrecovery watch` runs; what it has said so far."""
        log = self.folder / "watch.log"
        with log.open("wb") as output:
            process = subprocess.Popen(self.command("watch", "--verbose"), stdout=output, stderr=output)
        try:
            yield log.read_text
        except BaseException:
            # pytest shows it beside the failure.
            print(f"what the watcher said:\n{log.read_text()}")  # noqa: T201
            raise
        finally:
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=30)
        assert "Traceback" not in log.read_text()

    # -- between two tests --------------------------------------------------------------------------------------

    def back(self) -> None:
        """Everything as before any failover: standbys stopped, names at the primaries, no journal."""
        if not self.lxd.runs:
            self.lxd.start()
        self.lxd.stop_all()
        for name in self.names:
            self.stand_by(name)
            self.fill(name)
        for server in (self.ns1, self.ns2):
            if server.process is None:
                server.start()
        for name in self.names:
            self.ns1.change(
                f"update delete {name}.{ZONE} A",
                f"update add {name}.{ZONE} 5 A {self.primary(name)}",
                f"update delete _vcrecovery.{name}.{ZONE} TXT",
            )
        registered = self.state / "standbys"
        for entry in self.state.iterdir():
            if entry.is_dir() and entry != registered:
                shutil.rmtree(entry)
            elif entry.is_file():
                entry.unlink()
        self.fenced.unlink(missing_ok=True)
        self.write_plan()

    def stand_by(self, name: str) -> None:
        """No failover has ever claimed it. LXD writes keys of its own at times, also after a stop."""
        for _ in range(100):
            with suppress(TryAgainError):
                self.lxd.server.configure(
                    self.instance(name), {ROLE_KEY: STANDBY, EPOCH_KEY: "", "boot.autostart": "false"}
                )
                return
        raise AssertionError(f"{name} keeps being changed by another client")

    def close(self) -> None:
        try:
            self.ns1.stop()
            self.ns2.stop()
        finally:
            self.lxd.close()


@contextmanager
def small_site(folder: Path, names: Sequence[str], programs: Programs | None = None) -> Iterator[SmallSite]:
    with started(SmallSite(folder, names, programs)) as site:
        yield site


@contextmanager
def started(site: AnySite) -> Iterator[AnySite]:
    os.environ.pop("VCRECOVERY_PLAN", None)
    try:
        site.start()
        yield site
    finally:
        site.close()
