"""Which datagrams are heard. That real senders are is shown in tests/lab/test_k_relay.py."""

from __future__ import annotations

import contextlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcrecovery.relay.ber import Community, MalformedError, Usm, envelope
from vcrecovery.relay.counts import Counts, Reason
from vcrecovery.relay.guard import Bucket, Guard, Memory, Pass, Source
from vcrecovery.relay.own_engine import PREFIX, OwnEngine
from vcrecovery.relay.usm import Master

HYPERVISOR, AGENT = "10.0.0.1", b"\x80\x00\x00\x01\x05agent"
OWN, BOOTS = PREFIX + b"relay", 7
#: On the relay's own clock: as many seconds as its engine is old.
NOW = 1000.0
MASTER = Master.from_passphrase("sha256", b"a passphrase")
RATE = 20


def tlv(tag: int, content: bytes) -> bytes:
    if len(content) < 0x80:
        return bytes([tag, len(content)]) + content
    return bytes([tag, 0x82]) + len(content).to_bytes(2, "big") + content


def number(value: int) -> bytes:
    return tlv(2, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def v3(
    *,
    engine: bytes = OWN,
    boots: int = BOOTS,
    time: int = 1000,
    user: bytes = b"relay",
    flags: int = 3,
    key: bytes | None,
) -> bytes:
    """A message, signed with `key` unless that is None."""

    def whole(digest: bytes) -> bytes:
        fields = tlv(4, engine) + number(boots) + number(time) + tlv(4, user) + tlv(4, digest) + tlv(4, bytes(8))
        header = tlv(0x30, number(7) + number(65507) + tlv(4, bytes([flags])) + number(3))
        return tlv(0x30, number(3) + header + tlv(4, tlv(0x30, fields)) + tlv(4, b"ciphered" * 20))

    zeroed = whole(bytes(24))
    return zeroed if key is None else whole(hmac.digest(key, zeroed, "sha256")[:24])


def v2c(community: bytes, version: int = 1) -> bytes:
    return tlv(0x30, number(version) + tlv(4, community) + tlv(0xA7, b""))


def made(community: bytes | None = None) -> tuple[Guard, Source]:
    source = Source("hv1", {"relay": MASTER}, RATE)
    return Guard({HYPERVISOR: source}, OwnEngine(OWN, BOOTS), community), source


INFORM = v3(key=MASTER.localized(OWN))
TRAP = v3(engine=AGENT, key=MASTER.localized(AGENT))


def test_keys_are_those_of_rfc_3414_and_7860() -> None:
    """RFC 3414 A.3.2, the algorithm that RFC 7860 uses with other hashes; then what net-snmp's snmpkey says."""
    master = Master.from_passphrase("sha1", b"maplesyrup")
    assert master.key.hex() == "9fb5cc0381497b3793528939ff788d5d79145211"
    assert master.localized(bytes(11) + b"\x02").hex() == "6695febc9288e36282235fc7151f128497b38f3f"


def test_who_is_heard() -> None:
    guard, source = made(b"old agents")
    assert guard.judge(INFORM, HYPERVISOR, NOW) is Pass.NOTIFICATION
    assert guard.judge(v3(engine=b"", user=b"", flags=4, key=None), HYPERVISOR, NOW) is Pass.DISCOVERY
    assert guard.judge(v2c(b"old agents"), HYPERVISOR, NOW) is Pass.NOTIFICATION
    source.answered(AGENT, BOOTS, 900)
    assert guard.judge(TRAP, HYPERVISOR, NOW) is Pass.NOTIFICATION


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (TRAP, Reason.ENGINE),
        (v3(user=b"someone", key=MASTER.localized(OWN)), Reason.USER),
        (v3(engine=PREFIX + b"gone", key=MASTER.localized(PREFIX + b"gone")), Reason.OTHER_RELAY),
        (v3(key=b"another key"), Reason.CREDENTIALS),
        (v3(key=None), Reason.CREDENTIALS),
        (v3(flags=1, key=MASTER.localized(OWN)), Reason.CREDENTIALS),
        (v3(flags=0, key=None), Reason.CREDENTIALS),
        (v2c(b"old agents"), Reason.CREDENTIALS),
        (INFORM[:-1], Reason.ENCODING),
        (INFORM + b"x", Reason.ENCODING),
        (b"", Reason.ENCODING),
    ],
)
def test_who_is_not(data: bytes, reason: Reason) -> None:
    assert made()[0].judge(data, HYPERVISOR, NOW) is reason


