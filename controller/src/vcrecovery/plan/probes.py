"""The sections of the plan that say how one sees that a service answers."""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from vcrecovery.plan.fields import AbsolutePath, DomainName, Duration, PortNumber, Section


class Trust(Section):
    """Whose certificates are believed."""

    ca_file: AbsolutePath | None = Field(
        None, description="the CA, or the certificate itself where it is self-signed; null: the system's CAs"
    )
    verify: bool = Field(True, description="false: any certificate, for any name, until any day, will do")


class TlsProbe(Trust):
    """A TLS handshake, with a certificate for that name."""

    port: PortNumber
    name: DomainName = Field(description="asked for in the handshake, and named by the certificate")


class HttpProbe(Trust):
    """A GET request. Redirections are not followed."""

    port: PortNumber = 80
    path: str = Field("/", pattern=r"^/[!-~]*$", description="with its query, as it is sent")
    status: list[Annotated[int, Field(ge=100, le=599)]] = Field(
        [], description="those that are good; none: all from 200 to 399"
    )
    host: DomainName | None = Field(None, description="the Host header; null: the address")
    tls: bool = Field(False, description="HTTPS, with a certificate for `host`")

    @model_validator(mode="after")
    def _is_for_a_name(self) -> Self:
        if self.tls and self.verify and self.host is None:
            raise ValueError("tls needs host: the name that the certificate is for")
        return self


def _asks_where_it_is_told(command: list[str]) -> list[str]:
    if not any("{address}" in word for word in command):
        raise ValueError("names no {address}: it has to ask the primary and the standby, as it is told")
    return command


def _port(value: Any) -> Any:
    """`80` is short for `{tcp: 80}`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return {"tcp": value}
    if not isinstance(value, dict | Section):
        raise ValueError("a port is its number, or one of {tcp: ...}, {tls: ...}, {http: ...} and {command: ...}")
    return value


class _Port(Section):
    """One thing that must answer before DNS points here, and that says whether the primary does."""

    tcp: PortNumber | None = Field(None, description="a connection is accepted")
    tls: TlsProbe | None = None
    http: HttpProbe | None = None
    command: Annotated[list[str], AfterValidator(_asks_where_it_is_told)] | None = Field(
        None,
        min_length=1,
        description="run on the controller, without a shell; {address} in it becomes the address; status 0 is good",
        examples=[["/usr/lib/nagios/plugins/check_mysql", "-H", "{address}"]],
    )
    timeout: Duration = Field(
        5.0,
        description="for one try of tls, http or command to answer; in a confirmation, too, once it is connected",
    )

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        named = [kind for kind in ("tcp", "tls", "http", "command") if getattr(self, kind) is not None]
        if len(named) != 1:
            raise ValueError(f"needs one of tcp, tls, http and command, and has {' and '.join(named) or 'none'}")
        return self

    @property
    def number(self) -> int | None:
        """The port's number; None for a command."""
        return self.tcp or (self.tls and self.tls.port) or (self.http and self.http.port) or None


class _OrItsNumber:
    """What the JSON Schema says of `_port`."""

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 65535}, handler(schema)]}


Port = Annotated[_Port, BeforeValidator(_port), _OrItsNumber()]


def tcp(number: int) -> Port:
    """That a connection is accepted."""
    return _Port(tcp=number)
