"""An offer file of AWS, member by member: one may have several GB, and is never in memory as a whole."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import ijson

from vcrecovery.errors import UsageError

Event = tuple[str, Any]
#: Bytes. ijson keeps what it finds in one piece until all of it was taken.
_PIECE = 16 * 1024
#: A value of an offer file has four levels at the most.
_DEEPEST = 20
#: `tell` is called after each of these parts of the file, in percent.
_STEP = 10
#: What ijson says of bytes that are no JSON, of a number that Python refuses to read, and of one too great for it.
_NO_JSON = (ijson.JSONError, ValueError, ArithmeticError, SystemError)
AGAIN = "download AWS's index.json again"


class Identity(NamedTuple):
    """By these a file is known to be the one that was read before."""

    size: int
    mtime_ns: int


class Member(NamedTuple):
    """`section`: products, or a kind of term such as OnDemand; empty for what the file says of itself."""

    section: str
    key: str
    value: Any


def identity(path: Path) -> Identity:
    """Raises UsageError when it is no file, or cannot be read."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise UsageError(f"offer file {path} is no file", "correct `costs.prices`")
    except OSError as error:
        raise _unreadable(path, error) from error
    return Identity(found.st_size, found.st_mtime_ns)


def members(path: Path, wants: Callable[[str], bool], tell: Callable[[str], None]) -> Iterator[Member]:
    """What the file says of itself, each product, and each term whose SKU one `wants`, in the order of the file.

    `tell`: how far it is. Raises UsageError when it cannot be read, is cut off or no JSON, has another form, or has
    changed meanwhile.
    """
    # Before it is opened: whoever opens a pipe waits for a writer.
    before = identity(path)
    try:
        file = path.open("rb")
    except OSError as error:
        raise _unreadable(path, error) from error
    with file:
        read = _Pieces(path, file, before.size, tell)
        try:
            yield from _Walk(path, ijson.basic_parse(read, buf_size=_PIECE)).members(wants)
        except _NO_JSON as error:
            read.check_unchanged(before)
            raise read.no_json(error) from error
        read.check_unchanged(before)


class _Pieces:
    """The file as ijson reads it, which tells how far that is."""

    def __init__(self, path: Path, file: BinaryIO, size: int, tell: Callable[[str], None]) -> None:
        self._path, self._file, self._size, self._tell = path, file, size, tell
        self._at = self._told = 0
        self._begin = b""

    def read(self, count: int) -> bytes:
        try:
            piece = self._file.read(count)
        except OSError as error:
            raise _unreadable(self._path, error) from error
        self._begin = self._begin or piece[:2]
        self._at += len(piece)
        if self._percent >= self._told + _STEP:
            self._told = self._percent
            self._tell(f"{self._path}: {self._told} % read")
        return piece

    @property
    def _percent(self) -> int:
        return min(100, 100 * self._at // max(1, self._size)) // _STEP * _STEP

    def check_unchanged(self, before: Identity) -> None:
        """Raises UsageError."""
        now = os.fstat(self._file.fileno())
        if before != Identity(now.st_size, now.st_mtime_ns):
            raise UsageError(
                f"offer file {self._path} has changed while it was read", "run this again once its download has ended"
            )

    def no_json(self, error: Exception) -> UsageError:
        if not self._size:
            return UsageError(f"offer file {self._path} is empty", AGAIN)
        if self._begin == b"\x1f\x8b":
            return UsageError(f"offer file {self._path} is compressed", "unpack it with `gunzip`")
        # In these words: ijson has no kind of its own for it.
        if "premature EOF" in str(error) or "Incomplete" in str(error):
            return UsageError(f"offer file {self._path} is cut off after {self._size:,} bytes", AGAIN)
        return UsageError(
            f"offer file {self._path} is not JSON, within its first {self._at:,} bytes",
            "download AWS's index.json, not its index.csv",
        )


class _Walk:
    """Goes through the events of JSON once."""

    def __init__(self, path: Path, events: Iterator[Event]) -> None:
        self._path, self._events = path, events

    def members(self, wants: Callable[[str], bool]) -> Iterator[Member]:
        self._enter("as a whole")
        for key in self._keys():
            if key == "products":
                self._enter(key)
                for sku in self._keys():
                    yield Member(key, sku, self._value())
            elif key == "terms":
                self._enter(key)
                for kind in self._keys():
                    self._enter(kind)
                    for sku in self._keys():
                        if wants(sku):
                            yield Member(kind, sku, self._value())
                        else:
                            self._value(keep=False)
            else:
                yield Member("", key, self._value(keep=False))
        # What follows its end is a mistake that ijson reports.
        for _ in self._events:
            pass

    def _keys(self) -> Iterator[str]:
        """Of the mapping that was entered. Whoever gets one takes its value before the next."""
        for event, key in self._events:
            if event == "end_map":
                return
            yield key

    def _enter(self, what: str) -> None:
        if next(self._events)[0] != "start_map":
            raise self._other(f"{what} is no mapping")

    def _value(self, *, keep: bool = True) -> Any:
        """The next one; None for a list: nothing that counts stands in one. `keep`: whether a mapping is wanted."""
        event, value = next(self._events)
        if event == "start_map" and keep:
            return self._mapping()
        if event in ("start_map", "start_array"):
            self._skip()
            return None
        return value

    def _mapping(self) -> dict[str, Any]:
        whole: dict[str, Any] = {}
        around: list[dict[str, Any]] = []
        here, key = whole, ""
        for event, value in self._events:
            if event == "map_key":
                key = value
            elif event == "string":
                here[key] = value
            elif event == "start_map":
                around.append(here)
                if len(around) > _DEEPEST:
                    raise self._other(f"{key!r:.40} is nested too deeply")
                inner: dict[str, Any] = {}
                here[key] = inner
                here = inner
            elif event == "end_map":
                if not around:
                    break
                here = around.pop()
            elif event == "start_array":
                self._skip()
            else:
                here[key] = value
        return whole

    def _skip(self) -> None:
        depth = 1
        for event, _ in self._events:
            if event in ("start_map", "start_array"):
                depth += 1
            elif event in ("end_map", "end_array"):
                depth -= 1
                if not depth:
                    return

    def _other(self, what: str) -> UsageError:
        return UsageError(f"offer file {self._path} has another form than AWS's: {what}", AGAIN)


def _unreadable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"offer file {path} cannot be read: {error.strerror}", "correct `costs.prices`, or its rights")
