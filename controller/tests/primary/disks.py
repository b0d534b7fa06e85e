"""Real file systems in files, for tests: attached, mounted, and gone again."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest


def command(*words: str | Path, check: bool = True) -> str:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=60, check=False)
    assert not check or done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def need_root() -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")


@contextmanager
def loop_device(mebibytes: int) -> Iterator[str]:
    """A disk of that size, in a file called vcrt-*."""
    need_root()
    with tempfile.NamedTemporaryFile(prefix="vcrt-", suffix=".img") as disk:
        disk.truncate(mebibytes << 20)
        device = command("losetup", "--find", "--show", disk.name).strip()
        try:
            yield device
        finally:
            command("losetup", "--detach", device)


def unmount(place: Path) -> None:
    """Unmounts it, and what a test has mounted below.

    A process that was killed while it wrote may hold its files for a while longer: the kernel ends its I/O first.
    """
    deadline = time.monotonic() + 120
    while True:
        said = subprocess.run(
            ["umount", "--recursive", place], capture_output=True, text=True, timeout=60, check=False
        ).stderr
        if "busy" not in said or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    assert not said, said


@contextmanager
def mounted(device: str, place: Path, *options: str) -> Iterator[Path]:
    place.mkdir(exist_ok=True)
    command("mount", *options, device, place)
    try:
        yield place
    finally:
        unmount(place)


@contextmanager
def file_system(
    kind: str, place: Path, mebibytes: int, make: Sequence[str] = (), mount: Sequence[str] = ()
) -> Iterator[Path]:
    """A new file system, mounted there."""
    with loop_device(mebibytes) as device:
        command(f"mkfs.{kind}", "-q", *make, device)
        with mounted(device, place, *mount):
            yield place
