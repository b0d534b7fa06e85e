"""Every broken input is one clear line, and a good list survives it."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path

import pytest
from good_list import survives
from package_trees import make_alternative, make_directory, make_dpkg, make_file, make_link

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
    if not more and root.is_dir():
        return survives(root, *(packages or ["kernel"]))
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
    for length in range(1, len(whole) - 1):
        path.write_bytes(whole[:length])
        if not whole[:length].endswith(b"\n"):
            assert "kernel" in message(root)


def make_sums(root: Path, package: str, paths: list[bytes]) -> Path:
    """The file that dh_md5sums makes, and that dpkg keeps beside the list."""
    lines = [hashlib.md5(b"x").hexdigest().encode() + b"  " + path[1:] + b"\n" for path in paths]  # noqa: S324
    sums = root / f"var/lib/dpkg/info/{package}.md5sums"
    sums.write_bytes(b"".join(lines))
    return sums


@pytest.mark.parametrize("package", ["kernel", "other"])
def test_a_list_cut_between_two_lines_is_found_by_its_checksums(tmp_path: Path, package: str) -> None:
    """Were the end of the other package's list lost, what both own would be left out."""
    paths = [b"/d/a", b"/d/b b", b"/d/c  c", b"/e"]
    make_dpkg(tmp_path, {"kernel": paths, "other": paths})
    for path in paths:
        make_file(tmp_path, path)
    assert exclude_list(tmp_path, ["kernel"]).paths == ()
    make_sums(tmp_path, package, paths)
    assert exclude_list(tmp_path, ["kernel"]).paths == ()
    listing = tmp_path / f"var/lib/dpkg/info/{package}.list"
    lines = listing.read_bytes().splitlines(keepends=True)
    for length in range(2, len(lines)):
        listing.write_bytes(b"".join(lines[:length]))
        said = message(tmp_path)
        assert f"info/{package}.list is truncated, it lacks /" in said
        assert f"reinstall package {package}:amd64" in said


def test_checksums_of_what_is_not_there_prove_nothing(root: Path) -> None:
    sums = make_sums(root, "kernel", [b"/k/file", b"/usr/share/doc/filtered"])
    assert exclude_list(root, ["kernel"]).paths == (b"/k",)
    # As some third parties write them.
    sums.write_bytes(b"%s  ./k/file\n\\%s  k/new\\nline\n\n" % (b"0" * 32, b"0" * 32))
    assert exclude_list(root, ["kernel"]).paths == (b"/k",)
    make_file(root, b"/k/forgotten")
    sums.write_bytes(b"%s  ./k/forgotten\n" % (b"0" * 32))
    assert "it lacks /k/forgotten" in message(root)


def test_checksums_that_cannot_be_read(root: Path) -> None:
    (root / "var/lib/dpkg/info/kernel.md5sums").mkdir()
    assert "list of checksums" in message(root)


def test_a_list_of_another_package_cut_is_found(root: Path) -> None:
    (root / "var/lib/dpkg/info/other.list").write_bytes(b"/.\n/o\n/o/fi")
    assert "reinstall package other" in message(root)


def test_a_missing_list(root: Path) -> None:
    (root / "var/lib/dpkg/info/other.list").unlink()
    assert "package other:amd64 has no list of files" in message(root)


@pytest.mark.parametrize("name", ["status", "diversions", "info/kernel.list", "info/other.list"])
def test_a_file_that_cannot_be_read(root: Path, name: str) -> None:
    path = root / "var/lib/dpkg" / name
    path.unlink(missing_ok=True)
    path.mkdir()
    assert f"{path} cannot be read (Is a directory): run as root, or repair it" in message(root)


@pytest.mark.parametrize(
    "garbage",
    [b"\0" * 4096, b"\xff\xfe\x80 noise\n\n", b"Package: k\0rnel\n", b"<html>no such file</html>\n", b"Status: \n\n"],
)
def test_a_status_of_something_else(root: Path, garbage: bytes) -> None:
    whole = status(root).read_bytes()
    for data in (garbage, whole + garbage, garbage + whole):
        status(root).write_bytes(data)
        assert f"package database {status(root)} is truncated" in message(root)


def test_a_list_of_zeros(root: Path) -> None:
    """What a power failure leaves of a file that was just written."""
    path = root / "var/lib/dpkg/info/other.list"
    path.write_bytes(bytes(path.stat().st_size))
    assert "reinstall package other:amd64" in message(root)


def test_one_architecture_lost_from_the_status(tmp_path: Path) -> None:
    both = {"kernel:amd64": [b"/doc"], "kernel:i386": [b"/doc"]}
    make_dpkg(tmp_path, both, same=both)
    make_file(tmp_path, b"/doc")
    stanzas = status(tmp_path).read_text().split("\n\n")
    status(tmp_path).write_text(stanzas[0] + "\n\n")
    assert "does not name the package of info/kernel:i386.list" in message(tmp_path)


def test_cut_diversions(root: Path) -> None:
    (root / "var/lib/dpkg/diversions").write_bytes(b"/a\n/b\n")
    assert "diversions" in message(root)


