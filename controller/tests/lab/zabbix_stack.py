"""Fixtures: the real Zabbix, up for the tests of one module. A start takes a second, so modules share none."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vcrecovery_lab.progress import stderr_progress
from vcrecovery_lab.zabbix import Stack, zabbix

VERSIONS = ("7.0", "6.0")


@contextmanager
def throwaway_folder() -> Iterator[Path]:
    """Short, and in reach of the user that Zabbix runs as: `tmp_path` is neither."""
    folder = Path(tempfile.mkdtemp(prefix="vcrlab-zabbix-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@contextmanager
def throwaway_zabbix(version: str) -> Iterator[Stack]:
    """One of a test's own."""
    with throwaway_folder() as folder, zabbix(version, folder, progress=stderr_progress) as stack:
        yield stack


@pytest.fixture(scope="module")
def zabbix70() -> Iterator[Stack]:
    with throwaway_zabbix("7.0") as stack:
        yield stack


@pytest.fixture(scope="module")
def zabbix60() -> Iterator[Stack]:
    with throwaway_zabbix("6.0") as stack:
        yield stack


@pytest.fixture(scope="module", params=VERSIONS)
def zabbix_each(request: pytest.FixtureRequest) -> Iterator[Stack]:
    """Every test that uses it runs with each version."""
    with throwaway_zabbix(request.param) as stack:
        yield stack
