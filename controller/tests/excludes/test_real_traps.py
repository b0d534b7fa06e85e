"""What real systems hold that a list of files does not tell."""

# Paths are bytes here, which pathlib does not know.
# ruff: noqa: PTH211
from __future__ import annotations

import os
from pathlib import Path

import pytest
from package_trees import make_alternative, make_directory, make_dpkg, make_file, make_link

from vcrecovery.excludes import exclude_list, explain

VERSION = b"6.1.0-50-amd64"
KERNEL = "linux-image-6.1.0-50-amd64"
MODULES = b"/usr/lib/modules/" + VERSION


@pytest.fixture
def debian(tmp_path: Path) -> Path:
    """A merged-/usr Debian with a kernel, whose package still records /lib."""
    root = tmp_path
    make_directory(root, b"/usr/lib")
    make_link(root, b"/lib", b"usr/lib")
    make_dpkg(
        root,
        {
            KERNEL: [
                b"/boot/vmlinuz-" + VERSION,
                b"/lib/modules/" + VERSION + b"/kernel/fs/ext4.ko",
                b"/lib/modules/" + VERSION + b"/modules.order",
                b"/etc/kernel/postinst.d/initramfs",
                b"/usr/share/doc/kernel/copyright",
            ],
            "base-files": [b"/lib", b"/boot", b"/etc/os-release", b"/usr/share/doc/base-files/copyright"],
            "apparmor": [b"/etc/apparmor/parser.conf", b"/etc/apparmor.d/local/README", b"/lib/apparmor/functions"],
            "lsyncd": [b"/etc/init.d/lsyncd"],
        },
    )
    for path in (
        b"/boot/vmlinuz-" + VERSION,
        b"/boot/initrd.img-" + VERSION,
        MODULES + b"/kernel/fs/ext4.ko",
        MODULES + b"/modules.order",
        MODULES + b"/modules.dep",
        b"/etc/kernel/postinst.d/initramfs",
        b"/usr/share/doc/kernel/copyright",
        b"/usr/share/doc/base-files/copyright",
        b"/etc/apparmor/parser.conf",
        b"/etc/apparmor.d/local/README",
        b"/usr/lib/apparmor/functions",
        b"/etc/init.d/lsyncd",
    ):
        make_file(root, path)
    make_link(root, b"/vmlinuz", b"boot/vmlinuz-" + VERSION)
    make_link(root, b"/etc/rc2.d/S01lsyncd", b"../init.d/lsyncd")
    return root


def test_a_kernel_on_a_merged_usr_becomes_few_paths(debian: Path) -> None:
    assert exclude_list(debian, ["linux-*"]).paths == (
        b"/boot/initrd.img-" + VERSION,
        b"/boot/vmlinuz-" + VERSION,
        b"/etc/kernel",
        b"/usr/lib/modules",
        b"/usr/share/doc/kernel",
        b"/vmlinuz",
    )


def test_what_no_package_owns_survives(debian: Path) -> None:
    own = (
        MODULES + b"/updates/dkms/own.ko",
        b"/etc/kernel/postinst.d/zz-own",
        b"/etc/apparmor.d/local/usr.bin.own",
    )
    for path in own:
        make_file(debian, path)
    paths = exclude_list(debian, ["linux-*", "apparmor"]).paths
    for path in own:
        assert not any(path == top or path.startswith(top + b"/") for top in paths)
    assert MODULES + b"/kernel" in paths
    assert MODULES + b"/modules.dep" in paths
    assert b"/etc/apparmor" in paths
    assert b"/etc/apparmor.d/local/README" in paths
    assert b"/usr/lib/apparmor" in paths


def test_assume_owned_takes_it_too(debian: Path) -> None:
    make_file(debian, MODULES + b"/updates/dkms/own.ko")
    assert b"/usr/lib/modules" in exclude_list(debian, ["linux-*"], assume_owned=True).paths


def test_a_directory_of_another_package_survives_when_it_is_empty(debian: Path) -> None:
    make_directory(debian, MODULES + b"/empty")
    assert b"/usr/lib/modules" not in exclude_list(debian, ["linux-*"]).paths


