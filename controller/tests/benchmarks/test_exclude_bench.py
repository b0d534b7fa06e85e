"""The benchmark's pure parts: its generator, the paper's algorithm, and what it says of a list."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from exclude_bench.kernel import kernels
from exclude_bench.lists import BY_HAND, TIMED, make, written_by_hand
from exclude_bench.measure import measured, peak_memory, spread
from exclude_bench.packages import with_directories
from exclude_bench.paper import every_file, optimised
from exclude_bench.stage_database import DatabaseCost
from exclude_bench.stage_rsync import SyncCost, SyncCosts
from exclude_bench.targets import filter_ratio, targets
from exclude_bench.tree import TreeWriter, data_files, every_nth_changed, linked_copy, live_paths
from exclude_bench.truth import Faults, excluded_paths, faults
from vcrecovery.errors import ExternalError

APPARMOR = [
    b"/etc",
    b"/etc/apparmor",
    b"/etc/apparmor/parser.conf",
    b"/etc/apparmor/subdomain.conf",
    b"/etc/init.d",
    b"/etc/init.d/apparmor",
]


def test_the_generator_makes_the_number_of_files_that_is_asked_for_and_the_same_ones_each_time() -> None:
    made = kernels(30_000, seed=1)
    files = [path for package in made.packages for path in package.files]
    assert len(files) == 30_000
    assert len(set(files)) == 30_000
    assert made == kernels(30_000, seed=1)
    assert made != kernels(30_000, seed=2)
    assert not {*made.derived, *made.foreign} & {path for package in made.packages for path in package.recorded}


def test_a_package_records_each_directory_before_what_is_in_it() -> None:
    assert with_directories([b"/b/c/d", b"/b/a"]) == [b"/.", b"/b", b"/b/a", b"/b/c", b"/b/c/d"]


def test_the_papers_algorithm_gives_the_papers_own_example() -> None:
    necessary = {b"/etc", b"/etc/passwd", b"/etc/init.d"}
    directories = {b"/etc", b"/etc/apparmor", b"/etc/init.d"}
    assert optimised(APPARMOR, necessary, directories) == [b"/etc/apparmor", b"/etc/init.d/apparmor"]


def test_the_papers_algorithm_lists_a_directory_although_something_necessary_is_below_it() -> None:
    # /a is recorded by unnecessary packages alone: that a necessary one has /a/c without recording /a goes unnoticed.
    assert optimised([b"/a", b"/a/b"], {b"/a/c"}, {b"/a"}) == [b"/a"]


def test_the_papers_algorithm_forgets_a_directory_at_one_whose_name_sorts_between() -> None:
    paths = [b"/a", b"/a-b", b"/a-b/x", b"/a/c"]
    assert optimised(paths, frozenset(), {b"/a", b"/a-b"}) == [b"/a", b"/a-b", b"/a/c"]


def test_the_naive_list_holds_files_only() -> None:
    assert every_file(APPARMOR, {b"/etc", b"/etc/apparmor", b"/etc/init.d"}) == [
        b"/etc/apparmor/parser.conf",
        b"/etc/apparmor/subdomain.conf",
        b"/etc/init.d/apparmor",
    ]


def test_faults_of_a_list() -> None:
    live = {b"/m": True, b"/m/own": False, b"/m/dkms": False, b"/other": False, b"/own2": False}
    assert excluded_paths(live, [b"/m"]) == {b"/m", b"/m/own", b"/m/dkms"}
    assert faults(live, [b"/m"], {b"/m/own", b"/own2"}) == Faults(wrongly_excluded=1, needlessly_synced=1, synced=2)


def test_a_linked_copy_leaves_out_what_it_should_and_changes_reach_the_roots_named_alone(tmp_path: Path) -> None:
    source, copy, other = (tmp_path / name for name in ("source", "copy", "other"))
    source.mkdir()
    writer = TreeWriter(source)
    paths = data_files(writer, 100)
    writer.file(b"/gone/below")
    writer.link(b"/link", b"nowhere")
    linked_copy(source, copy, {b"/gone"})
    linked_copy(source, other, frozenset())
    assert dict(live_paths(copy)) == {p: d for p, d in live_paths(source) if not p.startswith(b"/gone")}
    assert (copy / "srv/data").stat().st_mtime_ns == (source / "srv/data").stat().st_mtime_ns
    every_nth_changed((source, copy), paths, 10, turn=0)
    changed = [p for p in paths if _read(source, p) != _read(other, p)]
    assert len(changed) == 10
    assert all(_read(source, p) == _read(copy, p) for p in paths)


def test_the_writer_never_writes_through_a_symlink(tmp_path: Path) -> None:
    writer = TreeWriter(tmp_path / "root")
    writer.root.mkdir()
    (tmp_path / "outside").mkdir()
    writer.link(b"/out", b"../outside")
    with pytest.raises(FileExistsError):
        writer.file(b"/out/file")
    assert not list((tmp_path / "outside").iterdir())


@pytest.mark.parametrize(
    ("ours", "naive", "ratio"),
    [
        ((2.0, 1.0, 4.0), (8.0, 9.0, 10.0), 2.0),
        ((-1.0, -2.0, 4.0), (8.0, 9.0, 10.0), 2.0),
        ((-1.0, -2.0, -0.5), (8.0, 9.0, 10.0), None),
        ((-1.0, -2.0, 0.0), (8.0, 9.0, 10.0), None),
        ((2.0, 1.0, 4.0), (0.0, 9.0, 10.0), None),
        ((-2.0, -1.0, -1.0), (-8.0, -9.0, -10.0), None),
    ],
)
def test_the_filter_ratio_is_a_lower_bound_and_a_list_that_costs_nothing_has_none(
    ours: tuple[float, ...], naive: tuple[float, ...], ratio: float | None
) -> None:
    assert filter_ratio([_cost("ours", *ours), _cost("naive", *naive)], "s") == ratio


def test_a_list_whose_cost_drowned_in_the_noise_meets_nothing() -> None:
    some = spread([0.1])
    costs = SyncCosts(1, 1, [_cost("ours", -0.5), _cost("naive", 8.0)])
    found = targets(DatabaseCost(1, 1, 1, some, some, 10**6), costs)
    assert [target.verdict for target in found] == ["ok", "ok", "VOID: a list cost no measurable time"]


def test_the_list_by_hand_names_directories_as_they_are_on_a_merged_usr(tmp_path: Path) -> None:
    (tmp_path / "usr/lib/modules").mkdir(parents=True)
    (tmp_path / "lib").symlink_to("usr/lib")
    found = written_by_hand(tmp_path)
    assert b"/usr/lib/modules" in found
    assert b"/lib/modules" not in found
    made = make(BY_HAND, tmp_path, ["linux-*"])
    assert made.rsync.splitlines() == found
    assert len(found) < 10


def test_rsync_and_lsyncd_are_timed_with_the_papers_list_as_written_and_with_names_resolved() -> None:
    assert {"ours", "paper", "paper, resolved", "by hand", "naive"} == set(TIMED)


def test_peak_memory_is_the_childs_not_the_callers() -> None:
    held = bytearray(b"x" * 200_000_000)
    assert peak_memory([sys.executable, "-S", "-c", "pass"], timeout=20) < 50_000_000
    assert peak_memory([sys.executable, "-S", "-c", "b'x' * 100_000_000"], timeout=20) > 100_000_000
    assert held


def test_a_command_that_hangs_or_fails_is_one_line() -> None:
    with pytest.raises(ExternalError, match="did not finish within 0 s"):
        measured(["sleep", "60"], timeout=0.2)
    with pytest.raises(ExternalError, match=r"^sh failed with status 3: no$"):
        measured(["sh", "-c", "echo no >&2; exit 3"], timeout=20)


def _cost(kind: str, *values: float) -> SyncCost:
    some = spread(values)
    return SyncCost("s", kind, some, some, some, some)


def _read(root: Path, path: bytes) -> bytes:
    return (root / path.decode().lstrip("/")).read_bytes()
