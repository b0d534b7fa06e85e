"""The heartbeat, the marks and the watches of a primary."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from vcrecovery.primary.heartbeat import Probes, beat, queue_length
from vcrecovery.primary.marks import Marks
from vcrecovery.primary.watches import WatchError, count_folders, ensure_watches


class StopBeatingError(Exception):
    pass


def beats(folder: Path, script: list[str | None]) -> list[dict[str, float | None]]:
    """Beats once for each entry, with that mark set (or, for None, all removed) when the probe before has been sent."""
    state, run = folder / "state", folder / "run"
    (run / "lsyncd").mkdir(parents=True, exist_ok=True)
    sent, seen = run / "lsyncd/sent", []
    clock, ticks = iter(range(100, 200)), iter(range(1000))
    steps = iter([*script, "stop"])

    def step(seconds: float) -> None:
        if sent.exists():
            seen.append(json.loads((state / "heartbeat").read_text()))
        mark = next(steps)
        for file in filter(Path.is_file, [sent, *run.iterdir()]):
            file.unlink()
        if mark == "stop":
            raise StopBeatingError
        sent.write_text(max(path.name for path in state.glob("probe-*")))
        if mark is not None:
            (run / mark).touch()

    with pytest.raises(StopBeatingError):
        beat(str(state), str(run), 1.0, lambda: float(next(clock)), step, steady=lambda: float(next(ticks)))
    return seen


def test_a_probe_that_is_not_sent_is_no_heartbeat(tmp_path: Path) -> None:
    probes = Probes(str(tmp_path / "state"), str(tmp_path))
    (tmp_path / "lsyncd").mkdir()
    for at in range(1, 31):
        probes.add(float(at))
        assert probes.sent() is None
    # The oldest, which a long backlog brings first, and the newest are among those that are left.
    left = sorted(path.name for path in (tmp_path / "state").iterdir())
    assert (left[0], left[-1]) == ("probe-000000000001000", "probe-000000000030000")
    assert len(left) < 12
    (tmp_path / "lsyncd/sent").write_text(left[0])
    assert probes.sent() == 1.0
    assert probes.sent() is None
    (tmp_path / "lsyncd/sent").write_text(left[-1])
    assert probes.sent() == 30.0
    assert not list((tmp_path / "state").iterdir())


@pytest.mark.parametrize(
    "sent",
    [
        "probe-001795874849000",  # of the version before, which had the wall clock's time there
        "probe-99999999999999999999",
        "x",
    ],
)
def test_what_lsyncd_has_sent_of_others_says_nothing_of_a_probe(tmp_path: Path, sent: str) -> None:
    (tmp_path / "lsyncd").mkdir()
    probes = Probes(str(tmp_path / "state"), str(tmp_path))
    probes.add(5.0)
    (tmp_path / "lsyncd/sent").write_text(sent)
    assert probes.sent() is None
    probes.add(6.0)
    assert probes.sent() is None
    newest = max(path.name for path in (tmp_path / "state").iterdir())
    (tmp_path / "lsyncd/sent").write_text(newest)
    assert probes.sent() == 6.0


@pytest.mark.parametrize("left", ["state/probe-000000090000000", "lsyncd/sent"])
def test_a_restart_goes_on_behind_what_was_there(tmp_path: Path, left: str) -> None:
    """After a boot, too: that of the kernel's clock is 0 then, and lsyncd may see the old ones being removed."""
    for folder in ("state", "lsyncd"):
        (tmp_path / folder).mkdir()
    (tmp_path / left).write_text("probe-000000090000000")
    probes = Probes(str(tmp_path / "state"), str(tmp_path))
    probes.add(1.0)
    (tmp_path / "lsyncd/sent").write_text("probe-000000090000000")
    assert probes.sent() is None
    (tmp_path / "lsyncd/sent").write_text("probe-000000090000001")
    assert probes.sent() == 1.0


@pytest.mark.parametrize("step", [-3600.0, -30.0, 3600.0])
def test_a_clock_that_is_set_does_not_make_the_files_newer(tmp_path: Path, step: float) -> None:
    """A probe is made at each full second of the kernel's clock, and sent after the clock was set."""
    state, sent = tmp_path / "state", tmp_path / "lsyncd/sent"
    sent.parent.mkdir()
    ticks, found = [0.0], list[float]()
    sent_at = {5.0: "probe-000000000002000", 6.0: "probe-000000000002000", 8.0: "probe-000000000007000"}

    def sleep(seconds: float) -> None:
        with contextlib.suppress(FileNotFoundError):
            found.append(json.loads((state / "heartbeat").read_text())["at"])
            (state / "heartbeat").unlink()
        ticks[0] += 1
        if ticks[0] > 9:
            raise StopBeatingError
        if ticks[0] in sent_at:
            sent.write_text(sent_at[ticks[0]])

    with pytest.raises(StopBeatingError):
        beat(
            str(state), str(tmp_path), 1.0, lambda: 10_000 + ticks[0] + (step if ticks[0] >= 4 else 0), sleep,
            steady=lambda: ticks[0],
        )  # fmt: skip
    assert found == [10_002 + step, 10_007 + step]