def test_another_community_and_snmpv1_are_not_taken() -> None:
    guard, _ = made(b"old agents")
    assert guard.judge(v2c(b"public"), HYPERVISOR, NOW) is Reason.CREDENTIALS
    assert guard.judge(v2c(b"old agents", version=0), HYPERVISOR, NOW) is Reason.CREDENTIALS


def test_traps_that_are_old_or_were_heard_before() -> None:
    guard, source = made()
    source.answered(AGENT, 2, 1000)
    source.answered(AGENT, 2, 1200)
    key = MASTER.localized(AGENT)
    for boots, time, verdict in (
        (2, 1200, Pass.NOTIFICATION),
        (2, 1200, Reason.REPEATED),
        (2, 1050, Pass.NOTIFICATION),
        (2, 1049, Reason.LATE),
        (1, 9999, Reason.LATE),
        (3, 1, Pass.NOTIFICATION),
        (2, 1201, Reason.LATE),
    ):
        assert guard.judge(v3(engine=AGENT, boots=boots, time=time, key=key), HYPERVISOR, NOW) is verdict


def test_traps_from_before_the_relay_knew_their_agent_may_be_replays() -> None:
    guard, source = made()
    source.answered(AGENT, 2, 1000)
    key = MASTER.localized(AGENT)
    assert guard.judge(v3(engine=AGENT, boots=2, time=999, key=key), HYPERVISOR, NOW) is Reason.LATE
    assert guard.judge(v3(engine=AGENT, boots=2, time=1000, key=key), HYPERVISOR, NOW) is Pass.NOTIFICATION


def inform(boots: int = BOOTS, time: float = NOW) -> bytes:
    return v3(boots=boots, time=int(time), key=MASTER.localized(OWN))


def test_while_passphrases_are_replaced_both_users_are_heard_and_each_needs_its_own() -> None:
    following = Master.from_passphrase("sha256", b"the next passphrase")
    source = Source("hv1", {"relay": MASTER, "relaynext": following}, RATE)
    guard = Guard({HYPERVISOR: source}, OwnEngine(OWN, BOOTS), None)
    source.answered(AGENT, BOOTS, 900)
    for user, master, other in ((b"relay", MASTER, following), (b"relaynext", following, MASTER)):
        assert guard.judge(v3(user=user, key=master.localized(OWN)), HYPERVISOR, NOW) is Pass.NOTIFICATION
        trap = v3(engine=AGENT, user=user, key=master.localized(AGENT))
        assert guard.judge(trap, HYPERVISOR, NOW) is Pass.NOTIFICATION
        assert guard.judge(v3(user=user, key=other.localized(OWN)), HYPERVISOR, NOW) is Reason.CREDENTIALS
        assert (
            guard.judge(v3(engine=AGENT, user=user, key=other.localized(AGENT)), HYPERVISOR, NOW) is Reason.CREDENTIALS
        )


def test_an_inform_is_taken_once_and_answered_each_time() -> None:
    guard, _ = made()
    assert guard.judge(INFORM, HYPERVISOR, NOW) is Pass.NOTIFICATION
    for later in (0.1, 36, 149, 1000):
        assert guard.judge(INFORM, HYPERVISOR, NOW + later) is Pass.REPEATED


@pytest.mark.parametrize(
    ("boots", "time", "verdict"),
    [
        (BOOTS, NOW - 150, Pass.NOTIFICATION),
        (BOOTS, NOW + 150, Pass.NOTIFICATION),
        (BOOTS, NOW - 151, Pass.LATE),
        (BOOTS, NOW + 151, Pass.LATE),
        (BOOTS - 1, NOW, Pass.LATE),
        (BOOTS + 1, NOW, Pass.LATE),
        (0, 0, Pass.DISCOVERY),
    ],
)
def test_informs_of_another_time(boots: int, time: float, verdict: Pass) -> None:
    assert made()[0].judge(inform(boots, time), HYPERVISOR, NOW) is verdict


