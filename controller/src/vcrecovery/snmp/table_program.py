"""The `pass_persist` program: libvirt on one side, snmpd on the other."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Sequence
from logging.handlers import SysLogHandler
from typing import BinaryIO
from uuid import UUID

from vcrecovery.snmp.mib import Oid
from vcrecovery.snmp.pass_persist import serve
from vcrecovery.snmp.samples import Samples
from vcrecovery.snmp.table import Row, Tree, tree_of

#: libvirt's keep-alive ends a call into a daemon that hangs, and a restart ends one that waits for it. Nobody waits
#: here meanwhile, so this only bounds how many threads such a daemon can leave behind.
GIVE_UP = 600.0


def keep_answers_clean() -> None:
    """snmpd reads this program's standard error as answers too. What is to be said goes to syslog, where there is one.

    libvirt's own complaints and Python's would be lies about VMs.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    handler: logging.Handler = logging.NullHandler()
    with contextlib.suppress(OSError):
        handler = SysLogHandler("/dev/log", SysLogHandler.LOG_DAEMON)
        handler.setFormatter(logging.Formatter("vcrecovery-snmp-agent[%(process)d]: %(message)s"))
    logging.basicConfig(handlers=[handler])


def libvirt_rows(uri: str) -> Callable[[], Sequence[Row]]:
    """Reads the rows from libvirt, read-only: that needs no rights on the hypervisor, and can change nothing."""
    hosts: list[Callable[[], Sequence[Row]]] = []

    def connect() -> Callable[[], Sequence[Row]]:
        # Imported in the thread that reads: snmpd waits for this program's first word.
        from vcrecovery.drivers.libvirt import LibvirtHost

        host = LibvirtHost("here", uri, GIVE_UP, read_only=True)
        return lambda: [
            Row(UUID(g.uuid), g.name, g.state, g.vcpus, g.memory, g.memory_limit, g.cpu_time) for g in host.guests()
        ]

    def read() -> Sequence[Row]:
        if not hosts:
            hosts.append(connect())
        return hosts[0]()

    return read


def serve_table(
    read: Callable[[], Sequence[Row]], host: str, enterprise: Oid, requests: BinaryIO, answers: BinaryIO
) -> None:
    """Serves the table until snmpd closes its end."""
    samples = Samples(read)
    samples.ask()
    known: tuple[Sequence[Row] | None, Tree] = (None, tree_of(None, host, enterprise))

    def tree() -> Tree:
        nonlocal known
        rows = samples.newest()
        if rows is not known[0]:
            known = rows, tree_of(rows, host, enterprise)
        return known[1]

    serve(requests, answers, tree)
