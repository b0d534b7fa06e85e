"""From tables and notifications of one hypervisor to the values that Zabbix gets. Pure."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcrecovery.plan.monitoring import COPY_POLL
from vcrecovery.relay.counts import Reason
from vcrecovery.relay.guests import Guests, Row, Table, with_figures
from vcrecovery.relay.notification import Notification
from vcrecovery.relay.strangers import Strangers
from vcrecovery.snmp.mib import GuestState

UUID, OTHER = "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0abc", "6f1c2a54-7c0d-4a7e-9a51-0d3b1f7e0def"
STATE, CPU = f"vcr.state[{UUID}]", f"vcr.cpu[{UUID}]"
SECOND = 10**9
POLL = 5


def row(state: GuestState = GuestState.RUNNING, cpu_time: int = 0, uuid: str = UUID, vcpus: int = 2) -> Row:
    return Row(uuid, "web-vm", state, vcpus, cpu_time, 0)


class Agent:
    """Feeds a hypervisor's guests with tables of an agent whose clock and the relay's run together."""

    def __init__(self, uptime: int = 10_000) -> None:
        self.guests = Guests({UUID: "web"})
        self.now = 1000.0
        self.uptime = uptime

    def poll(self, *rows: Row, libvirt: bool | None = True, after: float = POLL) -> dict[str, str]:
        self.now += after
        self.uptime += int(after * 100)
        stamped = tuple(replace(row, uptime=self.uptime) for row in rows)
        return self.guests.polled(Table(self.uptime, stamped, libvirt), self.now, self.now + 0.01)

    def notify(self, state: GuestState, event: str = "", detail: str = "", uuid: str = UUID) -> dict[str, str]:
        values = self.guests.notified(Notification(uuid, state, "web-vm", event, detail), self.now)
        assert not isinstance(values, Reason)
        return values


@pytest.fixture
def agent() -> Agent:
    return Agent()


def test_a_state_is_said_when_it_changes_and_once_a_minute(agent: Agent) -> None:
    said = [agent.poll(row()).get(STATE) for _ in range(25)]
    assert [number for number, word in enumerate(said) if word == "running"] == [0, 12, 24]


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (GuestState.RUNNING, "running"),
        (GuestState.BLOCKED, "running"),
        (GuestState.SHUTDOWN, "running"),
        (GuestState.PAUSED, "paused"),
        (GuestState.SHUTOFF, "shutoff (not seen running)"),
        (GuestState.CRASHED, "crashed (not seen running)"),
    ],
)
def test_the_words_for_states_at_the_first_look(agent: Agent, state: GuestState, word: str) -> None:
    assert agent.poll(row(state))[STATE] == word


def test_a_guest_that_ran_and_is_off_without_a_word_why(agent: Agent) -> None:
    agent.poll(row())
    assert agent.poll(row(GuestState.SHUTOFF))[STATE] == "shutoff"


@pytest.mark.parametrize("seen_off_first", [False, True])
def test_a_reason_stays_until_the_state_changes(agent: Agent, seen_off_first: bool) -> None:
    agent.poll(row())
    if seen_off_first:
        assert agent.poll(row(GuestState.SHUTOFF))[STATE] == "shutoff"
    assert agent.notify(GuestState.SHUTOFF, "stopped", "crashed")[STATE] == "shutoff (crashed)"
    words = {agent.poll(row(GuestState.SHUTOFF)).get(STATE) for _ in range(30)}
    assert words == {None, "shutoff (crashed)"}
    assert agent.notify(GuestState.RUNNING, "started", "booted")[STATE] == "running"
    agent.now += 60
    assert agent.poll(row(GuestState.SHUTOFF))[STATE] == "shutoff"


def test_a_table_that_is_older_than_a_notification_changes_nothing(agent: Agent) -> None:
    agent.poll(row())
    agent.notify(GuestState.SHUTOFF, "stopped", "crashed")
    assert STATE not in agent.poll(row(), after=0.1)
    assert STATE not in agent.poll(row(), after=4.9)
    assert STATE not in agent.poll(row(GuestState.SHUTOFF))


def test_a_notification_that_the_table_never_confirms_is_taken_back(agent: Agent) -> None:
    agent.poll(row())
    agent.notify(GuestState.SHUTOFF, "stopped", "crashed")
    agent.poll(row())
    assert agent.poll(row())[STATE] == "running"


def told(agent: Agent, state: GuestState, seconds: float, *, age: float = 0) -> dict[str, str] | Reason:
    """A notification of what happened at that second of the agent's clock; it comes now."""
    return agent.guests.notified(Notification(UUID, state, "web-vm", uptime=int(seconds * 100), age=age), agent.now)


