"""Fills a standby from a tree that is already here, such as the one that the VM's image was made from.

Over a thin line this saves the first full sync. It goes through the receiver, so that owners are mapped and nothing
outside the standby can be written.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from vcrecovery.drivers.process import run
from vcrecovery.errors import UsageError
from vcrecovery.excludes.errors import ExcludeError
from vcrecovery.excludes.selection import Selection
from vcrecovery.excludes.service import service_rules
from vcrecovery.plan.model import Plan, Service
from vcrecovery.primary.transfer import KEPT


def selection_of(service: Service) -> Selection:
    """What the exclude list of a service is made from."""
    return Selection(
        packages=tuple(service.sync.exclude_packages),
        keep=tuple(service.sync.keep_packages),
        profile=service.sync.exclude_profile,
        paths=tuple(service.sync.left_out),
        host_keys=service.standby.host_keys,
    )


def seed(plan: Plan, service: str, source: Path, timeout: float = 3600.0) -> None:
    """Copies `source` into the standby, but for what a sync leaves out.

    Raises ExternalError when rsync or the receiver fails, UsageError when the packages of `source` cannot be read.
    """
    entry = plan.services[service]
    try:
        rules = service_rules(source, selection_of(entry), ["rsync"])["rsync"]
    except ExcludeError as error:
        raise UsageError(f"--from {source}: {error}") from error
    program = [sys.executable, "-m", "vcrecovery", "receive"]
    receiver = [*program, "--state-dir", str(plan.state_dir), "--local", "--seeds", service]
    # The list comes through a pipe: a file of it would be left when we are killed.
    command = ["rsync", *KEPT, "--delete", "--force", "--exclude-from=-", "-e", shlex.join(receiver)]
    run([*command, f"{source}/", "standby:/"], timeout=timeout, stdin=rules, outlives_us=False)
    done = plan.state_dir / "seeded"
    done.mkdir(exist_ok=True)
    (done / service).touch()
