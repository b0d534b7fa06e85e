"""The section of the plan that says where the status page is served."""

from __future__ import annotations

from ipaddress import IPv4Address
from typing import Self

from pydantic import Field, model_validator

from vcrecovery.plan.fields import AbsolutePath, PortNumber, Section


class PageTls(Section):
    """Who the page is, to browsers."""

    certificate: AbsolutePath = Field(description="PEM, with its chain", examples=["/etc/vcrecovery/page.crt"])
    key: AbsolutePath = Field(description="of that certificate; mode 0600", examples=["/etc/vcrecovery/page.key"])


class StatusPage(Section):
    """`vcrecovery watch` serves a page to read here: who serves what, what needs attention, failovers as they go.

    Nothing can be done from it. On another address than this machine's own it needs `tls` and `token_file`.
    """

    listen: IPv4Address = Field(IPv4Address("127.0.0.1"), description="the address it listens on")
    port: PortNumber = 9871
    tls: PageTls | None = Field(None, description="served over HTTPS; null: over plain HTTP")
    token_file: AbsolutePath | None = Field(
        None, description="holds what a browser asks for as the password, and nothing else; mode 0600"
    )

    @model_validator(mode="after")
    def _is_for_nobody_else(self) -> Self:
        if not self.listen.is_loopback:
            missing = [name for name in ("tls", "token_file") if getattr(self, name) is None]
            if missing:
                raise ValueError(
                    f"needs {' and '.join(missing)} on {self.listen}: whoever reaches that reads everything"
                )
        return self
