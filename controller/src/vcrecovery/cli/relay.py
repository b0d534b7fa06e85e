"""`vcrecovery relay`."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path

import click

from vcrecovery.cli.options import plan_option, read_plan
from vcrecovery.cli.systemd import tell_systemd
from vcrecovery.relay.relay import Relay


@click.command()
@click.option("--verbose", is_flag=True, help="Also log what could not be read, and why.")
@plan_option
def relay(verbose: bool, plan_path: Path) -> None:
    """Relay what the hypervisors' SNMP agents report to Zabbix: states, CPU, heartbeats."""
    level = logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)-7s %(message)s")
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    asyncio.run(_run(Relay(read_plan(plan_path))))


async def _run(relay: Relay) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await relay.run(stop, ready=lambda: tell_systemd("READY=1"))
