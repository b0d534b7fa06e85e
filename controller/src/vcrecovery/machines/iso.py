"""A disk that cloud-init reads: ISO 9660 with a few files in its root, and nothing else.

Linux shows the names of such a disk in small letters, whatever they are there.
"""

from __future__ import annotations

import struct
from typing import List, Mapping

_SECTOR = 2048
#: Where things are, in sectors: the first 16 are not the file system's.
_DESCRIPTOR, _PATHS, _PATHS_BIG_ENDIAN, _ROOT, _FILES = 16, 18, 19, 20, 21
_FOLDER = 2


def iso(label: str, files: Mapping[str, bytes]) -> bytes:
    """The whole disk. `files`: by names of small letters and hyphens, as many as fit one sector (some 30)."""
    records, contents, sector = (
        [_record(b"\0", _ROOT, _SECTOR, _FOLDER), _record(b"\1", _ROOT, _SECTOR, _FOLDER)],
        [],
        _FILES,
    )
    for name, content in sorted(files.items()):
        records.append(_record(f"{name.upper()}.;1".encode("ascii"), sector, len(content), 0))
        contents.append(_padded(content))
        sector += len(contents[-1]) // _SECTOR
    root = b"".join(records)
    if len(root) > _SECTOR:
        raise ValueError("too many files for one sector")
    parts: List[bytes] = [
        bytes(_DESCRIPTOR * _SECTOR),
        _descriptor(label, sector),
        _padded(b"\xffCD001\x01"),
        _padded(struct.pack("<BBIH2x", 1, 0, _ROOT, 1)),
        _padded(struct.pack(">BBIH2x", 1, 0, _ROOT, 1)),
        _padded(root),
        *contents,
    ]
    return b"".join(parts)


def _descriptor(label: str, sectors: int) -> bytes:
    never = b"0" * 16 + b"\0"
    return _padded(
        b"".join(
            [
                b"\x01CD001\x01\0",
                b" " * 32,  # system
                label.encode("ascii").ljust(32),
                bytes(8),
                _both("I", sectors),
                bytes(32),
                _both("H", 1),
                _both("H", 1),
                _both("H", _SECTOR),
                _both("I", 10),  # bytes of a path table
                struct.pack("<II", _PATHS, 0),
                struct.pack(">II", _PATHS_BIG_ENDIAN, 0),
                _record(b"\0", _ROOT, _SECTOR, _FOLDER),
                b" " * (4 * 128 + 3 * 37),  # who has made it, with what
                never * 4,
                b"\x01",
            ]
        )
    )


def _record(name: bytes, sector: int, size: int, flags: int) -> bytes:
    """Of a file or folder. Without a date: the same files are the same disk."""
    body = b"".join(
        [
            b"\0",
            _both("I", sector),
            _both("I", size),
            bytes(7),
            bytes([flags, 0, 0]),
            _both("H", 1),
            bytes([len(name)]),
            name,
        ]
    )
    body += b"\0" * ((len(body) + 1) % 2)
    return bytes([len(body) + 1]) + body


def _both(kind: str, number: int) -> bytes:
    """Both byte orders."""
    return struct.pack(f"<{kind}", number) + struct.pack(f">{kind}", number)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % _SECTOR)
