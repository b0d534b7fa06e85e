"""What waits for Zabbix."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vcrecovery.relay.outbox import BATCH, Outbox, Value

NOW = 1000.0


def value(key: str = "a", text: str = "1", at: float = 0.0, host: str = "hv1") -> Value:
    return Value(host, key, text, at)


def with_known(*keys: str, capacity: int = 1000) -> Outbox:
    """An outbox whose Zabbix has taken these items once."""
    outbox = Outbox(capacity)
    for key in keys:
        outbox.put(value(key))
    while batch := outbox.batch(NOW):
        outbox.taken(batch)
    return outbox


def test_values_of_unknown_items_go_one_host_at_a_time() -> None:
    outbox = Outbox(1000)
    outbox.put(value("a", host="hv1"))
    outbox.put(value("a", host="hv2"))
    assert {v.host for v in outbox.batch(NOW)} == {"hv1"}
    assert {v.host for v in outbox.batch(NOW)} == {"hv2"}
    assert outbox.batch(NOW) == []
    assert outbox.due_in(NOW) is None


def test_known_items_travel_together_in_batches() -> None:
    outbox = with_known("a", "b")
    values = [value(key, str(number)) for number in range(200) for key in ("a", "b")]
    for each in values:
        outbox.put(each)
    first = outbox.batch(NOW)
    assert first == values[:BATCH]
    outbox.taken(first)
    assert outbox.batch(NOW) == values[BATCH:]


def test_a_batch_that_zabbix_did_not_get_comes_again_first() -> None:
    outbox = with_known("a")
    outbox.put(value(text="1"))
    batch = outbox.batch(NOW)
    outbox.put(value(text="2"))
    outbox.give_back(batch)
    assert [v.text for v in outbox.batch(NOW)] == ["1", "2"]


def test_refused_values_wait_longer_each_time_and_only_the_newest_is_kept() -> None:
    outbox, now, waits = Outbox(1000), NOW, []
    outbox.put(value(text="0", at=0))
    for round_ in range(6):
        batch = outbox.batch(now)
        outbox.refused(batch, len(batch), now)
        outbox.put(value(text=str(round_ + 1), at=round_ + 1))
        assert outbox.batch(now) == []
        waits.append(outbox.due_in(now) or 0)
        now += waits[-1]
    assert waits == [2, 4, 8, 16, 30, 30]
    assert [v.text for v in outbox.batch(now)] == ["6"]


def test_when_some_are_refused_each_is_tried_alone() -> None:
    outbox = Outbox(1000)
    for key in ("good", "bad", "also good"):
        outbox.put(value(key))
    outbox.refused(outbox.batch(NOW), 1, NOW)
    while batch := outbox.batch(NOW):
        assert len(batch) == 1
        if batch[0].key == "bad":
            outbox.refused(batch, 1, NOW)
        else:
            outbox.taken(batch)
    for key in ("good", "bad", "also good"):
        outbox.put(value(key, "2", at=1))
    assert [v.key for v in outbox.batch(NOW)] == ["good", "also good"]
    assert [v.key for v in outbox.batch(NOW + 2)] == ["bad"]


def test_an_item_that_zabbix_forgets_stops_no_other() -> None:
    outbox = with_known("a", "b")
    outbox.put(value("a", "2"))
    outbox.put(value("b", "2"))
    outbox.refused(outbox.batch(NOW), 1, NOW)
    assert [v.key for v in outbox.batch(NOW)] == ["a"]
    outbox.taken([value("a", "2")])
    assert [v.key for v in outbox.batch(NOW)] == ["b"]


def test_a_full_queue_drops_the_oldest_but_never_the_newest_of_an_item() -> None:
    outbox = with_known("busy", "quiet", capacity=10)
    outbox.put(value("quiet", "the only one"))
    for number in range(100):
        outbox.put(value("busy", str(number)))
    texts = [v.text for v in outbox.batch(NOW)]
    assert texts == ["the only one", *(str(number) for number in range(90, 100))]
    assert outbox.dropped == 90


def test_what_is_forgotten_is_not_tried_again() -> None:
    outbox = Outbox(1000)
    outbox.put(value("gone"))
    outbox.forget("hv1", ["gone"])
    outbox.forget("hv2", ["gone"])
    assert outbox.batch(NOW) == []
    assert len(outbox) == 0


@given(
    steps=st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(["put", "taken", "down", "refused"])), max_size=120
    ),
    capacity=st.integers(1, 20),
)
def test_zabbix_gets_each_items_newest_value_at_last(steps: list[tuple[str, str]], capacity: int) -> None:
    """Whatever fails on the way. Values of one item come in order, apart from those that are tried again."""
    outbox, newest, got, now = Outbox(capacity), dict[str, float](), dict[str, float](), NOW
    for at, (key, what) in enumerate(steps):
        now += 1
        if what == "put":
            outbox.put(value(key, at=at))
            newest[key] = at
            continue
        if not (batch := outbox.batch(now)):
            continue
        if what == "taken":
            outbox.taken(batch)
            got |= {v.key: max(v.at, got.get(v.key, -1)) for v in batch}
        elif what == "down":
            outbox.give_back(batch)
        else:
            outbox.refused(batch, sum(v.key == key for v in batch) or len(batch), now)
    for _ in range(200):
        now += 40
        if batch := outbox.batch(now):
            outbox.taken(batch)
            for v in batch:
                got[v.key] = max(v.at, got.get(v.key, -1))
    assert got == newest
    assert outbox.batch(now + 1000) == []


def test_an_older_value_does_not_come_after_a_newer_one() -> None:
    """Zabbix learns the item between two values of it: as if the VM had crashed after it ran again."""
    outbox = with_known("a", "b")
    for each in (value("a", "crashed", 1.0), value("b", "running", 1.0), value("a", "running", 2.0)):
        outbox.put(each)
    outbox.refused(outbox.batch(NOW), 2, NOW)
    outbox.refused(outbox.batch(NOW), 1, NOW)  # a of 1.0
    for _ in range(2):
        outbox.taken(outbox.batch(NOW))
    assert (outbox.batch(NOW + 60), len(outbox)) == ([], 0)


def test_a_newer_value_comes_after_one_that_was_taken() -> None:
    outbox = Outbox(1000)
    outbox.put(value(text="1", at=1.0))
    batch = outbox.batch(NOW)
    outbox.put(value(text="2", at=1.0))
    outbox.taken(batch)
    assert [v.text for v in outbox.batch(NOW)] == ["2"]
