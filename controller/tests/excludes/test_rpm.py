"""The RPM database, with packages that the real rpmbuild makes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from package_trees import make_dpkg, make_file

from vcrecovery.excludes import ExcludeError, exclude_list
from vcrecovery.excludes.packages import Package
from vcrecovery.excludes.rpm import RpmDatabase, _parsed, _query, rpm_location

needs_rpm = pytest.mark.skipif(
    shutil.which("rpm") is None or shutil.which("rpmbuild") is None, reason="needs rpm and rpmbuild"
)

SPEC = """Name: {name}
Version: 5.14
Release: 1
Summary: {name}
License: none
BuildArch: noarch
%description
{name}
%install
{install}
%files
{files}
"""


def build(work: Path, name: str, paths: Iterable[str]) -> Path:
    """A package that owns exactly these files, and none of their directories."""
    quoted = [path.replace("%", "%%") for path in paths]
    install = "\n".join(f'install -D /dev/null "%{{buildroot}}{path}"' for path in quoted)
    spec = work / f"{name}.spec"
    spec.write_text(SPEC.format(name=name, install=install, files="\n".join(f'"{path}"' for path in quoted)))
    command = ["rpmbuild", "-bb", "--define", f"_topdir {work}/top", str(spec)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return work / f"top/RPMS/noarch/{name}-5.14-1.noarch.rpm"


def install(root: Path, package: Path, place: str = "/usr/lib/sysimage/rpm") -> None:
    root.mkdir(exist_ok=True)
    command = ["rpm", "--root", str(root), "--dbpath", place, "--install", "--justdb", "--nodeps"]
    subprocess.run([*command, "--force-debian", str(package)], check=True, capture_output=True, timeout=60)


@needs_rpm
@pytest.mark.parametrize("place", ["/usr/lib/sysimage/rpm", "/var/lib/rpm"])
def test_odd_names_and_unowned_directories(tmp_path: Path, place: str) -> None:
    names = ("it's", "two words", "é", "per%cent", "two''quotes", "'", "E")
    kernel = [f"/usr/lib/modules/k/{name}" for name in names]
    root = tmp_path / "root"
    install(root, build(tmp_path, "kernel-core", kernel), place)
    install(root, build(tmp_path, "other", ["/usr/share/other/file"]), place)
    for path in kernel:
        make_file(root, path.encode())
    expected = tuple(sorted(path.encode() for path in kernel))
    # RPM packages need not own their directories: nothing may stand for the files then.
    assert exclude_list(root, ["kernel-core"]).paths == expected
    assert exclude_list(root, [], profile="vm-to-container").paths == expected


@needs_rpm
def test_packages_in_two_databases_are_an_error(tmp_path: Path) -> None:
    root = tmp_path / "root"
    install(root, build(tmp_path, "other", ["/usr/share/other/file"]))
    make_dpkg(root, {"k": [b"/k"]})
    with pytest.raises(ExcludeError, match="two databases, dpkg and RPM"):
        exclude_list(root, ["k"])


@needs_rpm
def test_an_empty_rpm_database_beside_dpkg_does_not_count(tmp_path: Path) -> None:
    command = ["rpm", "--root", str(tmp_path), "--dbpath", "/var/lib/rpm", "--initdb"]
    subprocess.run(command, check=True, timeout=60)
    assert rpm_location(str(tmp_path).encode()) == b"/var/lib/rpm"
    with pytest.raises(ExcludeError, match="names no package"):
        exclude_list(tmp_path, ["k"])
    make_dpkg(tmp_path, {"k": [b"/k"], "o": [b"/o"]})
    make_file(tmp_path, b"/k")
    assert exclude_list(tmp_path, ["k"]).paths == (b"/k",)


@needs_rpm
def test_a_damaged_database_is_an_error(tmp_path: Path) -> None:
    root = tmp_path / "root"
    install(root, build(tmp_path, "other", ["/usr/share/other/file"]))
    database = root / "usr/lib/sysimage/rpm/rpmdb.sqlite"
    for side in ("-wal", "-shm"):
        database.with_name(database.name + side).unlink(missing_ok=True)
    database.write_bytes(database.read_bytes()[:3000])
    with pytest.raises(ExcludeError, match="rpm cannot read the database"):
        exclude_list(root, ["other"])


def test_rpm_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ExcludeError, match="install rpm"):
        _query(str(tmp_path).encode(), b"/var/lib/rpm")


@pytest.mark.parametrize(
    "answer",
    [b"P\tk\tx\t1\t1\n'/a'\n", b"P\tk\tx\t1\t1\n'/a", b"P\tk\tx\n", b"nonsense\n", b"P\tk\tx\t1\t1"],
)
def test_a_cut_answer_is_an_error(answer: bytes) -> None:
    with pytest.raises(ExcludeError, match="rpm --rebuilddb"):
        _parsed(answer, b"/r")


def test_a_newline_and_quotes_in_a_name_are_read_back() -> None:
    block = b"P\tk\tx\t1\t3\n'/a\nE\n'\n'/b'\\''\n'\\''c'\n'/d'\nE\nP\tm\tx\t2\t0\nE\n"
    database = RpmDatabase.__new__(RpmDatabase)
    database._files = _parsed(block, b"/r")
    k, m = Package("k", "x", "1"), Package("m", "x", "2")
    assert list(database._files) == [k, m]
    assert database.recorded(k) == [b"/a\nE\n", b"/b'\n'c", b"/d"]
    assert database.recorded(m) == []


def test_a_wrong_count_is_an_error() -> None:
    database = RpmDatabase.__new__(RpmDatabase)
    database._files = _parsed(b"P\tk\tx\t1\t2\n'/a'\nE\n", b"/r")
    with pytest.raises(ExcludeError, match="package k:x"):
        database.recorded(Package("k", "x", "1"))
