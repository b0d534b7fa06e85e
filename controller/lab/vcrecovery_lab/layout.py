"""What the lab consists of, read from the inventory that lays it out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .machine import VirtualMachine

CHECKOUT = Path(__file__).resolve().parents[3]
#: The bridge that the VMs are on. The inventory's addresses are on it.
BRIDGE = "vcrlab-prod"
SERVICE = "web"
VM_NAME = "vcrlab-web1"


@dataclass(frozen=True)
class Layout:
    """The lab's places and addresses."""

    config_dir: Path
    state_dir: Path
    run_dir: Path
    root: Path
    plan: dict[str, Any]

    @property
    def plan_file(self) -> Path:
        return self.config_dir / "plan.yml"

    @property
    def machines(self) -> Path:
        """Disks, consoles and known hosts of the VMs."""
        return self.root / "machines"

    @property
    def name_server(self) -> str:
        return str(self.plan["dns"]["servers"]["ns1"]["address"])

    @property
    def name(self) -> str:
        """The DNS name of the service."""
        return str(self.plan["services"][SERVICE]["dns"][0]["name"])

    @property
    def gateway(self) -> str:
        return str(self.plan["secondaries"]["sec1"]["receiver"]["address"])

    @property
    def network(self) -> str:
        """The secondary's bridge."""
        return str(self.plan["secondaries"]["sec1"]["network"]["bridge"])

    @property
    def pool(self) -> str:
        return str(self.plan["secondaries"]["sec1"]["storage_pool"])

    @property
    def lxd_socket(self) -> Path:
        return Path(self.plan["secondaries"]["sec1"]["lxd"])

    def primary(self) -> VirtualMachine:
        entry = self.plan["services"][SERVICE]["primary"]
        return VirtualMachine(
            name=VM_NAME,
            uuid=entry["uuid"],
            bridge=BRIDGE,
            address=f"{entry['address']}/24",
            gateway=self.gateway,
            mac="52:54:00:7c:00:01",
        )


def read_layout() -> Layout:
    variables = yaml.safe_load((CHECKOUT / "controller/lab/inventory/group_vars/all.yml").read_text())
    config_dir = Path(variables["vcrecovery_config_dir"])
    return Layout(
        config_dir=config_dir,
        state_dir=Path(variables["vcrecovery_state_dir"]),
        run_dir=Path(variables["vcrecovery_run_dir"]),
        root=config_dir.parent,
        plan=variables["vcrecovery_plan"],
    )
