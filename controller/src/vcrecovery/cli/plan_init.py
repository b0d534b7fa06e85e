"""`vcrecovery plan init`: finds out what there is, and writes a first plan of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import IPv4Address
from pathlib import Path

import click
from pydantic import TypeAdapter, ValidationError

from vcrecovery.drivers.clock import SystemClock
from vcrecovery.drivers.libvirt import LibvirtHost
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.drivers.probe import ask
from vcrecovery.errors import ExternalError, UsageError
from vcrecovery.operations.discovery import PORT_WITHIN, find_secondary, find_vms, neighbours, uuid_of_this_machine
from vcrecovery.plan.fields import DomainName
from vcrecovery.plan.first import DnsWish, first_plan, protected
from vcrecovery.plan.probes import tcp


def init(
    hypervisors: Mapping[str, str],
    socket: Path,
    zone: str | None,
    name_server: str | None,
    output: Path | None,
    *,
    probes: bool,
) -> None:
    """Raises UsageError, and ExternalError when a hypervisor does not answer."""
    if (zone is None) != (name_server is None):
        raise UsageError("--zone and --name-server belong together", "give both, or neither")
    if output is not None and os.path.lexists(output):  # who may not look there may not write there either
        raise UsageError(f"{output} is there already, and stays as it is", "write to another file, or move it away")
    wish = None if zone is None or name_server is None else DnsWish(_zone(zone), _address(name_server))
    hosts = [LibvirtHost(name, uri) for name, uri in hypervisors.items()]
    vms = find_vms(hosts, _answers if probes else None, uuid_of_this_machine(), neighbours())
    secondary = find_secondary(LxdServer("sec1", socket, SystemClock()), socket, vms)
    text = first_plan(hypervisors, secondary, vms, wish)
    if output is None:
        click.echo(text, nl=False)
    else:
        _write(output, text)
    count, where = protected(vms), output or "it"
    click.echo(f"{count} of {len(vms)} VM(s); look at {where}, above all where it says CHECK", err=True)


def _answers(address: str, port: int) -> bool:
    return ask(address, tcp(port), PORT_WITHIN).ok


def _zone(text: str) -> str:
    try:
        return TypeAdapter(DomainName).validate_python(text)
    except ValidationError:
        raise UsageError(f"--zone: {text!r:.80} is no DNS name") from None


def _address(text: str) -> str:
    try:
        return str(IPv4Address(text))
    except ValueError:
        raise UsageError(f"--name-server: {text!r:.40} is no IPv4 address") from None


def _write(file: Path, text: str) -> None:
    """Whole or not at all. Whoever was faster keeps their file."""
    scratch = file.with_name(f".{file.name}.{os.urandom(8).hex()}")
    try:
        try:
            with scratch.open("x") as new:
                new.write(text)
            os.link(scratch, file)
        finally:
            scratch.unlink(missing_ok=True)
    except OSError as error:
        raise ExternalError(f"cannot write {file}: {error.strerror}") from error