def test_what_was_good_gets_the_time_of_a_clock_that_is_set(tmp_path: Path) -> None:
    def clock() -> float:
        return 10_000 + ticks[0] - (3600 if ticks[0] >= 3 else 0)

    ticks, seen = [0.0], list[dict[str, float | None]]()
    state, sent = tmp_path / "state", tmp_path / "lsyncd/sent"
    sent.parent.mkdir()

    def sleep(seconds: float) -> None:
        with contextlib.suppress(FileNotFoundError):
            seen.append(json.loads((state / "heartbeat").read_text()))
            (state / "heartbeat").unlink()
        ticks[0] += 1
        sent.write_text(max(path.name for path in state.glob("probe-*")))
        if ticks[0] == 2:
            (tmp_path / "due").touch()
        if ticks[0] > 4:
            raise StopBeatingError

    with pytest.raises(StopBeatingError):
        beat(str(state), str(tmp_path), 1.0, clock, sleep, steady=lambda: ticks[0])
    assert [(entry["at"], entry["good_until"]) for entry in seen] == [
        (10_000, None), (10_001, 10_000), (6_402, 6_400), (6_403, 6_400),
    ]  # fmt: skip


def test_a_heartbeat_vouches_for_nothing_while_something_may_be_missing(tmp_path: Path) -> None:
    found = beats(tmp_path, ["starting", "due", "reconciling", None, "due", None])
    assert [(entry["at"], entry["good_until"]) for entry in found] == [
        (100.0, 0.0), (101.0, 0.0), (102.0, 0.0), (103.0, None), (104.0, 103.0), (105.0, None),
    ]  # fmt: skip


def test_a_restart_remembers_what_was_good(tmp_path: Path) -> None:
    beats(tmp_path, [None])
    found = beats(tmp_path, ["starting"])
    assert found[0]["good_until"] == 100.0


def test_the_queue_is_read_from_lsyncds_status(tmp_path: Path) -> None:
    status = tmp_path / "status"
    assert queue_length(str(status)) is None
    status.write_text("Lsyncd status report at ...\n\nSync1 source=/\nThere are 17 delays\nactive Modify x\n")
    assert queue_length(str(status)) == 17


def test_marks(tmp_path: Path) -> None:
    marks = Marks(str(tmp_path / "run"))
    assert not marks.any
    (tmp_path / "run/due").touch()
    marks.begin()
    assert marks.any
    (tmp_path / "run/due").touch()
    marks.end()
    assert marks.any
    marks.begin()
    marks.end()
    assert not marks.any


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for path in ("a/b/c", "left/out", "x*y"):
        (tmp_path / "tree" / path).mkdir(parents=True)
    (tmp_path / "tree/link").symlink_to("a")
    (tmp_path / "list").write_text("/left\n/x?y\n")
    return tmp_path


def test_folders_are_counted_without_what_is_left_out(tree: Path) -> None:
    assert count_folders(str(tree / "tree"), frozenset()) == 7
    assert count_folders(str(tree / "tree"), frozenset({b"/left"})) == 5


def test_the_limit_is_raised_never_lowered(tree: Path) -> None:
    limit = tree / "limit"
    limit.write_text("100\n")
    assert "raised from 100" in ensure_watches(str(tree / "tree"), str(tree / "list"), str(limit))
    assert int(limit.read_text()) == int(5 * 1.5) + 8192
    assert "allows 8199" in ensure_watches(str(tree / "tree"), str(tree / "list"), str(limit))


def test_a_limit_that_cannot_be_raised_is_named_with_the_figures(tree: Path) -> None:
    limit = tree / "limit"
    limit.symlink_to("/proc/sys/kernel/ngroups_max")  # cannot be written, and is 65536
    assert "5 folders" in ensure_watches(str(tree / "tree"), str(tree / "list"), str(limit))
    limit.unlink()
    limit.symlink_to("/proc/sys/kernel/random/entropy_avail")  # 256, and nobody changes it
    for number in range(300):
        (tree / "tree" / str(number)).mkdir()
    with pytest.raises(WatchError, match=r"has 305 folders to watch, but .* is 256 and cannot be raised to 8649"):
        ensure_watches(str(tree / "tree"), str(tree / "list"), str(limit))