def test_a_generated_file_stays_while_one_of_its_packages_stays(tmp_path: Path) -> None:
    make_dpkg(
        tmp_path,
        {"linux-image-1": [b"/boot/vmlinuz-1"], "linux-image-2": [b"/boot/vmlinuz-2"], "base": [b"/boot"]},
    )
    for name in (b"/boot/vmlinuz-1", b"/boot/vmlinuz-2", b"/boot/initrd.img-1", b"/boot/initrd.img-2"):
        make_file(tmp_path, name)
    make_link(tmp_path, b"/vmlinuz", b"boot/vmlinuz-2")
    paths = exclude_list(tmp_path, ["linux-image-*"], keep=["linux-image-2"]).paths
    assert paths == (b"/boot/initrd.img-1", b"/boot/vmlinuz-1")


def test_the_profile_names_what_a_container_never_needs(debian: Path) -> None:
    excludes = exclude_list(debian, [], profile="vm-to-container")
    assert excludes.packages == (f"{KERNEL}:amd64",)
    assert b"/etc/rc2.d/S01lsyncd" in excludes.paths
    assert b"/usr/lib/modules" in excludes.paths
    assert not any(path.startswith(b"/etc/init.d") for path in excludes.paths)


def test_a_diverted_file_is_where_the_diversion_put_it(tmp_path: Path) -> None:
    make_dpkg(
        tmp_path,
        {"old": [b"/bin/tool"], "new": [b"/bin/tool"]},
        diversions=[(b"/bin/tool", b"/bin/tool.old", b"new")],
    )
    make_file(tmp_path, b"/bin/tool")
    make_file(tmp_path, b"/bin/tool.old")
    assert exclude_list(tmp_path, ["old"]).paths == (b"/bin/tool.old",)
    assert exclude_list(tmp_path, ["new"]).paths == (b"/bin/tool",)


def test_an_alternative_goes_only_with_all_of_its_choices(tmp_path: Path) -> None:
    make_dpkg(tmp_path, {"vim": [b"/usr/bin/vim"], "nano": [b"/usr/bin/nano"], "base": [b"/usr/bin", b"/etc"]})
    make_file(tmp_path, b"/usr/bin/vim")
    make_file(tmp_path, b"/usr/bin/nano")
    make_alternative(tmp_path, "editor", b"/usr/bin/editor", [b"/usr/bin/nano", b"/usr/bin/vim"], b"/usr/bin/vim")
    assert exclude_list(tmp_path, ["vim"]).paths == (b"/usr/bin/vim",)
    assert exclude_list(tmp_path, ["vim", "nano"]).paths == (
        b"/etc/alternatives/editor",
        b"/usr/bin/editor",
        b"/usr/bin/nano",
        b"/usr/bin/vim",
    )


@pytest.mark.parametrize("made", ["a link", "a link of another spelling", "a file", "nothing"])
def test_an_alternative_that_an_administrator_leads_elsewhere_stays(tmp_path: Path, made: str) -> None:
    make_dpkg(tmp_path, {"jdk": [b"/usr/lib/jdk/java"], "base": [b"/usr/bin", b"/usr/lib", b"/etc"]})
    make_file(tmp_path, b"/usr/lib/jdk/java")
    make_link(tmp_path, b"/jdk", b"/usr/lib/jdk")
    make_file(tmp_path, b"/opt/jdk/java")
    make_alternative(tmp_path, "java", b"/usr/bin/java", [b"/usr/lib/jdk/java"], b"/opt/jdk/java")
    middle = tmp_path / "etc/alternatives/java"
    if made != "a link":
        middle.unlink()
    if made == "a link of another spelling":
        make_link(tmp_path, b"/etc/alternatives/java", b"/jdk/java")
    if made == "a file":
        make_file(tmp_path, b"/etc/alternatives/java")
    leads_there = made in ("a link of another spelling", "nothing")
    link = (b"/usr/bin/java",) if leads_there else ()
    assert exclude_list(tmp_path, ["jdk"]).paths == (*link, b"/usr/lib/jdk")


