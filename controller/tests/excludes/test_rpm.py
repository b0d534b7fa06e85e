"""The RPM database, with packages that the real rpmbuild makes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from good_list import survives
from package_trees import make_dpkg, make_file, make_link

from vcrecovery.excludes import ExcludeError, exclude_list
from vcrecovery.excludes.packages import Package
from vcrecovery.excludes.rpm import RpmDatabase, _parsed, rpm_location

needs_rpm = pytest.mark.skipif(
    shutil.which("rpm") is None or shutil.which("rpmbuild") is None, reason="needs rpm and rpmbuild"
)

SPEC = """Name: {name}
Version: 5.14
Release: 1
Summary: {name}
License: none
BuildArch: noarch
{more}%description
{name}
%install
{install}
%files
{files}
"""


def build(work: Path, name: str, paths: Iterable[str], more: str = "") -> Path:
    """A package that owns exactly these files, and none of their directories."""
    quoted = [path.replace("%", "%%") for path in paths]
    install = "\n".join(f'install -D /dev/null "%{{buildroot}}{path}"' for path in quoted)
    spec = work / f"{name}.spec"
    spec.write_text(SPEC.format(name=name, more=more, install=install, files="\n".join(f'"{path}"' for path in quoted)))
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
    make_dpkg(root, {"k": [b"/k"], "l": [b"/l"]})
    message = survives(root, "k")
    assert "two databases, dpkg (2 packages) and RPM in /usr/lib/sysimage/rpm (1)" in message
    assert message.endswith(": move the one away that does not run this system")
    (root / "usr/lib/sysimage/rpm").rename(root / "usr/lib/sysimage/rpm.away")
    make_file(root, b"/k")
    assert exclude_list(root, ["k"]).paths == (b"/k",)


@needs_rpm
def test_two_rpm_databases_are_an_error_unless_they_are_one(tmp_path: Path) -> None:
    root = tmp_path / "root"
    package = build(tmp_path, "other", ["/usr/share/other/file"])
    make_file(root, b"/usr/share/other/file")
    install(root, package)
    install(root, package, "/var/lib/rpm")
    message = survives(root, "other")
    assert "two RPM databases, /usr/lib/sysimage/rpm and /var/lib/rpm" in message
    shutil.rmtree(root / "var/lib/rpm")
    # Fedora has the symlink; an absolute one leads to the root's own too.
    for target in (b"../../usr/lib/sysimage/rpm", b"/usr/lib/sysimage/rpm"):
        (root / "var/lib/rpm").unlink(missing_ok=True)
        make_link(root, b"/var/lib/rpm", target)
        assert rpm_location(str(root).encode()) == b"/usr/lib/sysimage/rpm"
        assert exclude_list(root, ["other"]).paths == (b"/usr/share/other/file",)


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


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The content of a real rpmdb.sqlite with two packages."""
    work = tmp_path_factory.mktemp("database")
    for name in ("kernel-core", "other"):
        install(work / "root", build(work, name, [f"/usr/share/{name}/file-{n}" for n in range(100)]), "/var/lib/rpm")
    return (work / "root/var/lib/rpm/rpmdb.sqlite").read_bytes()


def with_database(root: Path, data: bytes | None) -> Path:
    """A root with these bytes as its database, and nothing of what SQLite keeps beside it; None for a directory."""
    directory = root / "var/lib/rpm"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    if data is None:
        (directory / "rpmdb.sqlite").mkdir()
    else:
        (directory / "rpmdb.sqlite").write_bytes(data)
    return root


@needs_rpm
def test_a_database_cut_anywhere_is_an_error(tmp_path: Path, database: bytes) -> None:
    """Cut in the last page, rpm itself would leave out a package and be content."""
    for length in (
        0,
        50,
        3000,
        4096,
        len(database) // 2,
        len(database) - 4096,
        len(database) - 2000,
        len(database) - 1,
    ):
        message = survives(with_database(tmp_path, database[:length]), "kernel-core")
        assert "/var/lib/rpm" in message
        assert message.endswith("or rpm --rebuilddb")
    excludes = exclude_list(with_database(tmp_path, database), ["kernel-core"])
    assert excludes.recorded == 100