def test_alternatives_cut_anywhere_are_found(root: Path) -> None:
    """A choice that is lost would be a link too many on the list."""
    make_alternative(root, "editor", b"/usr/bin/editor", [b"/k/file", b"/o/file"], b"/k/file")
    path = root / "var/lib/dpkg/alternatives/editor"
    whole = path.read_bytes()
    make_file(root, b"/o/file")
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert "alternatives" in message(root)
    path.write_bytes(whole)
    assert exclude_list(root, ["kernel"]).paths == (b"/k",)


def test_a_loop_of_symlinks(root: Path) -> None:
    make_link(root, b"/o", b"/p")
    make_link(root, b"/p", b"o")
    (root / "var/lib/dpkg/info/kernel.list").write_bytes(b"/.\n/o\n/o/file\n")
    assert "leads in a loop" in message(root)


def test_a_symlink_to_itself(root: Path) -> None:
    make_link(root, b"/o", b"o/deeper")
    (root / "var/lib/dpkg/info/kernel.list").write_bytes(b"/.\n/o\n/o/file\n")
    assert "leads in a loop" in message(root)


def test_a_loop_in_the_place_of_lib(tmp_path: Path) -> None:
    make_dpkg(tmp_path, {"kernel": [b"/lib/modules/k/file"], "other": [b"/lib/o"]})
    make_link(tmp_path, b"/lib", b"usr/lib")
    make_link(tmp_path, b"/usr/lib", b"../lib")
    assert "leads in a loop: fix or remove it" in message(tmp_path)


def test_a_loop_on_the_way_to_the_database(root: Path) -> None:
    (root / "var/lib/dpkg").rename(root / "dpkg")
    make_link(root, b"/var/lib/dpkg", b"dpkg")
    assert "var/lib/dpkg leads in a loop" in message(root)


def test_the_database_is_the_roots_own_behind_an_absolute_symlink(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Not the one that the same path leads to outside."""
    outside = tmp_path_factory.mktemp("outside")
    make_dpkg(outside, {"kernel": [b"/o/file"], "other": [b"/k/file"]})
    make_directory(root, bytes(outside))
    (root / "var").rename(Path(f"{root}{outside}") / "var")
    make_link(root, b"/var", bytes(outside / "var"))
    assert exclude_list(root, ["kernel"]).paths == (b"/k",)


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


def test_a_package_without_files_is_no_mistake(root: Path) -> None:
    info = root / "var/lib/dpkg/info"
    for name in ("other", "kernel"):
        (info / f"{name}.list").write_bytes(b"")
        for sums in (None, b""):
            if sums is not None:
                (info / f"{name}.md5sums").write_bytes(sums)
            assert exclude_list(root, ["kernel"]).paths == ((b"/k",) if name == "other" else ())


def test_an_empty_list_of_a_package_that_has_files(root: Path) -> None:
    info = root / "var/lib/dpkg/info"
    (info / "kernel.list").write_bytes(b"")
    sums = make_sums(root, "kernel", [b"/k/file"])
    assert "kernel.list is truncated or damaged: reinstall package kernel" in message(root)
    sums.unlink()
    status = root / "var/lib/dpkg/status"
    status.write_text(status.read_text().replace("Version: 1.0-1\n", "Version: 1.0-1\nConffiles:\n /k/file 00\n", 1))
    assert "kernel.list is truncated or damaged: reinstall package kernel" in message(root)


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


def test_a_list_behind_a_symlink_is_written_where_it_leads(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link, real = tmp_path / "list", tmp_path / "elsewhere" / "real"
    link.symlink_to("elsewhere/real")
    for data in (b"/a\n", b"/b\n"):
        assert write_if_changed(link, data)
        assert link.is_symlink()
        assert real.read_bytes() == data
    assert sorted(tmp_path.rglob("*")) == [real.parent, real, link]


def test_what_is_no_file_is_never_replaced(tmp_path: Path) -> None:
    # A device or a pipe would be lost, or waited for, by the very test that finds that out.
    special, link, folder = tmp_path / "special", tmp_path / "link", tmp_path / "folder"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(special))
    link.symlink_to(special)
    folder.mkdir()
    for path in (special, link, folder):
        for write in (write_if_changed, would_change):
            with pytest.raises(ExcludeError, match=f"^list {path} is no regular file: .*leave --output out"):
                write(path, b"/a\n")
    with pytest.raises(ExcludeError, match=r"^list /dev/null is no regular file"):
        would_change("/dev/null", b"/a\n")
    assert special.is_socket()
    assert link.is_symlink()


def test_a_list_keeps_its_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "list"
    path.write_bytes(b"/a\n")
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "fchown", lambda _file, user, group: given.append((user, group)))
    assert write_if_changed(path, b"/b\n")
    assert given == [(path.stat().st_uid, path.stat().st_gid)]

    def refused(*_: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    # Who may not give a file away may still write in a folder of their own.
    monkeypatch.setattr(os, "fchown", refused)
    assert write_if_changed(path, b"/c\n")


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
