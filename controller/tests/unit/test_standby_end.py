"""A container that is to serve, and has ended: who wanted that, how often it is started again, what is said of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from view_cases import CRASHED, NOW, standby, view

from simulated.site import Site
from vcrecovery.core.episode import Episode, Outcome, Request, Step, StepRecord, Symptom
from vcrecovery.core.evidence import Switched
from vcrecovery.core.policy import Policy
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.core.standby_end import STEADY, WAITS, StandbyEnd, starts_in_a_row, wait_before
from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.lxd.last_words import LastWords
from vcrecovery.drivers.lxd.lifecycle import Happening, happening_in
from vcrecovery.report.findings import findings
from vcrecovery.standby.container import boots_with_its_machine
from vcrecovery.store.journal import Journal
from vcrecovery.store.standby_ends import StandbyEnds

KEPT = Request(automatic=True, again=True, symptom=Symptom.STANDBY_ENDED)


def episode(number: int, opened_at: float, request: Request = KEPT, outcome: Outcome = Outcome.DONE) -> Episode:
    return Episode(number, "web", number, "it has ended", request, opened_at, closed_at=opened_at + 3, outcome=outcome)


FAILOVER = episode(1, 0.0, Request(automatic=True))


# -- how often -------------------------------------------------------------------------------------------------


def test_each_start_soon_after_the_last_is_one_more_in_the_row() -> None:
    assert starts_in_a_row([FAILOVER], 10.0, None) == 0
    row = [episode(4, 80.0), episode(3, 30.0), episode(2, 10.0), FAILOVER]
    assert [starts_in_a_row(row[n:], 100.0 - 30 * n, None) for n in range(4)] == [3, 2, 1, 0]
    # One that did not bring it up is none, and does not end the row.
    refused = episode(5, 90.0, outcome=Outcome.REFUSED)
    assert starts_in_a_row([refused, *row], 100.0, None) == 3


def test_one_that_has_served_for_long_begins_a_new_row() -> None:
    row = [episode(3, 30.0), episode(2, 10.0), FAILOVER]
    assert starts_in_a_row(row, 33.0 + STEADY - 1, None) == 2
    assert starts_in_a_row(row, 33.0 + STEADY, None) == 0
    # In the middle, too.
    assert starts_in_a_row([episode(4, 33.0 + STEADY), *row], 40.0 + STEADY, None) == 1


def test_what_an_operator_does_or_acknowledges_begins_a_new_row() -> None:
    row = [episode(3, 30.0), episode(2, 10.0), FAILOVER]
    assert starts_in_a_row(row, 40.0, 33.0) == 0
    assert starts_in_a_row(row, 40.0, 20.0) == 1
    by_hand = episode(4, 50.0, Request(again=True))
    assert starts_in_a_row([episode(5, 60.0), by_hand, *row], 70.0, None) == 1


def test_one_that_was_given_up_after_its_switch_has_served() -> None:
    """A name server was away: it never came to its end, and the container ran."""
    given_up = episode(2, 10.0, outcome=Outcome.GIVEN_UP)
    served = replace(given_up, steps=(StepRecord(Step.SWITCH, 11.0, 12.0, True, Switched()),))
    assert starts_in_a_row([given_up, FAILOVER], 20.0, None) == 0
    assert starts_in_a_row([served, FAILOVER], 20.0, None) == 1
    assert starts_in_a_row([served, FAILOVER], 12.0 + STEADY - 1, None) == 1
    assert starts_in_a_row([served, FAILOVER], 12.0 + STEADY, None) == 0


def test_the_waits_grow_and_end() -> None:
    waits = [wait_before(starts) for starts in range(len(WAITS) + 2)]
    assert waits[0] == 0.0
    assert waits[: len(WAITS)] == sorted(WAITS)
    # All but the last begin while the fence of the failover counts, beside a hypervisor that is silent.
    assert max(WAITS[:-1]) + 10 < Policy().fence_valid_for
    assert waits[len(WAITS) :] == [None, None]


# -- who wanted it ---------------------------------------------------------------------------------------------


def event(action: str, requestor: dict[str, str] | None = None, source: str = "/1.0/instances/web") -> str:
    asked = {} if requestor is None else {"requestor": requestor}
    return json.dumps({"type": "lifecycle", "metadata": {"action": action, "source": source, **asked}})


ROOT = {"username": "root", "protocol": "unix", "address": "@"}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (event("instance-shutdown"), Happening("web", "ended")),
        (event("instance-shutdown", ROOT), Happening("web", "ended", "root over unix")),
        (
            event("instance-stopped", {"username": "fecb2b0e8645b64d012c2d132cd5", "protocol": "tls"}),
            Happening("web", "ended", "fecb2b0e8645 over tls"),
        ),
        (event("instance-paused", ROOT), Happening("web", "frozen", "root over unix")),
        (event("instance-restarted"), Happening("web", "started")),
        (
            event("instance-started", ROOT, "/1.0/instances/web?project=a"),
            Happening("web", "started", "root over unix"),
        ),
        (event("instance-exec"), None),
        (event("instance-stopped", source="/1.0/instances/web/snapshots/s"), None),
        ("no event", None),
        ("[]", None),
        ('{"metadata": null}', None),
        ('{"metadata": {"action": "instance-stopped", "source": 7}}', None),
    ],
)
def test_lxd_tells_who_asked(message: str, expected: Happening | None) -> None:
    assert happening_in(message) == expected


LXC_LOG = b"""\
lxc web 20261124202113.108 WARN     cgfsng - ../src/lxc/cgroups/cgfsng.c:x:1619 - No such file or directory - Failed
lxc web 20261124202113.108 ERROR    start - start.c:start:2197 - No such file or directory - Failed to exec "/sbin/init"
lxc web 20261124202113.111 ERROR    start - ../src/lxc/start.c:__lxc_start:2107 - Failed to spawn container "web"
lxc 20261124202118.158 ERROR    commands - ../src/lxc/commands.c:x:128 - Failed to receive file descriptors
"""
CONSOLE = b"one\r\n\x1b[0;32mtwo\x1b[0m\r\n\r\n\xff\x07three\r\nfour: no space left on device\r\n"


class Logs(LastWords):
    def __init__(self, log: bytes | None, console: bytes | None) -> None:
        super().__init__("sec1", Path("/none"), cast(Clock, None))
        self._answers = [log, console]

    def _found(self, _call: Any) -> Any:
        content = self._answers.pop(0)
        return None if content is None else SimpleNamespace(content=content)


def test_what_a_container_said_last() -> None:
    assert Logs(LXC_LOG, CONSOLE).last_words("web") == 'No such file or directory - Failed to exec "/sbin/init"'
    # Only who asks had trouble there: the container itself ran.
    other = LXC_LOG.replace(b"lxc web ", b"lxc other ")
    assert (
        Logs(other, CONSOLE).last_words("web") == "two | \N{REPLACEMENT CHARACTER}three | four: no space left on device"
    )
    assert Logs(None, None).last_words("web") == ""
    assert len(Logs(None, b"x" * 100_000).last_words("web")) < 1000


# -- what is remembered, and said ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "found", "same"),
    [
        (5.0, 5.0, True),
        # It has run since, or LXD's clock was set; ours says nothing of that.
        (5.0, 7.0, False),
        (5.0, 4.0, False),
        (30.0, 30.0, True),
        # Of an older version.
        (None, 10.0, True),
        (None, 10.1, False),
    ],
)
def test_an_end_is_told_from_the_next_by_the_start_before_it(written: float | None, found: float, same: bool) -> None:
    assert StandbyEnd(1, 10.0, "root over unix", started_at=written).is_of(found) is same


def test_the_next_watcher_knows_who_wanted_it(tmp_path: Path) -> None:
    book = StandbyEnds(Journal(tmp_path / "journal.db"))
    assert book.all() == {}
    book.write("web", StandbyEnd(1, 10.0, "root over unix"))
    book.write("web", StandbyEnd(2, 20.0, given_up="it ended again after each of 4 starts"))
    again = StandbyEnds(Journal(tmp_path / "journal.db"))
    assert again.all() == {"web": StandbyEnd(2, 20.0, "", "it ended again after each of 4 starts")}
    again.forget("web")
    assert book.all() == {}


SERVES = ServiceState("web", 1, Side.STANDBY, NOW - 9999)
REFUSED = replace(episode(2, NOW - 60, outcome=Outcome.REFUSED), reason="its old primary runs")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, "its container is stopped; `vcrecovery failover web` brings it up"),
        ({"end": StandbyEnd(1, NOW, "root over unix")}, "stopped: so wanted by root over unix at 2026-11-22 "),
        ({"end": StandbyEnd(1, NOW)}, "stopped: so wanted by somebody at "),
        (
            {"end": StandbyEnd(1, NOW, given_up="it ended again after each of 4 starts")},
            "stopped, and is not started again automatically: it ended again after each of 4 starts; `vcrecovery",
        ),
        ({"last": REFUSED}, "stopped, and is not started automatically: its old primary runs; `vcrecovery failover"),
    ],
)
def test_status_says_why_it_does_not_run(more: dict[str, Any], expected: str) -> None:
    found = [str(finding) for finding in findings(view(reading=CRASHED, state=SERVES, standby=standby(), **more))]
    assert [text for text in found if expected in text], found


# -- a secondary that boots ------------------------------------------------------------------------------------


def test_a_machine_that_boots_starts_those_first_that_others_need(tmp_path: Path) -> None:
    site = Site(tmp_path, {"db": {}, "app": {"needs": ["db"]}, "front": {"needs": ["app", "db"]}, "mail": {}})
    found = {name: boots_with_its_machine(site.plan, name)["boot.autostart.priority"] for name in site.plan.services}
    site.close()
    assert found == {"db": "2", "app": "1", "front": "0", "mail": "0"}


def test_how_long_each_start_waits_and_after_how_many_there_is_no_other() -> None:
    assert [wait_before(starts) for starts in range(5)] == [0.0, 10.0, 45.0, 300.0, None]
