"""Syncs from snapshots of logical volumes, in VMs: not every kernel that runs these tests has a device mapper."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from vcrecovery_lab.image import DEFAULT_CACHE, ensure_image
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.progress import silent_progress

from .throwaway_vm import run_in_vm

pytestmark = [pytest.mark.lab, pytest.mark.at_length, pytest.mark.timeout(1200)]
_MODULES = ("dm_mod", "dm_snapshot", "dm_thin_pool", "loop", "xfs")
#: Two VMs at once, each with its half: an emulated one is slow, and seldom has work for two processors.
_HALVES = ("one_moment", "not one_moment")


def test_lvm(tmp_path: Path) -> None:
    image = ensure_image(DEFAULT_CACHE, silent_progress)
    # Neither plugins nor rewritten assertions, which take an emulated processor a while.
    command = (
        f"cd {CHECKOUT}/controller && PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {CHECKOUT}/.venv/bin/pytest -q -rA --color=no "
        "--tb=short --assert=plain -p no:cacheprovider -p pytest_timeout -o timeout=400 "
        "tests/primary/test_consistency_lvm.py --durations=5 -k"
    )

    def half(number: int) -> tuple[int, str]:
        folder = tmp_path / str(number)
        folder.mkdir()
        return run_in_vm(image, f"{command} '{_HALVES[number]}'", _MODULES, folder, 1000)

    with ThreadPoolExecutor(len(_HALVES)) as pool:
        for status, output in pool.map(half, range(len(_HALVES))):
            assert status == 0, output[-6000:]
            assert "skipped" not in output
