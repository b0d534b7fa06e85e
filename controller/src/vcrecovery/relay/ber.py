"""The outer parts of an SNMP message, as far as they say who sent it. Pure.

RFC 3412 (SNMPv3), RFC 3414 (the security parameters), RFC 1901 (SNMPv2c). Nothing inside the PDU is looked at here.
Our own, since pysnmp reads the whole of a message before one can drop it for its sender.
"""

from __future__ import annotations

from dataclasses import dataclass

_INTEGER, _OCTETS, _SEQUENCE = 0x02, 0x04, 0x30
_USM = 3
_INT_MAX = 2**31 - 1


class MalformedError(ValueError):
    """These bytes are no SNMP message."""


@dataclass(frozen=True)
class Community:
    """A message of SNMPv1 (version 0) or SNMPv2c (version 1)."""

    version: int
    community: bytes


@dataclass(frozen=True)
class Usm:
    """A message of SNMPv3 with the user-based security model. `digest_at` is where `digest` begins in the message."""

    authenticated: bool
    private: bool
    engine_id: bytes
    boots: int
    time: int
    user: bytes
    digest: bytes
    digest_at: int


class _Reader:
    """Goes through one level of TLVs. Raises MalformedError."""

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self._data, self.at, self._end = data, at, end

    def next(self, tag: int) -> tuple[int, int]:
        """Where the content of the next TLV begins and ends."""
        data, at = self._data, self.at
        if at + 2 > self._end or data[at] != tag:
            raise MalformedError
        length, at = data[at + 1], at + 2
        if length & 0x80:
            size = length & 0x7F
            if not 1 <= size <= 4 or at + size > self._end:
                raise MalformedError
            length, at = int.from_bytes(data[at : at + size], "big"), at + size
        if at + length > self._end:
            raise MalformedError
        self.at = at + length
        return at, self.at

    def inside(self, tag: int) -> _Reader:
        return _Reader(self._data, *self.next(tag))

    def octets(self) -> bytes:
        begin, end = self.next(_OCTETS)
        return self._data[begin:end]

    def number(self) -> int:
        begin, end = self.next(_INTEGER)
        if not 1 <= end - begin <= 5:
            raise MalformedError
        value = int.from_bytes(self._data[begin:end], "big", signed=True)
        if not 0 <= value <= _INT_MAX:
            raise MalformedError
        return value

    def must_end(self) -> None:
        if self.at != self._end:
            raise MalformedError


def envelope(data: bytes) -> Community | Usm:
    """Raises MalformedError."""
    whole = _Reader(data, 0, len(data))
    message = whole.inside(_SEQUENCE)
    whole.must_end()
    version = message.number()
    if version in (0, 1):
        return Community(version, message.octets())
    if version != 3:
        raise MalformedError
    header = message.inside(_SEQUENCE)
    header.number()  # the message's number
    header.number()  # the largest answer
    flags = header.octets()
    if len(flags) != 1 or header.number() != _USM:
        raise MalformedError
    parameters = message.inside(_OCTETS)
    fields = parameters.inside(_SEQUENCE)
    parameters.must_end()
    engine_id, boots, time, user = fields.octets(), fields.number(), fields.number(), fields.octets()
    begin, end = fields.next(_OCTETS)
    fields.octets()  # the salt
    fields.must_end()
    return Usm(bool(flags[0] & 1), bool(flags[0] & 2), engine_id, boots, time, user, data[begin:end], begin)
