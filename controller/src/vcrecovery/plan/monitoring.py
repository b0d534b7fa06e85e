"""The sections of the plan that say how failures are noticed: SNMP agents, Zabbix, thresholds."""

from ipaddress import IPv4Address, ip_address
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from vcrecovery.plan.fields import AbsolutePath, Duration, Name, PortNumber, Section, unsaid

#: libvirt-snmp answers from a copy of its table that is made anew by the first question after so many seconds. Asked at
#: that very pace, half of its answers are the copy of the poll before, or partly so.
COPY_LIVES = 5.0
#: So it is asked no more often than this, whatever snmp.poll says. The role `monitoring` has the same number.
COPY_POLL = 6.0


class SnmpAgent(Section):
    """The LIBVIRT-MIB agent of a hypervisor."""

    address: IPv4Address
    port: PortNumber = 161
    user: Name = Field(description="one of snmp.users")
    agent: Literal["vcrecovery", "libvirt-snmp"] = Field(
        "vcrecovery",
        description="which program it is; libvirt-snmp is asked every 6 s at most, since it keeps its answers for 5 s",
    )

    def pace(self, poll: float) -> float:
        """Seconds between two polls, where the plan's are `poll`."""
        return poll if self.agent == "vcrecovery" else max(poll, COPY_POLL)


class SnmpUser(Section):
    """An SNMPv3 user, always with authentication and privacy (RFC 3414, RFC 3826, RFC 7860)."""

    auth: Literal["sha256", "sha512"] = "sha256"
    auth_file: AbsolutePath = Field(description="holds the authentication passphrase and nothing else; mode 0600")
    privacy: Literal["aes128"] = "aes128"
    privacy_file: AbsolutePath = Field(description="holds the privacy passphrase and nothing else; mode 0600")


class Traps(Section):
    """Where the relay listens for the agents' notifications."""

    listen: IPv4Address = Field(IPv4Address("0.0.0.0"), description="the address it listens on")  # noqa: S104
    port: PortNumber = 162
    community_file: AbsolutePath | None = Field(
        None, description="holds the community of SNMPv2c traps, for agents that know no SNMPv3; null: none are taken"
    )
    rate: int = Field(200, ge=1, description="the most notifications per second that are taken of one hypervisor")


class Snmp(Section):
    users: dict[Name, SnmpUser] = Field({})
    traps: Traps = unsaid()
    poll: Duration = Field(
        5.0, description="how often every guest's state and CPU time are read; of libvirt-snmp every 6 s at most"
    )


class ZabbixTrapper(Section):
    """Where the relay and the controller send values to."""

    address: IPv4Address = IPv4Address("127.0.0.1")
    port: PortNumber = 10051


class ZabbixApi(Section):
    """What the controller asks about an event, and where it tells the result."""

    url: str = Field(pattern=r"^https?://", examples=["https://zabbix.example.net/zabbix"])
    token_file: AbsolutePath = Field(description="holds the API token and nothing else; mode 0600")
    ca_file: AbsolutePath | None = Field(None, description="the CA of the server's certificate; null: the system's")


class Zabbix(Section):
    trapper: ZabbixTrapper = unsaid()
    api: ZabbixApi | None = None
    services_host: Name = Field(
        "vcrecovery-services",
        description="the host in Zabbix on which the health of all services is shown; one for each controller",
    )


def _reference(value: str) -> str:
    address, _, port = value.rpartition(":")
    try:
        ip_address(address.strip("[]"))
        good = 1 <= int(port) <= 65535
    except ValueError:
        good = False
    if not good:
        raise ValueError(f"{value!r:.80} is no ADDRESS:PORT, such as 192.0.2.1:22")
    return value


Reference = Annotated[str, AfterValidator(_reference)]


class Detection(Section):
    """Thresholds: the same for the controller's own watcher and for Zabbix."""

    embedded: bool = Field(
        True, description="whether `vcrecovery watch` detects failures itself; false: only Zabbix does"
    )
    cpu_high: float = Field(95.0, gt=0, le=100, description="per cent of all of a VM's vCPUs")
    cpu_high_for: Duration = Field(60.0, description="a VM above that for this long is overloaded, or spins")
    cpu_zero_for: Duration = Field(60.0, description="a VM that has used no CPU at all for this long may hang")
    host_silent_for: Duration = Field(15.0, description="a hypervisor that has been silent for this long has failed")
    stalled_for: Duration = Field(
        30.0, description="a VM that a fault, such as a full disk of its host, has paused for this long has failed"
    )
    autostart_within: Duration = Field(
        60.0,
        description="time for a hypervisor that is back to start a VM with autostart or a managed save image",
    )
    probe_every: Duration = Field(
        5.0, description="how often the ports of whoever serves are asked, primary or standby, while nothing is wrong"
    )
    slow_after: Duration = Field(1.0, description="a service whose ports take longer than that to answer is slow")
    reference: list[Reference] = Field(
        [],
        description="what always answers, such as the gateway, as ADDRESS:PORT (refused is an answer); while one of "
        "them is silent, it is the network: no service is failed over for its ports alone",
        examples=[["192.0.2.1:22"]],
    )
    cool_down: Duration = Field(
        3600.0,
        description="time after a failover without a second automatic one of the same service, unless acknowledged",
    )
    hold_returning: bool = Field(
        True,
        description="whether a primary that comes back while its standby serves is quarantined (paused)",
    )
