"""Every broken input is one clear line, and a good list survives it."""

from __future__ import annotations

from pathlib import Path

import pytest
from package_trees import make_dpkg, make_file, make_link

from vcrecovery.excludes import (
    ExcludeError,
    exclude_list,
    rules_from_json,
    shipped_rules,
    would_change,
    write_if_changed,
)
from vcrecovery.excludes.packages import Package
from vcrecovery.excludes.select import selected


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_dpkg(tmp_path, {"kernel": [b"/k/file"], "other": [b"/o/file"]})
    make_file(tmp_path, b"/k/file")
    return tmp_path


def message(root: Path, *packages: str, **more: object) -> str:
    with pytest.raises(ExcludeError) as caught:
        exclude_list(root, packages or ["kernel"], **more)  # type: ignore[arg-type]
    text = str(caught.value)
    assert "\n" not in text
    assert ":" in text
    return text


def status(root: Path) -> Path:
    return root / "var/lib/dpkg/status"


def test_a_root_without_a_database(tmp_path: Path) -> None:
    assert "holds no package database" in message(tmp_path)
    assert "is not a directory" in message(tmp_path / "missing")


def test_an_empty_status(root: Path) -> None:
    status(root).write_bytes(b"")
    assert "names no installed package" in message(root)


def test_a_status_cut_anywhere_is_found(root: Path) -> None:
    whole = status(root).read_bytes()
    for length in range(len(whole) - 1):
        status(root).write_bytes(whole[:length])
        message(root)
    status(root).write_bytes(whole)
    assert exclude_list(root, ["kernel"]).paths == (b"/k",)


def test_a_list_cut_anywhere_is_found(root: Path) -> None:
    path = root / "var/lib/dpkg/info/kernel.list"
    whole = path.read_bytes()
    for length in range(len(whole) - 1):
        path.write_bytes(whole[:length])
        if not whole[:length].endswith(b"\n"):
            assert "kernel" in message(root)


def test_a_list_of_another_package_cut_is_found(root: Path) -> None:
    (root / "var/lib/dpkg/info/other.list").write_bytes(b"/.\n/o\n/o/fi")
    assert "reinstall package other" in message(root)


def test_a_missing_list(root: Path) -> None:
    (root / "var/lib/dpkg/info/other.list").unlink()
    assert "package other:amd64 has no list of files" in message(root)


def test_a_status_that_cannot_be_read(root: Path) -> None:
    status(root).unlink()
    status(root).mkdir()
    assert "cannot be read" in message(root)


def test_cut_diversions_and_alternatives(root: Path) -> None:
    (root / "var/lib/dpkg/diversions").write_bytes(b"/a\n/b\n")
    assert "diversions" in message(root)
    (root / "var/lib/dpkg/diversions").write_bytes(b"")
    (root / "var/lib/dpkg/alternatives/editor").write_bytes(b"auto\n/usr/bin/editor\n\n/usr/bin/vi")
    assert "alternatives" in message(root)


def test_a_loop_of_symlinks(root: Path) -> None:
    make_link(root, b"/o", b"/p")
    make_link(root, b"/p", b"o")
    (root / "var/lib/dpkg/info/kernel.list").write_bytes(b"/.\n/o\n/o/file\n")
    assert "leads in a loop" in message(root)


def test_a_symlink_to_itself(root: Path) -> None:
    make_link(root, b"/o", b"o/deeper")
    (root / "var/lib/dpkg/info/kernel.list").write_bytes(b"/.\n/o\n/o/file\n")
    assert "leads in a loop" in message(root)


def test_a_pattern_that_matches_nothing_names_near_ones(root: Path) -> None:
    assert "did you mean kernel?" in message(root, "kernle")
    assert "--keep 'othr' matches no installed package: did you mean other?" in message(root, keep=["othr"])
    assert "did you mean kernel:amd64" in message(root, "kernel:amd46")


def test_nothing_asked_and_unknown_profile(root: Path) -> None:
    with pytest.raises(ExcludeError, match="nothing says what to exclude"):
        exclude_list(root, [])
    assert "choose one of vm-to-container" in message(root, profile="vm-to-vm")


def test_damaged_rules() -> None:
    for text in ("{", "[]", '{"generated": [{}]}', '{"profiles": {"p": {"families": []}}}'):
        with pytest.raises(ExcludeError, match="reinstall vcrecovery"):
            rules_from_json(text)
    assert set(shipped_rules().profiles) == {"vm-to-container"}


def test_selection_takes_globs_names_and_architectures(root: Path) -> None:
    packages = [Package("a", "amd64", "1"), Package("a", "i386", "1"), Package("ab", "amd64", "1")]
    assert selected(packages, ["a"]) == set(packages[:2])
    assert selected(packages, ["a:i386"]) == {packages[1]}
    assert selected(packages, ["a*"], keep=["*:amd64"]) == {packages[1]}
    assert selected(packages, [], tolerated=["nothing", "ab"]) == {packages[2]}


def test_a_list_is_written_only_when_it_changed(tmp_path: Path) -> None:
    path = tmp_path / "list"
    assert would_change(path, b"/a\n")
    assert write_if_changed(path, b"/a\n")
    path.chmod(0o640)
    before = path.stat()
    assert not would_change(path, b"/a\n")
    assert not write_if_changed(path, b"/a\n")
    assert path.stat().st_ino == before.st_ino
    assert write_if_changed(path, b"/b\n")
    assert path.stat().st_mode == before.st_mode
    assert list(tmp_path.iterdir()) == [path]


def test_an_empty_list_does_not_replace_a_good_one(tmp_path: Path) -> None:
    path = tmp_path / "list"
    write_if_changed(path, b"/a\n")
    with pytest.raises(ExcludeError, match="would become empty"):
        write_if_changed(path, b"")
    assert path.read_bytes() == b"/a\n"
    assert write_if_changed(path, b"", allow_empty=True)


def test_a_list_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ExcludeError, match="cannot be written"):
        write_if_changed(tmp_path / "missing" / "list", b"/a\n")
