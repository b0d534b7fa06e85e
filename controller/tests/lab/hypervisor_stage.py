"""The stage of the provisioner's contract with a real libvirt, QEMU, and a pool of files."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from typing import Any

from made_by_libvirt import MadeByLibvirt
from vcrecovery_lab.domain import blank_domain
from vcrecovery_lab.network import ensure_bridge, remove_bridge
from vcrecovery_lab.private_hypervisor import PrivateHypervisor
from vcrecovery_lab.stand_still import stand_still

BRIDGE, IMAGE = "vcrlab-makes", "nothing.img"
STRANGER, STRANGERS_UUID = "elastic-1", "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0a02"


class RealMachineHost:
    """Its image boots into nothing."""

    def __init__(self) -> None:
        self.libvirt = PrivateHypervisor()
        self.libvirt.start()
        self.libvirt.make_pool()
        image = self.libvirt.pool / IMAGE
        with image.open("wb") as file:
            os.truncate(file.fileno(), 1 << 20)
        ensure_bridge(BRIDGE, "10.211.18.1/24")

    def close(self) -> None:
        self.answers_again()
        for name in self.domains():
            self.libvirt.forget(name)
        self.libvirt.close()
        remove_bridge(BRIDGE)

    def domains(self) -> set[str]:
        return set(self.libvirt.virsh("list", "--all", "--name").split())

    def answers_again(self) -> None:
        with contextlib.suppress(OSError):  # it has ended
            os.kill(self.libvirt.pid, signal.SIGCONT)
        if not self.libvirt.answers():
            self.libvirt.start()


class RealMachines(MadeByLibvirt):
    def __init__(self, on: RealMachineHost, wanted: Mapping[str, Any] | None = None) -> None:
        self._on = on
        super().__init__(on.libvirt.uri, {"image": IMAGE, "network": BRIDGE, **(wanted or {})})

    def everything(self) -> set[str]:
        return self._on.domains() | self._on.libvirt.volumes()

    def strangers(self) -> None:
        self._on.libvirt.define(blank_domain(STRANGER, STRANGERS_UUID))

    def break_it(self) -> None:
        self._on.libvirt.stop()

    def hang(self) -> None:
        stand_still(self._on.libvirt.pid)
        self._timeout = 1.0
