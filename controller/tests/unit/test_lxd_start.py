"""The start of a container, while LXD has what it needs only in a moment; its stop, on a full disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from set_clock import SetClock

from vcrecovery.drivers.lxd import Instance
from vcrecovery.drivers.lxd.connection import error_of
from vcrecovery.drivers.lxd.instances import Instances
from vcrecovery.errors import ExternalError

NO_NETWORK = 'Failed to start device "eth0": Network "vcr0" unavailable on this server'
NO_POOL = 'Storage pool "standbys" unavailable on this server'
BUSY = "Instance is busy running a stop operation"


class Starting(Instances):
    """A server that says each of `words` in turn, then starts it; the last of them for ever with `always`."""

    def __init__(self, *words: str, always: bool = False) -> None:
        self.clock = SetClock(0.0)
        super().__init__("sec1", Path("/none"), self.clock)
        self._words: Iterator[str] = iter(words)
        self._last = words[-1] if always else ""
        self.running = False
        self.tried = 0

    def get(self, instance: str) -> Instance:
        status = "Running" if self.running else "Stopped"
        return Instance(instance, running=self.running, status=status, config={}, devices={})

    def _set_state(self, *_words: Any, **_options: Any) -> None:
        self.tried += 1
        if word := next(self._words, self._last):
            raise error_of("LXD on secondary sec1: the start of web", word)
        self.running = True


@pytest.mark.parametrize("missing", [NO_NETWORK, NO_POOL])
def test_a_network_or_pool_that_comes_when_lxd_tries_it_again_is_waited_for(missing: str) -> None:
    # LXD does so once a minute, and says meanwhile that it is unavailable.
    server = Starting(*[missing] * 60)
    server.start("web", 10.0)
    assert server.running
    assert 55 < server.clock.steady() < 65


def test_one_that_does_not_come_is_told_with_the_way_out() -> None:
    server = Starting(NO_NETWORK, always=True)
    with pytest.raises(ExternalError, match=r'"vcr0" unavailable on this server') as error:
        server.start("web", 10.0)
    assert "lxc info --show-log web" in error.value.hint
    assert 65 < server.clock.steady() < 80
    assert server.tried < 100


def test_what_is_busy_is_waited_for_as_long_as_the_start_may_take() -> None:
    server = Starting(BUSY, always=True)
    with pytest.raises(ExternalError, match="is busy running"):
        server.start("web", 10.0)
    assert 10 <= server.clock.steady() < 11


FULL = "Failed clearing ownership: chown /var/lib/lxd/containers/web: disk quota exceeded"


def test_one_that_has_stopped_though_the_server_calls_it_a_failure_is_stopped() -> None:
    Starting(FULL).stop("web", 10.0)


def test_one_that_goes_on_is_told_with_the_reason_and_the_way_out() -> None:
    server = Starting(FULL)
    server.running = True
    with pytest.raises(ExternalError, match=r"disk quota exceeded; its disk is full, or its pool: remove what"):
        server.stop("web", 10.0)


class Stopping(Starting):
    """One that runs; `ends_after`: seconds from the first try until it has ended by itself, as it was asked to."""

    def __init__(self, *words: str, ends_after: float, always: bool = False) -> None:
        super().__init__(*words, always=always)
        self._ends_after = ends_after
        self.forced_at: float | None = None
        self.running = True

    def _set_state(self, *words: Any, force: bool = False, **options: Any) -> None:
        now = self.clock.steady()
        if force:
            self.forced_at, self.running = now, False
            return
        self.running = now < self._ends_after
        if self.running:
            super()._set_state(*words, **options)
            self.clock.sleep(self._ends_after - now)
            self.running = False


@pytest.mark.parametrize(
    "said",
    [
        "The instance cannot be cleanly shutdown as in Error status",
        'Instance is busy running a "create" operation',
        "operation not found",
    ],
)
def test_one_that_serves_is_not_cut_off_since_lxd_could_not_ask_it_to_end(said: str) -> None:
    """Its monitor was silent for 5 s, LXD was busy with it, or has restarted and asks it no more."""
    server = Stopping(said, ends_after=20.0)
    server.shut_down("web", 60.0)
    assert (server.running, server.forced_at) == (False, None)


def test_one_that_lxd_cannot_ask_at_all_is_cut_off_at_the_end_of_its_time() -> None:
    server = Stopping("Instance is busy running a start operation", ends_after=300.0, always=True)
    server.shut_down("web", 60.0)
    assert server.forced_at is not None
    assert 60.0 <= server.forced_at < 62.0
