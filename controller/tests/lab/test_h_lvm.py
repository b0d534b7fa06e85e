"""Syncs from snapshots of logical volumes, in a VM: not every kernel that runs these tests has a device mapper."""

from __future__ import annotations

from pathlib import Path

import pytest

from vcrecovery_lab.image import DEFAULT_CACHE, ensure_image
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.progress import silent_progress

from .throwaway_vm import run_in_vm

pytestmark = pytest.mark.lab
_MODULES = ("dm_mod", "dm_snapshot", "dm_thin_pool", "loop", "xfs")


def test_lvm(tmp_path: Path) -> None:
    image = ensure_image(DEFAULT_CACHE, silent_progress)
    command = (
        f"cd {CHECKOUT}/controller && {CHECKOUT}/.venv/bin/pytest -q -rA --color=no --tb=short -p no:cacheprovider "
        "-o timeout=100 tests/primary/test_consistency_lvm.py --durations=5"
    )
    status, output = run_in_vm(image, command, _MODULES, tmp_path, 400)
    assert status == 0, output[-6000:]
    assert "skipped" not in output
