"""The section of the plan that says when reports are written, and to whom they are mailed."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from vcrecovery.plan.fields import AbsolutePath, DomainName, PortNumber, Section

#: Neither an option of sendmail nor a second header.
_Address = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][^\s@,;<>\"()]{0,63}@[A-Za-z0-9.-]{1,253}$")]


class Smtp(Section):
    """A mail server that is spoken to over TLS, with a certificate that is checked."""

    host: DomainName
    port: PortNumber | None = Field(None, description="null: 587 for starttls, 465 for tls")
    tls: Literal["starttls", "tls"] = Field("starttls", description="starttls: after the first words; tls: before any")
    user: str | None = Field(None, min_length=1, description="to log in as; null: without a login")
    password_file: AbsolutePath | None = Field(None, description="holds the password and nothing else; mode 0600")
    ca_file: AbsolutePath | None = Field(None, description="the CA that signed its certificate; null: the system's")

    @model_validator(mode="after")
    def _logs_in_whole(self) -> Self:
        if (self.user is None) != (self.password_file is None):
            raise ValueError("user and password_file go together")
        return self

    @property
    def port_of(self) -> int:
        return self.port or (587 if self.tls == "starttls" else 465)


class Mail(Section):
    """Whom reports are mailed to."""

    to: list[_Address] = Field(min_length=1, examples=[["ops@example.net"]])
    sender: _Address = Field(alias="from", description="the sender", examples=["vcrecovery@example.net"])
    smtp: Smtp | None = Field(None, description="null: the system's /usr/sbin/sendmail")


class Report(Section):
    """`vcrecovery report --scheduled` writes the report of the day, week or month before, and mails it."""

    every: Literal["1d", "1w", "1mo"] = Field(
        "1w", description="at six in the morning: each day, each Monday, or each first day of a month"
    )
    directory: AbsolutePath | None = Field(None, description="where they are kept; null: `reports` in the `state_dir`")
    mail: Mail | None = Field(None, description="null: they are not mailed")
