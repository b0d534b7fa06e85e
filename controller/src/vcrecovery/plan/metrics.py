"""The section of the plan that says where figures are served for Prometheus."""

from ipaddress import IPv4Address

from pydantic import Field

from vcrecovery.plan.fields import PortNumber, Section


class Metrics(Section):
    """`vcrecovery watch` serves figures here, over plain HTTP and to everybody who reaches the address."""

    listen: IPv4Address = Field(IPv4Address("127.0.0.1"), description="the address it listens on")
    port: PortNumber = 9870
