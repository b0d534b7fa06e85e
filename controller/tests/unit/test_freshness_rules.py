"""How old a standby is, rule by rule: what each word of its primary's two files means, and where they are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from set_clock import SetClock

from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.errors import ExternalError
from vcrecovery.plan.load import load_plan
from vcrecovery.plan.model import Secondary
from vcrecovery.transfer.freshness import (
    RECONCILE,
    Freshness,
    Reconcile,
    freshness_of,
    from_the_future,
    progress_line,
    read_age,
    read_age_lightly,
    read_freshness,
    read_freshness_quietly,
    wait_for_sync,
)
from vcrecovery.transfer.heartbeat_copy import HEARTBEAT, TEMPLATE

COMPARE = "the whole tree has to be compared again"
LARGEST = 65536


def fresh_of(report: dict[str, Any] | None = None, **heartbeat: Any) -> Freshness:
    """Of a heartbeat of 5, with these words."""
    said = None if report is None else json.dumps(report).encode()
    return freshness_of("web", json.dumps({"at": 5, **heartbeat}).encode(), said)


# -- the heartbeat ---------------------------------------------------------------------------------------------


def test_without_another_word_everything_up_to_the_heartbeat_has_arrived() -> None:
    assert fresh_of() == Freshness(5.0, heard_at=5.0)
    assert fresh_of().whole
    assert fresh_of(good_until=5).whole


def test_what_is_missing_makes_it_as_old_as_what_is_not() -> None:
    fresh = fresh_of(good_until=4)
    assert (fresh.synced_through, fresh.heard_at, fresh.detail, fresh.whole) == (4.0, 5.0, COMPARE, False)
    assert fresh_of({"began": 1}, good_until=4).detail == COMPARE


def test_why_the_comparison_failed_is_not_lost() -> None:
    assert fresh_of({"began": 1, "error": "no space left on device"}, good_until=4).detail == "no space left on device"
    # That of the last time, where nothing is missing by now, is none.
    assert fresh_of({"began": 1, "error": "no space left on device"}).detail == ""


@pytest.mark.parametrize(
    ("good_until", "synced"), [(0, None), (-1, None), (0.5, 0.5), (1, 1.0)], ids=["none", "before", "half", "one"]
)
def test_before_the_first_sync_has_ended_there_is_no_age(good_until: float, synced: float | None) -> None:
    fresh = fresh_of({"began": 1}, good_until=good_until, queue=3, units={"nginx": "failed"}, boot="b1", final=True)
    assert fresh.synced_through == synced
    assert fresh.detail == ("the first sync has not ended" if synced is None else COMPARE)
    assert not fresh.whole
    assert (fresh.heard_at, fresh.queue, fresh.units, fresh.boot) == (5.0, 3, {"nginx": "failed"}, "b1")
    assert fresh.reconcile == Reconcile(1.0)
    # Its shutdown vouches for nothing then.
    assert fresh.final is (synced is not None)


def test_where_none_has_arrived_that_is_said() -> None:
    fresh = freshness_of("web", None, b'{"began": 1}')
    assert fresh == Freshness(None, "no heartbeat has arrived in web yet", reconcile=Reconcile(1.0))


@pytest.mark.parametrize(
    ("word", "count"), [(0, 0), (1, 1), (2**53, 2**53), (2**53 + 1, None), (-1, None), ("7", None), (True, None)]
)
def test_what_is_a_count(word: object, count: int | None) -> None:
    fresh = fresh_of({"began": 1, "bytes": word, "files": word}, queue=word)
    assert fresh.reconcile is not None
    assert (fresh.queue, fresh.reconcile.bytes, fresh.reconcile.files) == (count, count, count)


@pytest.mark.parametrize(("word", "final"), [(True, True), (1, False), ("true", False), (None, False)])
def test_only_a_plain_word_says_that_it_was_the_last_act(word: object, final: bool) -> None:
    assert fresh_of(final=word).final is final


def test_units_are_taken_as_far_as_they_can_be_shown() -> None:
    assert fresh_of().units is None
    assert fresh_of(units=["nginx"]).units is None
    assert fresh_of(units={}).units == {}
    units = {"a.service": "failed", "b\x1b[2J": "in\nactive", "c": 5, "": "failed", "d": ""}
    assert fresh_of(units=units).units == {"a.service": "failed", "b?[2J": "in?active"}
    assert len(fresh_of(units={f"u{number}": "failed" for number in range(30)}).units or ()) == 20
    assert fresh_of(boot="x" * 301).boot == "x" * 300
    assert fresh_of(boot=7).boot is None


@pytest.mark.parametrize("good_until", [5, 0])
def test_where_it_sends_to_and_where_it_looks_are_its_words(good_until: int) -> None:
    fresh = fresh_of(good_until=good_until, sent=7, receiver="sec2", knows=["sec1", 5, "", "sec\x1b2"])
    assert (fresh.sent, fresh.receiver, fresh.knows) == (7, "sec2", ("sec1", "sec?2"))
    assert fresh_of(knows=[f"sec{number}" for number in range(30)]).knows == tuple(f"sec{n}" for n in range(20))
    assert (fresh_of(knows="sec1").knows, fresh_of(receiver=["sec1"]).receiver) == ((), None)


def test_a_heartbeat_that_cannot_be_read_leaves_the_report() -> None:
    fresh = freshness_of("web", b"{", b'{"began": 1}')
    assert fresh == Freshness(None, "the heartbeat in web cannot be read", reconcile=Reconcile(1.0))


# -- the report ------------------------------------------------------------------------------------------------


def test_a_comparison_that_has_ended() -> None:
    report = {"began": 1, "ended": 3, "bytes": 0, "files": 0, "error": "a\nb", "list_error": "c"}
    assert fresh_of(report).reconcile == Reconcile(1.0, 3.0, 0, 0, "a?b", "c")


def test_what_is_never_sent_is_the_primarys_word() -> None:
    """A program of before has not said, and what it says may be anything."""
    assert fresh_of({"began": 1}).reconcile == Reconcile(1.0, never_sent=())
    found = fresh_of({"began": 1, "never_sent": ["/mnt/a", 5, "", "/mnt/\x1b[2J\udcff", "/" + "x" * 400]}).reconcile
    assert found == Reconcile(1.0, never_sent=("/mnt/a", "/mnt/?[2J?", "/" + "x" * 299))
    for number, kept in ((5, 5), (6, 5), (3000, 5)):
        names = [f"/mnt/{n}" for n in range(number)]
        assert fresh_of({"began": 1, "never_sent": names}).reconcile == Reconcile(1.0, never_sent=tuple(names[:kept]))
    for odd in (None, "/mnt/a", {"/mnt/a": 1}, 7, [["/mnt/a"]], ["srv; all is well"]):
        assert fresh_of({"began": 1, "never_sent": odd}).reconcile == Reconcile(1.0)


def test_a_comparison_that_runs_tells_how_far_it_is() -> None:
    progress = {"bytes": 0, "files": 9, "percent": 0, "remaining": 0}
    found = fresh_of({"began": 1, "files": 8, "progress": progress}).reconcile
    assert found == Reconcile(1.0, files=9, sent=0, percent=0, remaining=0.0)
    # It does not know yet how long it takes.
    del progress["remaining"]
    found = fresh_of({"began": 1, "progress": progress}).reconcile
    assert found == Reconcile(1.0, files=9, sent=0, percent=0)


def test_what_is_too_large_is_not_looked_at() -> None:
    heartbeat, report = b'{"at": 5}', b'{"began": 1}'
    fresh = freshness_of("web", heartbeat.ljust(LARGEST), report.ljust(LARGEST))
    assert fresh == Freshness(5.0, heard_at=5.0, reconcile=Reconcile(1.0))
    fresh = freshness_of("web", heartbeat.ljust(LARGEST + 1), report)
    assert (fresh.synced_through, fresh.reconcile) == (None, Reconcile(1.0))
    assert fresh.detail == "the heartbeat in web is too large to be one: its primary has not written it well"
    fresh = freshness_of("web", heartbeat, report.ljust(LARGEST + 1))
    assert (fresh.synced_through, fresh.reconcile) == (5.0, None)
    assert fresh.detail == "the report in web is too large to be one: its primary has not written it well"


@pytest.mark.parametrize(
    ("heard_at", "synced", "said"),
    [
        (160.0, 100.0, ""),
        (None, None, ""),
        (161.0, None, "its newest heartbeat is 61 s in the future: its primary's clock or this one was set"),
        (100.0, 161.0, "its newest heartbeat is 61 s in the future: its primary's clock or this one was set"),
    ],
)
def test_two_clocks_are_never_quite_the_same(heard_at: float | None, synced: float | None, said: str) -> None:
    assert from_the_future(Freshness(synced, heard_at=heard_at), 100.0) == said


# -- where they are read ---------------------------------------------------------------------------------------


class Lxd:
    """A server far away. Each of `files` is read as often as is counted in `read`; an error is raised."""

    is_here = False

    def __init__(self, **files: object) -> None:
        self.files = {HEARTBEAT: files.get("heartbeat"), RECONCILE: files.get("report"), TEMPLATE: files.get("copy")}
        self.read: list[str] = []

    def _found(self, service: str, path: str) -> bytes | None:
        assert service == "web"
        self.read.append({HEARTBEAT: "heartbeat", RECONCILE: "report", TEMPLATE: "copy"}[path])
        found = self.files[path]
        if isinstance(found, Exception):
            raise found
        return None if found is None else json.dumps(found).encode()

    file = template = _found


@pytest.fixture
def secondary(plan_file: Path) -> Secondary:
    return load_plan(plan_file).secondaries["sec1"]


WHOLE, LACKS, REPORT = {"at": 5}, {"at": 5, "good_until": 4}, {"began": 1, "error": "no space left"}


def no(_fresh: Freshness) -> bool:
    return False


def yes(_fresh: Freshness) -> bool:
    return True


@pytest.mark.parametrize(
    ("files", "enough", "read", "found"),
    [
        # Each read starts a program there.
        ({"copy": WHOLE}, yes, ["copy"], Freshness(5.0, heard_at=5.0)),
        ({"copy": WHOLE, "heartbeat": {"at": 9}}, no, ["copy", "heartbeat"], Freshness(9.0, heard_at=9.0)),
        ({"copy": LACKS, "heartbeat": {"at": 9}}, yes, ["copy", "heartbeat"], Freshness(9.0, heard_at=9.0)),
        ({"heartbeat": WHOLE}, yes, ["copy", "heartbeat"], Freshness(5.0, heard_at=5.0)),
        (
            {"heartbeat": LACKS, "report": REPORT},
            yes,
            ["copy", "heartbeat", "report"],
            Freshness(4.0, "no space left", 5.0, reconcile=Reconcile(1.0, error="no space left")),
        ),
    ],
)
def test_no_more_is_read_than_an_age_needs(
    secondary: Secondary,
    files: dict[str, Any],
    enough: Callable[[Freshness], bool],
    read: Sequence[str],
    found: Freshness,
) -> None:
    lxd = Lxd(**files)
    assert read_age(cast("LxdServer", lxd), "web", secondary, enough) == found
    assert lxd.read == read


def test_all_that_is_known_is_in_both_files(secondary: Secondary) -> None:
    lxd = Lxd(heartbeat=WHOLE, report={"began": 1})
    assert read_freshness(cast("LxdServer", lxd), "web", secondary).reconcile == Reconcile(1.0)
    assert lxd.read == ["heartbeat", "report"]


def test_a_server_that_does_not_answer_is_the_reason(secondary: Secondary) -> None:
    lxd = cast("LxdServer", Lxd(heartbeat=ExternalError("LXD on secondary sec1 does not answer", "see that it runs")))
    with pytest.raises(ExternalError):
        read_freshness(lxd, "web", secondary)
    assert read_freshness_quietly(lxd, "web", secondary) == Freshness(None, "LXD on secondary sec1 does not answer")


def test_on_the_secondary_itself_they_are_read_from_the_disk(secondary: Secondary, tmp_path: Path) -> None:
    rootfs = tmp_path / "rootfs"
    far = Lxd(heartbeat={"at": 9}, copy={"at": 9})
    here = SimpleNamespace(is_here=True, rootfs=lambda pool, service: rootfs, file=far.file, template=far.template)
    lxd = cast("LxdServer", here)
    # Its tree cannot be reached, as where the pool is not mounted: LXD hands it out.
    assert read_age(lxd, "web", secondary, yes).synced_through == 9.0
    assert far.read == ["heartbeat"]
    (rootfs / HEARTBEAT[1:]).parent.mkdir(parents=True)
    (rootfs / HEARTBEAT[1:]).write_text('{"at": 5}')
    assert read_age(lxd, "web", secondary, yes).synced_through == 5.0
    assert far.read == ["heartbeat"]


def test_who_asks_all_the_time_starts_no_program_there(secondary: Secondary, tmp_path: Path) -> None:
    far = Lxd(heartbeat={"at": 9}, report={"began": 1}, copy={"at": 5, "good_until": 4})
    assert read_age_lightly(cast("LxdServer", far), "web", secondary) == Freshness(4.0, COMPARE, 5.0)
    assert far.read == ["copy"]
    rootfs = tmp_path / secondary.storage_pool / "web"
    here = SimpleNamespace(is_here=True, rootfs=lambda pool, service: tmp_path / pool / service)
    lxd = cast("LxdServer", here)
    assert read_age_lightly(lxd, "web", secondary) == Freshness(None, "the files of web cannot be read here")
    (rootfs / HEARTBEAT[1:]).parent.mkdir(parents=True)
    (rootfs / HEARTBEAT[1:]).write_text('{"at": 5}'.ljust(LARGEST))
    (rootfs / RECONCILE[1:]).write_text('{"began": 1}')
    assert read_age_lightly(lxd, "web", secondary) == Freshness(5.0, heard_at=5.0)
    (rootfs / HEARTBEAT[1:]).write_text('{"at": 5}'.ljust(LARGEST + 1))
    assert "too large" in read_age_lightly(lxd, "web", secondary).detail
    with (rootfs / HEARTBEAT[1:]).open("r+b") as larger_than_the_memory:
        larger_than_the_memory.truncate(1 << 38)
    assert "too large" in read_age_lightly(lxd, "web", secondary).detail


def test_a_comparison_that_has_only_begun_has_sent_nothing() -> None:
    assert progress_line(Reconcile(1.0)) == progress_line(Reconcile(1.0, sent=0, files=0, percent=0))
    assert progress_line(Reconcile(1.0)).startswith("0.0 MB, 0 files, 0 %")


# -- waiting ---------------------------------------------------------------------------------------------------


class Primary(Lxd):
    """Its heartbeats as they come, one for each look; the last one stays."""

    def __init__(self, *beats: dict[str, Any], reports: Sequence[dict[str, Any]] = ()) -> None:
        super().__init__()
        self._left = {HEARTBEAT: list(beats), RECONCILE: list(reports)}

    def file(self, service: str, path: str) -> bytes | None:
        left = self._left[path]
        self.files[path] = left[0] if left else None
        if len(left) > 1:
            left.pop(0)
        return self._found(service, path)


def wait(
    lxd: Primary, secondary: Secondary, clock: SetClock, newer: bool = True, tell: Callable[[str], None] = print
) -> float:
    return wait_for_sync(cast("LxdServer", lxd), "web", secondary, clock, 10.0, tell, newer=newer)


def test_what_was_there_at_the_call_is_waited_for(secondary: Secondary) -> None:
    clock = SetClock(100.0)
    beats = ({"at": 90}, {"at": 90}, {"at": 95, "good_until": 80}, {"at": 95, "good_until": 90}, {"at": 99})
    assert wait(Primary(*beats), secondary, clock) == pytest.approx(100.6 - 99)
    # With the first that is newer than the heartbeat of the call, and whole.
    assert clock.time == pytest.approx(100.6)


def test_without_that_one_whole_sync_is_enough(secondary: Secondary) -> None:
    clock = SetClock(100.0)
    beats = ({"at": 90, "good_until": 0}, {"at": 90, "good_until": 0}, {"at": 90})
    assert wait(Primary(*beats), secondary, clock, newer=False) == pytest.approx(10.2)


def test_the_first_heartbeat_of_all_is_newer_than_none(secondary: Secondary) -> None:
    class Nothing(Primary):
        def file(self, service: str, path: str) -> bytes | None:
            if not self.read:
                self.read.append("nothing")
                return None
            return super().file(service, path)

    assert wait(Nothing({"at": 101}), secondary, SetClock(100.0)) == 0.0


def test_the_time_is_kept_and_the_reason_told(secondary: Secondary) -> None:
    clock = SetClock(100.0)
    with pytest.raises(ExternalError) as caught:
        wait(Primary({"at": 90, "good_until": 80}), secondary, clock)
    assert caught.value.message == f"no sync of web has ended within 10 s: {COMPARE}"
    assert caught.value.hint == "see `journalctl -u vcrecovery-sync -u vcrecovery-reconcile` on the primary"
    assert 110.0 < clock.time < 110.5
    with pytest.raises(ExternalError) as caught:
        wait(Primary({"at": 90}), secondary, SetClock(100.0))
    assert caught.value.message == "no sync of web has ended within 10 s"


def test_how_far_a_first_sync_has_come_is_told_when_it_has_come_further(secondary: Secondary) -> None:
    def at(sent: int, **more: Any) -> dict[str, Any]:
        progress = {"bytes": sent, "files": 7, "percent": 40, "remaining": 12}
        return {"began": 1, "progress": progress, **more}

    told: list[str] = []
    reports = [{"began": 1}, at(0), at(0), at(2_000_000), at(2_000_000), at(9_000_000, ended=2)]
    with pytest.raises(ExternalError):
        wait(Primary({"at": 90, "good_until": 0}, reports=reports), secondary, SetClock(100.0), tell=told.append)
    assert told == ["0.0 MB, 7 files, 40 %, about 12 s left", "2.0 MB, 7 files, 40 %, about 12 s left"]
