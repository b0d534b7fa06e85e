"""The files of lxcfs that a container is to see: those that Debian's hook would mount."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from vcrecovery.standby import lxcfs


def test_each_file_is_mounted_where_the_hook_would(tmp_path: Path) -> None:
    for name in ("proc/meminfo", "proc/cpuinfo", "sys/devices/system/cpu/online"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    online = "sys/devices/system/cpu/online"
    assert lxcfs.lines(lxcfs.files(tmp_path), tmp_path) == [
        "lxc.hook.mount =",
        f"lxc.mount.entry = {tmp_path}/proc/cpuinfo proc/cpuinfo none bind,optional 0 0",
        f"lxc.mount.entry = {tmp_path}/proc/meminfo proc/meminfo none bind,optional 0 0",
        f"lxc.mount.entry = {tmp_path}/{online} {online} none bind,optional 0 0",
    ]
    (tmp_path / "sys/devices/system/cpu/uevent").touch()
    assert lxcfs.files(tmp_path)[-2:] == ["proc/meminfo", "sys/devices/system/cpu"]


def test_an_lxcfs_that_has_crashed_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_path: Path, _pattern: str) -> list[Path]:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    monkeypatch.setattr(Path, "glob", gone)
    assert lxcfs.files(tmp_path) == []


def test_without_lxcfs_the_hook_is_left_alone(tmp_path: Path) -> None:
    assert lxcfs.lines(lxcfs.files(tmp_path), tmp_path) == []