def test_a_notification_that_is_sent_again_is_taken_once(agent: Agent) -> None:
    """In another message: its number, time and salt are new."""
    assert told(agent, GuestState.PAUSED, 5000) == {STATE: "paused"}
    agent.now += 3
    assert told(agent, GuestState.PAUSED, 5000, age=3) is Reason.REPEATED


def test_a_late_notification_does_not_overwrite_a_newer_one(agent: Agent) -> None:
    told(agent, GuestState.RUNNING, 5000)
    agent.now += 10
    assert told(agent, GuestState.SHUTOFF, 5010) == {STATE: "shutoff"}
    agent.now += 5
    assert told(agent, GuestState.PAUSED, 5009) is Reason.LATE
    assert told(agent, GuestState.RUNNING, 5010) == {STATE: "running"}, "two changes in one moment"


@pytest.mark.parametrize("uptime", [0.5, 119], ids=["just restarted", "restarted soon after"])
def test_an_agent_that_was_restarted_begins_its_clock_anew(agent: Agent, uptime: float) -> None:
    told(agent, GuestState.RUNNING, 5000)
    agent.now += 120
    assert told(agent, GuestState.SHUTOFF, uptime) == {STATE: "shutoff"}
    agent.now += 1
    assert told(agent, GuestState.RUNNING, 4999) == {STATE: "running"}, "a clock that goes on"


@pytest.mark.parametrize(("age", "said"), [(600, {}), (7, {}), (3, {STATE: "shutoff"})])
def test_a_notification_that_waited_is_older_than_the_table(agent: Agent, age: float, said: dict[str, str]) -> None:
    """It waited for a relay that was away; the guest has been started again since."""
    agent.poll(row())
    assert told(agent, GuestState.SHUTOFF, 5000, age=age) == said


def test_a_notification_that_waited_still_says_why(agent: Agent) -> None:
    agent.poll(row())
    assert agent.poll(row(GuestState.SHUTOFF))[STATE] == "shutoff"
    old = Notification(UUID, GuestState.SHUTOFF, "web-vm", "stopped", "destroyed", age=60)
    assert agent.guests.notified(old, agent.now) == {STATE: "shutoff (destroyed)"}
    assert STATE not in agent.poll(row(GuestState.SHUTOFF))


def test_what_is_told_of_a_guest_that_the_next_table_has_was_genuine() -> None:
    strangers, known = Strangers(), {OTHER}
    assert strangers.add(UUID, 100)
    assert strangers.add(OTHER, 100)
    assert strangers.settle(known.__contains__, 101) == (1, 0)
    assert strangers.settle(known.__contains__, 114) == (0, 0)
    assert strangers.settle(known.__contains__, 116) == (0, 1)
    assert strangers.settle(known.__contains__, 117) == (0, 0)
    assert [strangers.add(str(number), 200) for number in range(150)].count(True) == 100


def test_a_notification_of_a_guest_that_was_never_in_a_table(agent: Agent) -> None:
    assert agent.guests.known(UUID)
    assert not agent.guests.known(OTHER)
    assert agent.notify(GuestState.SHUTOFF, "stopped", "crashed")[STATE] == "shutoff (crashed)"


def test_details_of_other_events_are_no_reasons(agent: Agent) -> None:
    assert agent.notify(GuestState.RUNNING, "started", "booted")[STATE] == "running"
    assert agent.notify(GuestState.SHUTOFF, "defined", "updated")[STATE] == "shutoff"


