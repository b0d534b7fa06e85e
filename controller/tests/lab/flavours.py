"""LXD or Incus: tests that are played with both, and those that `make test-incus` plays with the second."""

from __future__ import annotations

import os

import pytest

from vcrecovery_lab import container_programs
from vcrecovery_lab.container_programs import Programs
from vcrecovery_lab.run import LabError

EACH = LXD, INCUS = "lxd", "incus"
#: Names the one of the small sites.
VARIABLE = "VCRECOVERY_LAB_CONTAINERS"


def chosen() -> Programs:
    """LXD, but where the variable says the other one."""
    return programs_of(os.environ.get(VARIABLE, LXD))


def programs_of(flavour: str) -> Programs:
    """Skips the test where Incus cannot be had: the first run downloads it."""
    if flavour == LXD:
        return container_programs.LXD
    try:
        return container_programs.incus()
    except LabError as error:
        if "VCRECOVERY_SKIP_NOTHING" in os.environ:
            raise
        pytest.skip(f"no Incus: {error}")
