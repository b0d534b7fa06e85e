"""A small data centre with a second LXD, on a bridge of its own: the spare of each standby.

The controller is on the first one's machine, and reaches the second one as one on another machine: over HTTPS, with a
certificate that it restricts.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vcrecovery.drivers.lxd import Instance
from vcrecovery_lab.container_programs import Programs
from vcrecovery_lab.ports import free_port
from vcrecovery_lab.private_lxd import PrivateLxd
from vcrecovery_lab.secondary_vm.certificate import make_certificate

from .flavours import chosen
from .small_site import SmallSite, page_at, started

SPARE_BRIDGE, SPARE_GATEWAY = "vcrlab-spare", "10.211.12.1/24"


class TwoSecondaries(SmallSite):
    """`ended`: a line for each run of the fence command of sec1, if that `has_fence`. `every`: of the spare."""

    has_fence, every = True, "1h"

    def __init__(self, folder: Path, names: Sequence[str], programs: Programs | None = None) -> None:
        self.spare_lxd = PrivateLxd(SPARE_BRIDGE, programs or chosen())
        self.ended = folder / "ended"
        self.port = free_port()
        self.certificate, self.key = make_certificate(folder, "vcrt-spare")
        super().__init__(folder, names, programs)

    def write_plan(self, **services: dict[str, Any]) -> None:
        super().write_plan(**services)
        sec1 = self.data["secondaries"]["sec1"]
        if self.has_fence:
            script = f"echo sec1 >> {shlex.quote(str(self.ended))}; echo Chassis power is off"
            sec1["fence"] = {"command": ["sh", "-c", script]}
        self.data["secondaries"]["sec2"] = {
            "lxd": {
                "url": f"https://127.0.0.1:{self.port}",
                "certificate": str(self.certificate),
                "key": str(self.key),
                "server_certificate": str(self.spare_lxd.folder / "server.crt"),
            },
            "storage_pool": SPARE_BRIDGE,
            "network": {"bridge": SPARE_BRIDGE, "address": SPARE_GATEWAY},
            "receiver": {"address": "127.0.0.1", "port": 7023},
        }
        self.data["detection"] = {"host_silent_for": "3s"}
        for name in self.names:
            spare = {"secondary": "sec2", "address": self.spare_address(name), "every": self.every}
            self.data["services"][name]["standby"]["spare"] = spare
        self.save_plan()

    def spare_address(self, name: str) -> str:
        return f"10.211.12.{10 + self.names.index(name)}"

    def start(self) -> None:
        self.spare_lxd.start()
        self.spare_lxd.lxc("config", "set", "core.https_address", f"127.0.0.1:{self.port}")
        self.spare_lxd.trust(self.certificate, "vcrt-spare")
        # As the role `secondary` makes them there.
        self.spare_lxd.server.create_pool(SPARE_BRIDGE)
        self.spare_lxd.server.create_network(SPARE_BRIDGE, SPARE_GATEWAY)
        super().start()
        self.lxd.lxc("config", "set", "core.https_address", f"127.0.0.1:{free_port()}")

    def on_spare(self, name: str) -> Instance | None:
        return self.spare_lxd.server.get(name)

    def on_spare_status(self) -> str:
        found = self.on_spare(self.names[0])
        return "" if found is None else found.status

    def pages(self, name: str) -> tuple[str | None, str | None]:
        """What each of the two serves."""
        return page_at(self.address(name)), page_at(self.spare_address(name))

    def status_of(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.vcrecovery("status", name, "--json").stdout)["services"][0]
        return found

    def back(self) -> None:
        if not self.spare_lxd.runs:
            self.spare_lxd.start()
        self.spare_lxd.stop_all()
        for name in self.names:
            if self.on_spare(name) is not None:
                self.spare_lxd.server.delete(name)
        self.ended.unlink(missing_ok=True)
        super().back()

    def close(self) -> None:
        try:
            super().close()
        finally:
            self.spare_lxd.close()


@contextmanager
def two_secondaries(folder: Path, names: Sequence[str], programs: Programs | None = None) -> Iterator[TwoSecondaries]:
    with started(TwoSecondaries(folder, names, programs)) as site:
        yield site
