"""A sender that speaks rsync's own protocol (29, the last plain one) and lies: its file list is made by hand."""

from __future__ import annotations

import stat
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import IO

PROTOCOL = 29
#: Owners as numbers, links, hard links, devices and FIFOs; directories are never walked, so every name is ours.
COMMAND = "rsync --server -lHDtpre.LsfxC --numeric-ids . /"
#: The same, with names that are taken as they are.
RELATIVE = "rsync --server -lHDtpRre.LsfxC --numeric-ids . /"
_LONG_NAME, _EXTENDED, _HARD_LINK = 1 << 6, 1 << 2, 1 << 9
_TRANSFER, _BASIS_FOLLOWS, _NAME_FOLLOWS = 1 << 15, 1 << 11, 1 << 12
_TIME, _LARGEST = 1_000_000_000, (1 << 31) - 1
_PHASES = 3


@dataclass(frozen=True)
class Entry:
    """A line of the file list. Those with the same `hard_link` are said to be one file."""

    name: bytes
    content: bytes = b""
    mode: int = stat.S_IFREG | 0o644
    target: bytes = b""
    device: tuple[int, int] = (0, 0)
    hard_link: int = 0
    #: What the list says of it; else its content's.
    size: int | None = None

    def encoded(self) -> bytes:
        flags = _LONG_NAME | (_EXTENDED | _HARD_LINK if self.hard_link else 0)
        out = struct.pack("<H", flags) if self.hard_link else struct.pack("B", flags)
        size = self.size or len(self.target if stat.S_ISLNK(self.mode) else self.content)
        out += struct.pack("<i", len(self.name)) + self.name
        out += struct.pack("<i", size) if size <= _LARGEST else struct.pack("<iq", -1, size)
        out += struct.pack("<ii", _TIME, self.mode)
        if stat.S_IFMT(self.mode) in (stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK):
            out += struct.pack("<ii", *self.device)
        if stat.S_ISLNK(self.mode):
            out += struct.pack("<i", len(self.target)) + self.target
        if self.hard_link:
            out += struct.pack("<ii", 1, self.hard_link)
        return out


def directory(name: bytes) -> Entry:
    return Entry(name, mode=stat.S_IFDIR | 0o755)


def link(name: bytes, target: bytes) -> Entry:
    return Entry(name, mode=stat.S_IFLNK | 0o777, target=target)


TOP = directory(b".")


def send(entries: Sequence[Entry], to: IO[bytes], answers: IO[bytes]) -> None:
    """Until the receiver hangs up. `entries` are in rsync's order: a folder's files come before its folders."""
    try:
        to.write(struct.pack("<i", PROTOCOL))
        to.flush()
        _version, seed = struct.unpack("<ii", _exactly(answers, 8))
        # No more entries, and no error.
        to.write(b"".join(entry.encoded() for entry in entries) + b"\0" + struct.pack("<i", 0))
        asked, phases = _Asked(answers, to), 0
        while True:
            (index,) = struct.unpack("<i", asked.read(4))
            if index < 0:
                phases += 1
                # A fourth end is the receiver's farewell, to which there is no answer.
                if phases <= _PHASES:
                    to.write(struct.pack("<i", -1))
            else:
                _answer(entries[index], index, seed, asked, to)
    except (EOFError, BrokenPipeError, ConnectionResetError, IndexError):
        return


def _answer(entry: Entry, index: int, seed: int, asked: _Asked, to: IO[bytes]) -> None:
    (flags,) = struct.unpack("<H", asked.read(2))
    if flags & _BASIS_FOLLOWS:
        asked.read(1)
    if flags & _NAME_FOLLOWS:
        (length,) = asked.read(1)
        asked.read(length if length < 0x80 else (length & 0x7F) << 8 | asked.read(1)[0])
    if not flags & _TRANSFER:
        return
    head = asked.read(16)
    count, _, length, _ = struct.unpack("<iiii", head)
    asked.read(count * (4 + length))
    to.write(struct.pack("<iH", index, flags & ~(_BASIS_FOLLOWS | _NAME_FOLLOWS)) + struct.pack("<iiii", 0, 0, 0, 0))
    if entry.content:
        to.write(struct.pack("<i", len(entry.content)) + entry.content)
    to.write(struct.pack("<i", 0) + md4(struct.pack("<i", seed) + entry.content))


class _Asked:
    """What the receiver says in its stream of many messages, without what it tells the user."""

    def __init__(self, stream: IO[bytes], to: IO[bytes]) -> None:
        self._stream, self._to, self._kept = stream, to, b""

    def read(self, count: int) -> bytes:
        while len(self._kept) < count:
            self._to.flush()
            (head,) = struct.unpack("<I", _exactly(self._stream, 4))
            said = _exactly(self._stream, head & 0xFFFFFF)
            if head >> 24 == 7:
                self._kept += said
        found, self._kept = self._kept[:count], self._kept[count:]
        return found


def _exactly(stream: IO[bytes], count: int) -> bytes:
    found = b""
    while len(found) < count:
        if not (more := stream.read(count - len(found))):
            raise EOFError
        found += more
    return found


@lru_cache(16)
def md4(data: bytes) -> bytes:
    """RFC 1320: today's libraries leave it out, and this protocol's files are refused without it."""
    mask = 0xFFFFFFFF
    state = [0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476]
    padded = data + b"\x80" + b"\0" * ((55 - len(data)) % 64) + struct.pack("<Q", 8 * len(data))
    for start in range(0, len(padded), 64):
        words = struct.unpack("<16I", padded[start : start + 64])
        a, b, c, d = state
        for f, word, shift in _steps(words):
            chosen = (b & c | ~b & d, b & c | b & d | c & d, b ^ c ^ d)[f]
            total = (a + chosen + word + (0, 0x5A827999, 0x6ED9EBA1)[f]) & mask
            a, b, c, d = d, (total << shift | total >> 32 - shift) & mask, b, c
        state = [(old + new) & mask for old, new in zip(state, (a, b, c, d), strict=True)]
    return struct.pack("<4I", *state)


def _steps(words: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    rounds = (
        (range(16), (3, 7, 11, 19)),
        ([4 * (i % 4) + i // 4 for i in range(16)], (3, 5, 9, 13)),
        ([0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15], (3, 9, 11, 15)),
    )
    for number, (order, shifts) in enumerate(rounds):
        for place, index in enumerate(order):
            yield number, words[index], shifts[place % 4]
