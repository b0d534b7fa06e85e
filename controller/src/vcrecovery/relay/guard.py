"""Who may be heard: looks at a datagram before pysnmp does. Pure, and cheap enough for a storm.

Its order is that of its cost: the sender's address, how often it sends, then whether the message is genuine. pysnmp
(7.1) does not ask traps of other engines for authentication, takes replayed ones, and remembers something of each
message that it rejects; so only messages that are authenticated, private and fresh reach it, and the questions by
which senders of informs find out the relay's engine ID and clock. Each message reaches it once: what was heard before
is told apart here by its digest, which nobody without the passphrase can make anew.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from enum import Enum

from vcrecovery.relay.ber import Community, MalformedError, Usm, envelope
from vcrecovery.relay.counts import Reason
from vcrecovery.relay.own_engine import PREFIX, OwnEngine
from vcrecovery.relay.usm import Master

#: RFC 3414, 2.2.3: seconds.
TIME_WINDOW = 150
#: So many messages of a hypervisor are remembered, so that none is taken twice. What is older than all of them is late.
_REMEMBERED = 1024
#: Of so many datagrams one may ask for the engine ID: nothing shows whether such a question is genuine.
_DISCOVERIES = 10
_SNMP_V2C = 1


class Pass(Enum):
    NOTIFICATION = "authenticated"
    DISCOVERY = "asks for the engine ID or the clock"
    #: It is not taken, and its sender is told the clock.
    LATE = "an inform of another time"
    #: It is not taken, and is answered as before: the first answer may be lost.
    REPEATED = "an inform that was heard before"


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


#: An engine's boots and seconds.
Clock = tuple[int, int]


class Memory:
    """Messages that were heard, by their digests. What comes from before `floor` cannot be told from one of those."""

    def __init__(self, floor: Clock) -> None:
        self._floor = floor
        self._heard: dict[bytes, Clock] = {}

    def knows(self, digest: bytes) -> bool:
        return digest in self._heard

    def takes(self, digest: bytes, at: Clock) -> bool:
        """Remembers one that is new; False for one that is too old for that."""
        if at < self._floor:
            return False
        self._heard[digest] = at
        if len(self._heard) > _REMEMBERED:
            oldest = next(iter(self._heard))
            boots, time = self._heard.pop(oldest)
            self._floor = max(self._floor, (boots, time + 1))
        return True


class _Engine:
    """An agent's engine, as its authenticated answers have it. Times are its own."""

    def __init__(self, engine_id: bytes, clock: Clock) -> None:
        self.id, self.clock = engine_id, clock
        #: Nobody knows what an earlier relay has heard.
        self.memory = Memory(clock)


class Source:
    """A hypervisor: its user (two while passphrases are replaced), and what is known of its engine."""

    def __init__(self, name: str, users: Mapping[str, Master], rate: int) -> None:
        self.name = name
        self._masters = {user.encode(): master for user, master in users.items()}
        #: By user and engine.
        self._localized: dict[tuple[bytes, bytes], bytes] = {}
        self.bucket = Bucket(rate)
        self.discoveries = Bucket(max(1, rate // _DISCOVERIES))
        self.engine: _Engine | None = None
        self.informs = Memory((0, 0))

    def answered(self, engine_id: bytes, boots: int, time: int) -> bool:
        """An authenticated answer of the agent came. True if its engine is new."""
        if self.engine is not None and self.engine.id == engine_id:
            self.engine.clock = max(self.engine.clock, (boots, time))
            return False
        self.engine = _Engine(engine_id, (boots, time))
        return True

    def has(self, user: bytes) -> bool:
        return user in self._masters

    def signed(self, message: Usm, data: bytes) -> bool:
        """Whether it is what one of its users has sent to, or from, the engine that the message names: a known one."""
        master = self._masters[message.user]
        at = (message.user, message.engine_id)
        if at not in self._localized:
            self._localized[at] = master.localized(message.engine_id)
        return master.signed(self._localized[at], data, message.digest, message.digest_at)


class Guard:
    """`community` is that of SNMPv2c traps; None: none are taken. `started` is when the own engine's clock began."""

    def __init__(
        self, sources: Mapping[str, Source], own: OwnEngine, community: bytes | None, started: float = 0.0
    ) -> None:
        self._sources = sources
        self._own, self._started = own, started
        self._community = community

    def engine_time(self, now: float) -> int:
        """Seconds since the own engine's start."""
        return int(now - self._started)

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
        if not source.has(message.user):
            return Reason.USER
        if not message.private:
            return Reason.CREDENTIALS
        if message.engine_id == self._own.engine_id:
            genuine = source.signed(message, data)
            return self._judge_inform(message, source, now) if genuine else Reason.CREDENTIALS
        return _judge_trap(data, message, source)

    def _judge_inform(self, message: Usm, source: Source, now: float) -> Pass | Reason:
        """One that is genuine. Its time is this relay's own, as its sender knows it."""
        if source.informs.knows(message.digest):
            return Pass.REPEATED
        time = self.engine_time(now)
        if message.boots != self._own.boots or abs(time - message.time) > TIME_WINDOW:
            asks = (message.boots, message.time) == (0, 0)  # RFC 3414, 4: how a sender finds out the clock
            if not source.discoveries.take(now):
                return Reason.RATE if asks else Reason.LATE
            return Pass.DISCOVERY if asks else Pass.LATE
        return Pass.NOTIFICATION if source.informs.takes(message.digest, (message.boots, message.time)) else Reason.LATE


def _judge_trap(data: bytes, message: Usm, source: Source) -> Pass | Reason:
    engine = source.engine
    if engine is None or message.engine_id != engine.id:
        return Reason.OTHER_RELAY if message.engine_id.startswith(PREFIX) else Reason.ENGINE
    if not source.signed(message, data):
        return Reason.CREDENTIALS
    if engine.memory.knows(message.digest):
        return Reason.REPEATED
    at, (boots, time) = (message.boots, message.time), engine.clock
    if at < (boots, time - TIME_WINDOW) or not engine.memory.takes(message.digest, at):
        return Reason.LATE
    engine.clock = max(engine.clock, at)
    return Pass.NOTIFICATION
