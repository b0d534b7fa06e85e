"""`vcrecovery snmp-agent`: what runs on hypervisors. Each verb loads only what it needs: snmpd waits for `table`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import click

from vcrecovery.cli import complete
from vcrecovery.snmp.mib import ENTERPRISE


@click.group("snmp-agent")
def snmp_agent() -> None:
    """Serve this hypervisor's VMs by SNMP, as libvirt-snmp does (LIBVIRT-MIB)."""


@snmp_agent.command()
@click.option("--uri", default="qemu:///system", show_default=True, help="libvirt, as this host reaches it.")
@click.option("--host", required=True, shell_complete=complete.hypervisor, help="This hypervisor's name in the plan.")
@click.option(
    "--enterprise",
    type=click.Choice(["36957", "12345"]),
    default="36957",
    show_default=True,
    help="12345: as libvirt-snmp before 0.0.4.",
)
def table(uri: str, host: str, enterprise: str) -> None:
    """Serve libvirtGuestTable to snmpd (its `pass_persist` starts this)."""
    from vcrecovery.snmp.table_program import keep_answers_clean, libvirt_rows, serve_table

    keep_answers_clean()
    oid = (*ENTERPRISE[:-1], int(enterprise))
    serve_table(libvirt_rows(uri), host, oid, sys.stdin.buffer, sys.stdout.buffer)


@snmp_agent.command()
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("/etc/vcrecovery/snmp-agent.yml"),
    show_default=True,
    help="Whom to notify, and how.",
)
@click.option("--check", is_flag=True, help="Only check the file.")
def notify(config: Path, check: bool) -> None:
    """Tell the monitoring of every change of a VM's state, at once."""
    import asyncio

    from vcrecovery.snmp.notifier import notify as run
    from vcrecovery.snmp.notifier import receivers_of
    from vcrecovery.snmp.settings import load_settings

    settings = load_settings(config)
    receivers = receivers_of(settings)
    if check:
        click.echo(f"{config}: good: {len(receivers)} receiver(s)")
        return
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s")
    asyncio.run(run(settings, receivers))
