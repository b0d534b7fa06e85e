"""The section that says how a secondary is made when there is no room, and when it is given back."""

from ipaddress import IPv4Address, IPv4Interface
from itertools import combinations
from typing import Literal, Self

from pydantic import Field, model_validator

from vcrecovery.plan.costs import SecondaryCost
from vcrecovery.plan.fields import AbsolutePath, Duration, Name, Section, Size

Option = str | int | bool | list[str]
#: A bridge, a service, and the two addresses that every network needs.
_LONGEST_PREFIX = 30


class LibvirtMachines(Section):
    """VMs of a cloud image (NoCloud, with the package `lxd` in it, or within its reach) on a hypervisor."""

    hypervisor: Name = Field(description="that runs them; another one than those of the primaries")
    pool: str = Field("default", description="its storage pool for their disks, one of files: dir, fs or netfs")
    image: str = Field(
        description="a cloud image in that pool, qcow2 or raw; their disks hold what differs from it, so it must not "
        "change while there is one",
        pattern=r"^[^/\s]+$",
        examples=["debian-12-genericcloud-amd64.qcow2"],
    )
    network: str = Field(description="a bridge of the hypervisor", pattern=r"^[^/\s]{1,15}$", examples=["br0"])
    addresses: list[IPv4Interface] = Field(
        min_length=1,
        description="their own, one for each of template.networks in their order: your routes to those lead there",
        examples=[["192.0.2.21/24", "192.0.2.22/24"]],
    )
    gateway: IPv4Address | None = None
    name_servers: list[IPv4Address] = Field([])
    accelerator: Literal["kvm", "qemu"] = Field("kvm", description="qemu emulates, which is slow")


class Provisioner(Section):
    """Who makes machines, and ends them: a command of the operator's, or libvirt. See docs/elastic.md."""

    command: list[str] | None = Field(
        None,
        min_length=1,
        description="run without a shell, with `create`, `describe` or `destroy` as its last word",
        examples=[["/usr/local/sbin/cloud-machine"]],
    )
    libvirt: LibvirtMachines | None = Field(None, description="in place of a command")
    timeout: Duration = Field(600.0, description="for each call; then it is ended, and what it has made is destroyed")

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        if (self.command is None) == (self.libvirt is None):
            raise ValueError("either command or libvirt says who makes machines")
        return self


class Template(Section):
    """What each of the machines has."""

    cores: int = Field(ge=1, le=1024)
    memory: Size = Field(examples=["8GiB"])
    disk: Size = Field(40 << 30, description="of its pool", examples=["40GiB"])
    storage_pool: str = Field("default", description="the pool that holds the standbys there", min_length=1)
    bridge: str = Field("br-standbys", description="the standbys' network there", pattern=r"^[^/\s]{1,15}$")
    networks: list[IPv4Interface] = Field(
        min_length=1,
        description="of the standbys there, one for each machine that there is at a time: the address of its bridge; "
        "it is routed to the machine, by its command or because you have done that",
        examples=[["10.30.1.1/24", "10.30.2.1/24"]],
    )
    options: dict[str, Option] = Field(
        {}, description="what its command is given beside that", examples=[{"image": "debian-12", "region": "eu-1"}]
    )
    cost: SecondaryCost | None = Field(None, description="what one costs, for `vcrecovery cost`")

    @model_validator(mode="after")
    def _networks_are_apart(self) -> Self:
        for one, other in combinations(self.networks, 2):
            if one.network.overlaps(other.network):
                raise ValueError(f"networks {one} and {other} overlap: each machine has one of its own")
        if small := [one for one in self.networks if one.network.prefixlen > _LONGEST_PREFIX]:
            raise ValueError(f"network {small[0]} has no room for a standby")
        return self


class Elastic(Section):
    """Secondaries that are made when services have nowhere to go, and given back when they can go home."""

    template: Template
    provisioner: Provisioner
    certificate: AbsolutePath = Field(description="the controller's, which LXD there trusts from its first start")
    key: AbsolutePath = Field(description="of that certificate; mode 0600")
    at_most: int = Field(1, ge=1, le=100, description="so many at the same time; as many networks are needed")
    join_within: Duration = Field(
        900.0, description="from its making until its LXD answers; then it is destroyed, and another one is tried"
    )
    release_after: Duration = Field(
        3600.0,
        description="for which all that serves there could be at home, before that goes home and it is given back",
    )

    @model_validator(mode="after")
    def _has_networks(self) -> Self:
        if self.at_most > len(self.template.networks):
            raise ValueError(f"at_most is {self.at_most}, and template.networks has {len(self.template.networks)}")
        return self

    @model_validator(mode="after")
    def _has_addresses(self) -> Self:
        networks, libvirt = self.template.networks, self.provisioner.libvirt
        if libvirt is not None and len({one.ip for one in libvirt.addresses}) != len(networks):
            raise ValueError(
                f"provisioner.libvirt.addresses needs {len(networks)} different ones, one for each of template.networks"
            )
        return self
