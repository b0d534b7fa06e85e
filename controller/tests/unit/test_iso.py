"""The disk that cloud-init reads, as its standard (ECMA-119) has it."""

from __future__ import annotations

import struct

import pytest

from vcrecovery.machines.iso import iso

SECTOR = 2048


def files_of(disk: bytes) -> dict[str, bytes]:
    """By the records of the root folder, which the volume's descriptor names."""
    descriptor = disk[16 * SECTOR : 17 * SECTOR]
    assert descriptor[:6] == b"\x01CD001"
    assert struct.unpack_from("<I", descriptor, 80) == struct.unpack_from(">I", descriptor, 84)
    assert struct.unpack_from("<I", descriptor, 80)[0] * SECTOR == len(disk)
    place, size = struct.unpack_from("<I4xI", descriptor, 156 + 2)
    folder, found = disk[place * SECTOR : place * SECTOR + size], {}
    while folder[0]:
        record, folder = folder[: folder[0]], folder[folder[0] :]
        assert len(record) % 2 == 0
        assert record[2:6] == record[6:10][::-1]
        place, size = struct.unpack_from("<I4xI", record, 2)
        found[record[33 : 33 + record[32]].decode()] = disk[place * SECTOR : place * SECTOR + size]
    assert found.pop("\0")[: len(record)] == found.pop("\1")[: len(record)]
    return found


def test_its_files_are_there() -> None:
    files = {"user-data": b"#cloud-config\n" + b"x" * 5000, "meta-data": b"{}\n", "network-config": b""}
    disk = iso("cidata", files)
    assert disk[16 * SECTOR + 40 :][:32] == b"cidata".ljust(32)
    assert files_of(disk) == {f"{name.upper()}.;1": content for name, content in files.items()}


def test_the_same_files_are_the_same_disk() -> None:
    assert iso("cidata", {"a": b"1", "b": b"2"}) == iso("cidata", {"b": b"2", "a": b"1"})


def test_no_more_files_than_fit() -> None:
    with pytest.raises(ValueError, match="too many files"):
        iso("cidata", {f"file-{number}": b"" for number in range(60)})
