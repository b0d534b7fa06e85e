"""The VM of a secondary that is made by playbook."""

from ipaddress import IPv4Address, IPv4Interface
from typing import Self

from pydantic import Field, model_validator

from vcrecovery.machines.machine import STANDBYS_CARD
from vcrecovery.machines.seed import STANDBYS_MOUNT
from vcrecovery.plan.fields import AbsoluteText, Name, Section, Size

_LEAST_MEMORY, _LEAST_DISK = 512 << 20, 2 << 30


class SecondaryVm(Section):
    """A VM that `site.yml` makes of a cloud image (NoCloud, any distribution that the role `secondary` knows)."""

    hypervisor: Name = Field(description="the libvirt host that runs it; another one than those of its primaries")
    domain: Name | None = Field(None, description="its name in libvirt; null: that of the secondary")
    cores: int = Field(2, ge=1, le=1024)
    memory: Size = Field(4 << 30, examples=["4GiB"])
    disk: Size = Field(40 << 30, description="it grows at the next boot, and never shrinks", examples=["40GiB"])
    standbys_disk: Size | None = Field(
        None,
        description="a disk of its own for the standbys' pool; null: they are on its system's",
        examples=["100GiB"],
    )
    image: AbsoluteText = Field(
        description="a cloud image on the hypervisor, qcow2 or raw; it is copied and never changed",
        examples=["/var/lib/libvirt/images/debian-12-genericcloud-amd64.qcow2"],
    )
    network: str = Field(description="a bridge of the hypervisor", pattern=r"^[^/\s]{1,15}$", examples=["br0"])
    address: IPv4Interface = Field(description="its own", examples=["192.0.2.20/24"])
    gateway: IPv4Address | None = None
    name_servers: list[IPv4Address] = Field([])
    standbys_network: str | None = Field(
        None,
        description="a bridge of the hypervisor for a second card, over which `network.bridge` is made, so that the "
        "standbys are in the same network as what is there; null: their network is behind the VM, and routed",
        pattern=r"^[^/\s]{1,15}$",
    )

    @property
    def pool_folder(self) -> str:
        """Where the standbys' pool is; empty: where LXD puts it."""
        return f"{STANDBYS_MOUNT}/pool" if self.standbys_disk else ""

    @property
    def standbys_card(self) -> str:
        """What the standbys' network is made over; empty: nothing."""
        return STANDBYS_CARD if self.standbys_network else ""

    @model_validator(mode="after")
    def _is_large_enough(self) -> Self:
        if self.memory < _LEAST_MEMORY:
            raise ValueError("memory is below 512MiB, with which LXD and one standby do not run")
        if self.disk < _LEAST_DISK:
            raise ValueError("disk is below 2GiB, which is no room for a system with LXD")
        return self
