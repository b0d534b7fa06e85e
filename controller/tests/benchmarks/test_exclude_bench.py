"""The benchmark's pure parts: its generator, the paper's algorithm, and what it says of a list."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from exclude_bench.kernel import kernels
from exclude_bench.measure import measured, peak_memory, spread
from exclude_bench.packages import with_directories
from exclude_bench.paper import every_file, optimised
from exclude_bench.stage_rsync import SyncCost
from exclude_bench.targets import Target, filter_ratio
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
    ("ours", "ratio"),
    [((2.0, 1.0, 4.0), 2.0), ((-1.0, -2.0, 4.0), 2.0), ((-1.0, -2.0, -0.5), float("inf"))],
)
def test_the_filter_ratio_is_a_lower_bound(ours: tuple[float, ...], ratio: float) -> None:
    costs = [_cost("ours", *ours), _cost("naive", 8, 9, 10)]
    assert filter_ratio(costs, "s") == ratio


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


def test_a_missed_target_says_by_how_much() -> None:
    assert Target("time", 0.4, 0.5, "s", at_most=True).verdict == "ok"
    assert Target("time", 0.75, 0.5, "s", at_most=True).verdict == "MISSED by 0.25 s"
    assert Target("ratio", 4.0, 5.0, "times", at_most=False).verdict == "MISSED by 1 times"


def _cost(kind: str, *values: float) -> SyncCost:
    some = spread(values)
    return SyncCost("s", kind, some, some, some, some)


def _read(root: Path, path: bytes) -> bytes:
    return (root / path.decode().lstrip("/")).read_bytes()