@needs_rpm
def test_damage_inside_a_database_is_an_error(tmp_path: Path, database: bytes) -> None:
    """Of 4096 bytes anywhere, what is read is right, or there is an error."""
    known = {p: d.recorded(p) for d in [opened(with_database(tmp_path, database))] for p in d.packages}
    assert sorted(package.name for package in known) == ["kernel-core", "other"]
    errors = 0
    for at in range(0, len(database), 4096):
        damaged = with_database(tmp_path, database[:at] + bytes(4096) + database[at + 4096 :])
        try:
            found = opened(damaged)
            assert {package: found.recorded(package) for package in found.packages} == known
        except ExcludeError:
            errors += 1
    assert errors > 2


def opened(root: Path) -> RpmDatabase:
    return RpmDatabase(str(root).encode(), b"/var/lib/rpm")


@needs_rpm
@pytest.mark.parametrize("data", [None, b"\0" * 8192, b"no database\n" * 500])
def test_something_else_in_the_place_of_the_database(tmp_path: Path, data: bytes | None) -> None:
    message = survives(with_database(tmp_path, data), "kernel-core")
    assert f"rpm cannot read the database /var/lib/rpm of {tmp_path} (error: " in message
    assert message.endswith(": run as root, restore it, or rpm --rebuilddb")


@needs_rpm
def test_a_loop_of_symlinks(tmp_path: Path) -> None:
    root = tmp_path / "root"
    install(root, build(tmp_path, "kernel-core", ["/lib/modules/k/file"]), "/var/lib/rpm")
    make_link(root, b"/lib", b"usr/lib")
    make_link(root, b"/usr/lib", b"../lib")
    # The way to the other place of the database leads through the loop too.
    assert survives(root, "kernel-core").endswith("leads in a loop: fix or remove it")
    (root / "usr/lib").unlink()
    make_link(root, b"/usr/lib/modules", b"/lib/modules")
    assert survives(root, "kernel-core").endswith("usr/lib/modules leads in a loop: fix or remove it")


def test_rpm_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = with_database(tmp_path / "root", b"")
    monkeypatch.setenv("PATH", str(tmp_path))
    way_out = "install rpm, or move the database away if nothing uses it"
    assert survives(root, "other").endswith(
        f"an RPM database in /var/lib/rpm, but there is no rpm here to read it: {way_out}"
    )
    # A Debian system with a leftover of rpm: nobody can tell whether it names packages.
    make_dpkg(root, {"other": [b"/k"]})
    assert survives(root, "other").endswith(way_out)


@needs_rpm
def test_packages_that_differ_in_their_epoch_alone_count_as_one(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for number, epoch in enumerate(("", "Epoch: 1\n")):
        work = tmp_path / str(number)
        work.mkdir()
        install(root, build(work, "other", [f"/usr/share/other/{number}"], epoch))
    for number in (0, 1):
        make_file(root, b"/usr/share/other/%d" % number)
    assert exclude_list(root, ["other"]).paths == (b"/usr/share/other/0", b"/usr/share/other/1")


@pytest.mark.parametrize(
    "answer",
    [
        b"P\tk\tx\t1\tone\nE\n",
        b"P\tk\tx\t1\t1\n'/a'\n",
        b"P\tk\tx\t1\t1\n'/a",
        b"P\tk\tx\n",
        b"nonsense\n",
        b"P\tk\tx\t1\t1",
    ],
)
def test_a_cut_answer_is_an_error(answer: bytes) -> None:
    with pytest.raises(ExcludeError, match="rpm --rebuilddb"):
        _parsed(answer, b"/r")


def test_a_newline_and_quotes_in_a_name_are_read_back() -> None:
    block = b"P\tk\tx\t1\t3\n'/a\nE\n'\n'/b'\\''\n'\\''c'\n'/d'\nE\nP\tm\tx\t2\t(none)\nE\n"
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
