"""The file that says where a hypervisor's notifications go. Hypervisors have no plan."""

from __future__ import annotations

from ipaddress import IPv4Address
from pathlib import Path
from typing import Literal

import yaml
from pydantic import Field, ValidationError, model_validator

from vcrecovery.errors import UsageError
from vcrecovery.plan.fields import Name, PortNumber, Section
from vcrecovery.plan.monitoring import SnmpUser
from vcrecovery.snmp.mib import ENTERPRISE, Oid

DEFAULT_PATH = Path("/etc/vcrecovery/snmp-agent.yml")


class Destination(Section):
    """A receiver: SNMPv3 informs with `user`, or SNMPv2c traps with `community_file`."""

    address: IPv4Address
    port: PortNumber = 162
    user: Name | None = Field(None, description="one of users")
    community_file: Path | None = Field(None, description="holds the community and nothing else; mode 0600")

    @model_validator(mode="after")
    def _one_of_both(self) -> Destination:
        if (self.user is None) == (self.community_file is None):
            raise ValueError("give it a user (SNMPv3 informs) or a community_file (SNMPv2c traps)")
        return self

    def __str__(self) -> str:
        return f"{self.address}:{self.port}"


class AgentSettings(Section):
    host: Name = Field(description="this hypervisor's name in the plan")
    uri: str = Field("qemu:///system", description="libvirt, as this host reaches it")
    enterprise: Literal[36957, 12345] = Field(36957, description="12345: as libvirt-snmp before 0.0.4")
    users: dict[Name, SnmpUser] = Field({})
    destinations: list[Destination] = Field(min_length=1)

    @model_validator(mode="after")
    def _known_users(self) -> AgentSettings:
        for destination in self.destinations:
            if destination.user is not None and destination.user not in self.users:
                raise ValueError(f"destination {destination}: there is no user {destination.user!r}")
        return self

    @property
    def oid(self) -> Oid:
        return (*ENTERPRISE[:-1], self.enterprise)


def load_settings(path: Path) -> AgentSettings:
    """Raises UsageError with the first thing that is wrong."""

    def bad(reason: str) -> UsageError:
        return UsageError(f"{path}: {reason}", "correct it, or run the role `hypervisor` again")

    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise bad(f"cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise bad(f"is no YAML: {error}") from error
    try:
        return AgentSettings.model_validate(raw)
    except ValidationError as error:
        first, more = error.errors()[0], error.error_count() - 1
        place = ".".join(str(part) for part in first["loc"])
        text = first["msg"].removeprefix("Value error, ")
        others = f" (and {more} more)" if more else ""
        raise bad((f"{place}: {text}" if place else text) + others) from error
