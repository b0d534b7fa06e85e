"""What the stages of the provisioner's contract with libvirt have in common, be it a real one or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any
from unittest.mock import patch

from vcrecovery.drivers.libvirt.connection import Call
from vcrecovery.drivers.libvirt.provisioner import LibvirtProvisioner
from vcrecovery.plan.elastic import LibvirtMachines

NETWORK = "10.30.1.1/24"


class KilledError(Exception):
    """Whoever calls is."""


class MadeByLibvirt(LibvirtProvisioner):
    def __init__(self, uri: str, wanted: Mapping[str, Any], timeout: float = 30.0) -> None:
        fixed = {"hypervisor": "hv2", "pool": "vms", "addresses": ["192.0.2.21/24"], "accelerator": "qemu"}
        super().__init__(uri, LibvirtMachines.model_validate({**fixed, **wanted}), [NETWORK], timeout)

    def order(self, lease: str) -> dict[str, Any]:
        return {
            "lease": lease,
            "name": "elastic-1",
            "options": {},
            "cores": 1,
            "memory": 64 << 20,
            "disk": 16 << 20,
            "lxd": {"network": NETWORK},
            "user_data": "#cloud-config\n{}\n",
        }

    def killed(self, order: Mapping[str, Any]) -> Iterator[None]:
        """Before each change it looks whether anybody waits for that: there its caller is killed."""
        for last in count(1):
            steps = count(1)

            def check(_call: Call[Any], last: int = last, steps: Iterator[int] = steps) -> None:
                if next(steps) == last:
                    raise KilledError

            with patch.object(Call, "check", check):
                try:
                    self.create(order)
                except KilledError:
                    killed = True
                else:
                    killed = False
            if not killed:
                assert last > 1
                self.destroy(order)
                return
            yield
