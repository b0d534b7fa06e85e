"""Who may be heard: looks at a datagram before pysnmp does. Pure, and cheap enough for a storm.

Its order is that of its cost: the sender's address, how often it sends, then whether the message is genuine. pysnmp
(7.1) does not ask traps of other engines for authentication, takes replayed ones, and remembers something of each
message that it rejects; so only messages that are authenticated, private and fresh reach it, and the questions by
which senders of informs find out the relay's engine ID and clock.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from vcrecovery.relay.ber import Community, MalformedError, Usm, envelope
from vcrecovery.relay.counts import Reason
from vcrecovery.relay.usm import Master

#: RFC 3414, 2.2.3: seconds.
TIME_WINDOW = 150
#: So many traps of an agent are remembered, so that none is taken twice. Only informs are sent again.
_REMEMBERED = 1024
#: Of so many datagrams one may ask for the engine ID: nothing shows whether such a question is genuine.
_DISCOVERIES = 10
_SNMP_V2C = 1


class Pass(Enum):
    NOTIFICATION = "authenticated"
    DISCOVERY = "asks for the engine ID"


class Bucket:
    """`rate` tokens a second, and as many at once."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._tokens = float(rate)
        self._at = float("-inf")

    def take(self, now: float) -> bool:
        self._tokens = min(float(self._rate), self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


@dataclass
class _Engine:
    """An agent's engine, as its authenticated answers have it. Times are its own."""

    id: bytes
    key: bytes
    boots: int = 0
    time: int = 0
    heard: dict[bytes, None] = field(default_factory=dict)


class Source:
    """A hypervisor: its user, and what is known of its engine."""

    def __init__(self, name: str, user: str, master: Master, rate: int) -> None:
        self.name = name
        self.user = user.encode()
        self.master = master
        self.bucket = Bucket(rate)
        self.discoveries = Bucket(max(1, rate // _DISCOVERIES))
        self.engine: _Engine | None = None

    def answered(self, engine_id: bytes, boots: int, time: int) -> bool:
        """An authenticated answer of the agent came. True if its engine is new."""
        if self.engine is not None and self.engine.id == engine_id:
            self.engine.boots, self.engine.time = max((self.engine.boots, self.engine.time), (boots, time))
            return False
        self.engine = _Engine(engine_id, self.master.localized(engine_id), boots, time)
        return True


class Guard:
    """`community` is that of SNMPv2c traps; None: none are taken."""

    def __init__(self, sources: Mapping[str, Source], own_engine: bytes, community: bytes | None) -> None:
        self._sources = sources
        self._own_engine = own_engine
        self._community = community
        self._own_keys = {address: source.master.localized(own_engine) for address, source in sources.items()}

    def judge(self, data: bytes, address: str, now: float) -> Pass | Reason:
        """`now` is a monotonic clock, in seconds."""
        source = self._sources.get(address)
        if source is None:
            return Reason.STRANGER
        if not source.bucket.take(now):
            return Reason.RATE
        try:
            message = envelope(data)
        except MalformedError:
            return Reason.ENCODING
        if isinstance(message, Community):
            expected = self._community
            genuine = expected is not None and hmac.compare_digest(message.community, expected)
            return Pass.NOTIFICATION if genuine and message.version == _SNMP_V2C else Reason.CREDENTIALS
        if not message.authenticated:
            if message.engine_id or message.private:
                return Reason.CREDENTIALS
            return Pass.DISCOVERY if source.discoveries.take(now) else Reason.RATE
        return self._judge_usm(data, message, source, self._own_keys[address])

    def _judge_usm(self, data: bytes, message: Usm, source: Source, own_key: bytes) -> Pass | Reason:
        if message.user != source.user:
            return Reason.USER
        if not message.private:
            return Reason.CREDENTIALS
        if message.engine_id == self._own_engine:
            # An inform: pysnmp compares its time with the relay's own, and tells the sender if it is wrong.
            genuine = source.master.signed(own_key, data, message.digest, message.digest_at)
            return Pass.NOTIFICATION if genuine else Reason.CREDENTIALS
        engine = source.engine
        if engine is None or message.engine_id != engine.id:
            return Reason.ENGINE
        if not source.master.signed(engine.key, data, message.digest, message.digest_at):
            return Reason.CREDENTIALS
        if (message.boots, message.time) < (engine.boots, engine.time - TIME_WINDOW) or message.digest in engine.heard:
            return Reason.LATE
        engine.heard[message.digest] = None
        if len(engine.heard) > _REMEMBERED:
            del engine.heard[next(iter(engine.heard))]
        source.answered(engine.id, message.boots, message.time)
        return Pass.NOTIFICATION