def test_only_a_few_informs_of_another_time_cost_an_answer() -> None:
    guard, _ = made()
    verdicts = [guard.judge(inform(time=step), HYPERVISOR, NOW) for step in range(RATE)]
    assert verdicts == [Pass.LATE] * 2 + [Reason.LATE] * (RATE - 2)


def test_what_is_remembered_no_more_is_taken_no_more() -> None:
    memory = Memory((0, 0))
    for number in range(3000):
        assert memory.takes(str(number).encode(), (1, number))
    for number in range(3000):
        digest = str(number).encode()
        assert memory.knows(digest) or not memory.takes(digest, (1, number))
    assert memory.takes(b"new", (1, 3000))


def test_an_agent_with_a_new_engine() -> None:
    guard, source = made()
    assert source.answered(AGENT, 1, 1000)
    assert not source.answered(AGENT, 1, 1001)
    assert source.answered(b"\x80\x00\x00\x01\x05other", 1, 1)
    assert guard.judge(TRAP, HYPERVISOR, NOW) is Reason.ENGINE


def test_a_storm_of_one_source_leaves_the_others_alone() -> None:
    sources = {address: Source(address, {"relay": MASTER}, RATE) for address in (HYPERVISOR, "10.0.0.2")}
    guard = Guard(sources, OwnEngine(OWN, BOOTS), None)
    verdicts = [guard.judge(b"x", HYPERVISOR, NOW + step / 10_000) for step in range(10_000)]
    assert verdicts.count(Reason.ENCODING) == pytest.approx(2 * RATE, abs=1)
    assert verdicts.count(Reason.RATE) == len(verdicts) - verdicts.count(Reason.ENCODING)
    assert guard.judge(INFORM, "10.0.0.2", NOW + 1) is Pass.NOTIFICATION
    assert guard.judge(INFORM, HYPERVISOR, NOW + 2) is Pass.NOTIFICATION
    assert guard.judge(b"x", "10.9.9.9", 2) is Reason.STRANGER


def test_questions_for_the_engine_id_are_few() -> None:
    guard, _ = made()
    question = v3(engine=b"", user=b"", flags=4, key=None)
    verdicts = [guard.judge(question, HYPERVISOR, NOW) for _ in range(RATE)]
    assert verdicts == [Pass.DISCOVERY] * 2 + [Reason.RATE] * (RATE - 2)


@given(st.lists(st.floats(0, 10), max_size=200))
def test_a_bucket_never_gives_more_than_its_rate(waits: list[float]) -> None:
    bucket, now, given_out = Bucket(5), 0.0, 0
    for wait in waits:
        now += wait
        given_out += bucket.take(now)
    assert given_out <= 5 + 5 * now + 1e-6


@given(st.binary(max_size=300) | st.integers(0, len(INFORM)).map(lambda length: INFORM[:length]))
def test_no_bytes_are_too_strange(data: bytes) -> None:
    with contextlib.suppress(MalformedError):
        assert isinstance(envelope(data), Usm | Community)


@given(st.integers(0, len(INFORM) - 1), st.integers(1, 255))
def test_one_changed_byte_is_noticed(place: int, change: int) -> None:
    data = bytearray(INFORM)
    data[place] ^= change
    assert made()[0].judge(bytes(data), HYPERVISOR, NOW) is not Pass.NOTIFICATION


def test_counters_are_told_once() -> None:
    counts = Counts()
    assert not counts.news()
    counts.reject(Reason.STRANGER, "10.9.9.9")
    counts.reject(Reason.STRANGER, "10.9.9.8")
    assert counts.news() == "notifications not taken: from strangers: 2 (in all 2, last from 10.9.9.8)"
    assert not counts.news()
    counts.reject(Reason.RATE, HYPERVISOR)
    assert counts.news() == "notifications not taken: too many of one hypervisor: 1 (in all 1, last from 10.0.0.1)"
    assert counts.as_document()["stranger"] == 2