def test_all_rows_gone_at_once_is_no_word_about_the_guests(agent: Agent) -> None:
    agent.poll(row(), row(uuid=OTHER))
    for libvirt in (None, False):
        assert not any(agent.poll(libvirt=libvirt) for _ in range(5))
    assert STATE not in agent.poll(row(), row(uuid=OTHER))


def test_all_rows_gone_are_gone_where_the_agent_says_that_libvirt_answers(agent: Agent) -> None:
    agent.poll(row(), libvirt=True)
    assert not agent.poll(libvirt=True)
    assert agent.poll(libvirt=True) == {STATE: "absent"}


def test_a_guest_that_vanishes_is_absent_once_and_later_forgotten(agent: Agent) -> None:
    agent.poll(row(), row(uuid=OTHER))
    said = [agent.poll(row(uuid=OTHER)).get(STATE) for _ in range(30)]
    assert said == [None, "absent", *[None] * 28]
    assert [entry["{#UUID}"] for entry in json.loads(agent.guests.listing())] == [OTHER]


def test_a_transient_guest_that_crashes_keeps_its_reason(agent: Agent) -> None:
    agent.poll(row(), row(uuid=OTHER))
    agent.notify(GuestState.SHUTOFF, "stopped", "crashed")
    said = [agent.poll(row(uuid=OTHER)).get(STATE) for _ in range(6)]
    assert [word for word in said if word] == ["absent (crashed)"]


def test_a_guest_that_is_defined_anew_did_not_crash_meanwhile(agent: Agent) -> None:
    agent.poll(row(), row(uuid=OTHER))
    agent.notify(GuestState.SHUTOFF, "stopped", "destroyed")
    for _ in range(6):
        agent.poll(row(uuid=OTHER))
    assert agent.poll(row(GuestState.SHUTOFF), row(uuid=OTHER))[STATE] == "shutoff (destroyed)"


def test_the_list_has_the_plans_service_and_the_newest_name(agent: Agent) -> None:
    agent.poll(row(), replace(row(uuid=OTHER), name='say "hi"'))
    agent.poll(replace(row(), name="renamed"), replace(row(uuid=OTHER), name='say "hi"'))
    assert json.loads(agent.guests.listing()) == [
        {"{#UUID}": UUID, "{#VM}": "renamed", "{#SERVICE}": "web"},
        {"{#UUID}": OTHER, "{#VM}": 'say "hi"', "{#SERVICE}": ""},
    ]


def test_a_crash_while_no_relay_ran_is_a_crash_of_a_guest_that_was_seen_running(agent: Agent) -> None:
    agent.poll(row(), row(GuestState.SHUTOFF, uuid=OTHER))
    agent.notify(GuestState.SHUTOFF, "stopped", "destroyed", uuid=OTHER)
    next_one = Agent()
    next_one.guests.recall(json.loads(json.dumps(agent.guests.memory())))
    said = next_one.poll(row(GuestState.SHUTOFF), row(GuestState.SHUTOFF, uuid=OTHER))
    assert said == {STATE: "shutoff", f"vcr.state[{OTHER}]": "shutoff (destroyed)"}


@pytest.mark.parametrize("memory", [{"x": {}}, {UUID: {}}, {UUID: 7}, {UUID: {"name": "", "power": "?"}}])
def test_a_memory_that_is_none(agent: Agent, memory: Any) -> None:
    with pytest.raises((KeyError, TypeError, AttributeError, ValueError)):
        agent.guests.recall(memory)


# -- utilisation -----------------------------------------------------------------------------------------------------


@given(
    load=st.integers(1, 100),
    vcpus=st.integers(1, 64),
    waits=st.lists(st.integers(100, 2000), min_size=1, max_size=20),
    start=st.integers(0, 2**63),
)
def test_a_constant_load_is_seen_as_it_is(load: int, vcpus: int, waits: list[int], start: int) -> None:
    agent, cpu_time = Agent(), start
    agent.poll(row(cpu_time=cpu_time, vcpus=vcpus))
    for ticks in waits:
        cpu_time += ticks * 10**7 * vcpus * load // 100
        value = agent.poll(row(cpu_time=cpu_time, vcpus=vcpus), after=ticks / 100)[CPU]
        assert float(value) == pytest.approx(load, rel=0.02)


