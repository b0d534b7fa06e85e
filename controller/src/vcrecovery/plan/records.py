"""The sections of the plan that say which DNS records, or which address, follow a service."""

from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from vcrecovery.plan.fields import DomainName, PortNumber, Section

Number = Annotated[int, Field(ge=0, le=65535)]


class _Record(Section):
    name: DomainName
    zone: DomainName
    ttl: int = Field(30, ge=1, le=86400, description="seconds; how long resolvers keep the old value")


class ARecord(_Record):
    """An IPv4 address that follows the service."""

    type: Literal["A"] = "A"
    primary: IPv4Address | None = Field(None, description="as clients see it (behind NAT, say); null: primary.address")
    standby: IPv4Address | None = Field(None, description="as clients see it; null: standby.address")


class AaaaRecord(_Record):
    """An IPv6 address that follows the service."""

    type: Literal["AAAA"]
    primary: IPv6Address | None = Field(None, description="null: primary.address6")
    standby: IPv6Address | None = Field(None, description="null: standby.address6")


class CnameRecord(_Record):
    """An alias that follows the service. No other record may have its name."""

    type: Literal["CNAME"]
    primary: DomainName = Field(description="the name that leads to the primary")
    standby: DomainName = Field(description="the name that leads to the standby")


class SrvTarget(Section):
    target: DomainName
    port: PortNumber
    priority: Number = 0
    weight: Number = 0


class SrvRecord(_Record):
    """The place of a service (RFC 2782), such as _sip._tcp.example.net."""

    type: Literal["SRV"]
    primary: SrvTarget
    standby: SrvTarget


def _type_of(value: Any) -> Any:
    return value.get("type", "A") if isinstance(value, dict) else getattr(value, "type", "A")


#: Without a type it is an A record.
DnsRecord = Annotated[
    Annotated[ARecord, Tag("A")]
    | Annotated[AaaaRecord, Tag("AAAA")]
    | Annotated[CnameRecord, Tag("CNAME")]
    | Annotated[SrvRecord, Tag("SRV")],
    Discriminator(
        _type_of,
        custom_error_type="record_type",
        custom_error_message="type is none of A, AAAA, CNAME and SRV",
    ),
]


class VirtualAddress(Section):
    """An address that clients use, on the controller's own machine while the standby serves."""

    address: IPv4Interface | IPv6Interface = Field(description="with its network", examples=["192.0.2.50/24"])
    interface: str = Field(
        pattern=r"^[^\s/]{1,15}$", description="of the controller's machine, in the clients' network"
    )
