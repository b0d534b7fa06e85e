"""How long ports have to be good before DNS may follow."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import pytest

from vcrecovery.drivers.probe import EVERY, Probes
from vcrecovery.plan.probes import Port


class Steps:
    """A clock on which nothing takes time but its pauses; too many of them are an endless wait.

    `held_up`: by how many seconds a pause is longer, by its number; the first is 1.
    """

    def __init__(self, now: float, held_up: Mapping[int, float] | None = None) -> None:
        self._now = now
        self._held_up = held_up or {}
        self.pauses = 0

    def now(self) -> float:
        return self._now

    def steady(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self.pauses += 1
        assert self.pauses < 100, "the wait does not end"
        self._now += seconds + self._held_up.get(self.pauses, 0.0)


@pytest.mark.parametrize("settle", [0.0, 0.1, 0.3])
def test_a_settled_port_ends_the_wait_whenever_it_came(settle: float) -> None:
    """0.85 - 0.75 is less than 0.1 in floating point: seen as a wait that never ended."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        port = Port(tcp=listener.getsockname()[1])
        for steps in range(40):
            clock = Steps(sum([EVERY] * steps))
            began = clock.steady()
            (result,) = Probes(clock).wait_for_all([("127.0.0.1", port)], timeout=5.0, stable_for=settle)
            assert result.ok
            assert clock.steady() - began == pytest.approx(settle)
            for _ in range(clock.pauses + 1):
                listener.accept()[0].close()


def test_who_was_held_up_has_not_seen_the_ports_stay_open() -> None:
    """A machine that stands still for three seconds sees a port that opens and closes twice, both times open."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        port = Port(tcp=listener.getsockname()[1])
        clock = Steps(0.0, held_up={2: 3.0, 20: 3.0})
        (result,) = Probes(clock).wait_for_all([("127.0.0.1", port)], timeout=5.0, stable_for=1.0)
        assert result.ok
        # Two pauses, eighteen, and then a whole second without a break.
        assert clock.steady() == pytest.approx(20 * EVERY + 2 * 3.0 + 1.0)


def test_on_a_machine_that_stands_still_again_and_again_the_wait_ends_too() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        port = Port(tcp=listener.getsockname()[1])
        clock = Steps(0.0, held_up=dict.fromkeys(range(1, 100), 2.0))
        (result,) = Probes(clock).wait_for_all([("127.0.0.1", port)], timeout=5.0, stable_for=1.0)
        assert result.ok
        assert 5.0 < clock.steady() < 12.0