@given(
    polls=st.lists(
        st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(0, 8), st.floats(0, 100)),
        max_size=20,
    ),
    libvirt=st.sampled_from([True, None]),
)
def test_utilisation_is_always_a_percentage(polls: list[tuple[int, int, int, float]], libvirt: bool | None) -> None:
    guests, now = Guests({}), 0.0
    for cpu_time, uptime, vcpus, passed in polls:
        now += passed
        found = Row(UUID, "x", GuestState.RUNNING, vcpus, cpu_time, uptime)
        value = guests.polled(Table(uptime, (found,), libvirt), now, now).get(CPU, "0")
        assert 0 <= float(value) <= 100


def test_two_answers_at_one_time_of_the_agent_are_one(agent: Agent) -> None:
    agent.poll(row(cpu_time=0))
    assert CPU not in agent.poll(row(cpu_time=SECOND), after=0)


@pytest.mark.parametrize(("libvirt", "after"), [(True, POLL), (None, COPY_POLL)])
def test_zero_is_seen_at_once(agent: Agent, libvirt: bool | None, after: float) -> None:
    agent.poll(row(cpu_time=7), libvirt=libvirt, after=after)
    assert agent.poll(row(cpu_time=7), libvirt=libvirt, after=after)[CPU] == "0.00"


def test_the_least_cpu_time_of_a_large_guest_is_not_zero(agent: Agent) -> None:
    """8 ms in a poll, on 32 vCPUs: one that is idle, and does not hang."""
    agent.poll(row(cpu_time=0, vcpus=32))
    assert float(agent.poll(row(cpu_time=8_000_000, vcpus=32))[CPU]) == pytest.approx(0.005, rel=0.1)
    assert float(agent.poll(row(cpu_time=8_000_001, vcpus=32))[CPU]) > 0


def test_a_guest_that_is_off_uses_no_cpu(agent: Agent) -> None:
    """A figure that stayed as it was would look as if somebody had measured it."""
    agent.poll(row(cpu_time=0))
    assert with_figures(agent.poll(row(cpu_time=SECOND)))[CPU] == "10.00"
    assert with_figures({STATE: "shutoff (crashed)"})[CPU] == "0"
    assert with_figures({STATE: "absent (crashed)"})[CPU] == "0"
    assert CPU not in with_figures({STATE: "paused"})


def test_a_guest_that_was_restarted_begins_anew(agent: Agent) -> None:
    agent.poll(row(cpu_time=100 * SECOND))
    assert CPU not in agent.poll(row(cpu_time=1 * SECOND))
    assert agent.poll(row(cpu_time=6 * SECOND))[CPU] == "50.00"


@pytest.mark.parametrize("jump", [-9_000, 3_600_00, -(2**31)], ids=["restart", "forward", "wrap"])
def test_an_agent_whose_clock_jumps_begins_anew(jump: int) -> None:
    agent = Agent(uptime=2**31 + 10_000)
    agent.poll(row(cpu_time=0))
    agent.uptime += jump
    assert CPU not in agent.poll(row(cpu_time=5 * SECOND))
    assert agent.poll(row(cpu_time=10 * SECOND))[CPU] == "50.00"


def test_an_agent_that_was_silent_for_long_gives_the_mean(agent: Agent) -> None:
    agent.poll(row(cpu_time=0))
    assert agent.poll(row(cpu_time=600 * SECOND), after=600)[CPU] == "50.00"


@pytest.mark.parametrize("state", [GuestState.PAUSED, GuestState.SHUTOFF])
def test_a_guest_that_does_not_run_has_no_utilisation(agent: Agent, state: GuestState) -> None:
    agent.poll(row(cpu_time=0))
    for _ in range(4):
        assert CPU not in agent.poll(row(state, cpu_time=SECOND))
    assert CPU not in agent.poll(row(cpu_time=2 * SECOND))
    assert CPU in agent.poll(row(cpu_time=3 * SECOND))