def test_architectures_of_one_package_share_files(tmp_path: Path) -> None:
    both = {"lib:amd64": [b"/lib/x64/lib.so", b"/doc/lib"], "lib:i386": [b"/lib/x32/lib.so", b"/doc/lib"]}
    make_dpkg(tmp_path, both, same=both)
    for path in (b"/lib/x64/lib.so", b"/lib/x32/lib.so", b"/doc/lib"):
        make_file(tmp_path, path)
    assert exclude_list(tmp_path, ["lib:i386"]).paths == (b"/lib/x32",)
    assert exclude_list(tmp_path, ["lib"]).paths == (b"/doc", b"/lib")


def test_a_removed_package_owns_its_configuration(tmp_path: Path) -> None:
    states = {"gone": "config-files", "never": "not-installed"}
    make_dpkg(tmp_path, {"gone": [b"/etc/gone.conf"], "never": [], "o": [b"/etc"]}, states=states)
    make_file(tmp_path, b"/etc/gone.conf")
    assert exclude_list(tmp_path, ["gone"]).paths == (b"/etc/gone.conf",)


def test_no_link_leads_out_of_the_root(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    root = tmp_path / "root"
    make_file(outside, b"/data/f")
    make_file(root, b"/data/f")
    make_link(root, b"/abs", b"/data")
    make_link(root, b"/up", b"../../../../data")
    make_dpkg(root, {"k": [b"/abs/f", b"/up/f"], "o": [b"/data"]})
    assert exclude_list(root, ["k"]).paths == (b"/data/f",)


def test_an_interrupted_dpkg_run_counts(tmp_path: Path) -> None:
    make_dpkg(tmp_path, {"k": [b"/f"], "o": [b"/o"]})
    make_file(tmp_path, b"/f")
    updates = tmp_path / "var/lib/dpkg/updates"
    updates.mkdir()
    (updates / "0000").write_text("Package: k\nStatus: install ok unpacked\nArchitecture: amd64\nVersion: 2\n")
    assert exclude_list(tmp_path, ["k"]).paths == (b"/f",)


def test_names_that_are_not_utf8_survive(tmp_path: Path) -> None:
    make_dpkg(tmp_path, {"k": [b"/\xff\xfe"], "o": [b"/o"]})
    make_file(tmp_path, b"/\xff\xfe")
    assert exclude_list(tmp_path, ["k"]).paths == (b"/\xff\xfe",)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        (b"/usr/lib/modules/" + VERSION + b"/modules.order", "only the excluded package linux-image"),
        (b"/lib/modules", "(which is /usr/lib/modules) is not synced: only the excluded"),
        (b"/boot/initrd.img-" + VERSION, "a rule gives it to the excluded package linux-image"),
        (b"/etc/kernel", "but it holds /etc/kernel/own"),
        (b"/etc/kernel/own", "is synced: no package owns it"),
        (b"/etc/os-release", "is not on the list: nothing is there"),
        (b"/etc/init.d/lsyncd", "is synced: package lsyncd:amd64 owns it and is not excluded"),
        (b"/etc", "is synced: packages apparmor:amd64, base-files:amd64, lsyncd:amd64 own it and are"),
    ],
)
def test_explain_says_why(debian: Path, path: bytes, sentence: str) -> None:
    make_file(debian, b"/etc/kernel/own")
    said = explain(debian, path, ["linux-*"])
    assert sentence in said
    assert "\n" not in said


def test_explain_names_the_profile_and_the_assumption(debian: Path) -> None:
    make_file(debian, MODULES + b"/own.ko")
    said = explain(debian, b"/etc/rc2.d/S01lsyncd", [], profile="vm-to-container")
    assert said == "/etc/rc2.d/S01lsyncd is not synced: the profile names it."
    said = explain(debian, MODULES + b"/own.ko", ["linux-*"], assume_owned=True)
    assert "assumed to be the excluded packages' own" in said


def test_the_live_file_system_decides_what_is_a_directory(tmp_path: Path) -> None:
    make_dpkg(tmp_path, {"k": [b"/d/f"], "o": [b"/o"]})
    make_file(tmp_path, b"/real/f")
    os.symlink(b"real", os.fsencode(tmp_path) + b"/d")
    # The administrator moved the directory: its files are the package's, the symlink is not.
    assert exclude_list(tmp_path, ["k"]).paths == (b"/real/f",)
