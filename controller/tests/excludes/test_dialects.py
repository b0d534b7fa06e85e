"""Both dialects, by running the real rsync and the real lsyncd over names that are hard to write down."""

# Paths are bytes here, which pathlib does not know.
# ruff: noqa: PTH112, PTH118, PTH119, PTH123
from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from package_trees import live, make_directory, make_dpkg, make_file

from vcrecovery.excludes import ExcludeError, ExcludeList, exclude_list, render
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.run import LabError

HOSTILE = (
    b"plain",
    b"two words",
    b" leading",
    b"trailing ",
    b"#hash",
    b"; semicolon",
    b"+ plus",
    b"- minus",
    b"!bang",
    b"st*ar",
    b"st**ar",
    b"quest?ion",
    b"[bracket]",
    b"open[",
    b"close]",
    b"[!neg]",
    b"back\\slash",
    b"back\\st*ar",
    b"back\\\\slash",
    b"ends\\",
    b"ends*\\",
    b"new\nline",
    b"cr\rname",
    b"tab\tname",
    b"\xff\xfe raw",
    b"caf\xc3\xa9",
    b"percent%d%%",
    b"dollar$",
    b"mid$dle",
    b"dot.(paren)^x-y+z",
    b"***",
    b"{a,b}",
)
#: Looks like a hostile name to a reader that takes it for a pattern, and must arrive all the same.
DECOYS = (
    b"stXar",
    b"stXXar",
    b"questXion",
    b"b",
    b"n",
    b"backslash",
    b"backst*ar",
    b"back\\slas",
    b"newXlineX",
    b"percent",
    b"dollar",
    b"dollar$more",
    b"middle",
    b"dotX(paren)^x-y+z",
    b"plainer",
    b"xplain",
    b"a",
)
#: What `?` in the place of a hostile byte matches too.
LOOKALIKES = (b"st*ar", b"st**ar", b"quest?ion")

RSYNC = shutil.which("rsync")
LSYNCD = shutil.which("lsyncd")


def make_tree(root: Path, names: tuple[bytes, ...], decoys: tuple[bytes, ...]) -> Path:
    """Hostile names as files, directories and directories with kept content; the packages are k and o."""
    excluded = []
    recordable = []
    for name in names:
        for path in (b"/flat/" + name, b"/deep/" + name + b"/sub/file", b"/mixed/" + name + b"/" + name):
            make_file(root, path)
            excluded.append(path)
        make_file(root, b"/mixed/" + name + b"/kept")
    for name in decoys:
        make_file(root, b"/flat/" + name)
        make_file(root, b"/deep/" + name + b"/sub/file")
    make_file(root, b"/nested/flat/plain")
    make_directory(root, b"/deep/empty")
    # dpkg cannot record a newline, RPM can: here the list is made without a database.
    recordable = [path for path in excluded if b"\n" not in path]
    make_dpkg(root, {"k": recordable, "o": [b"/flat/o", b"/deep/o", b"/mixed/o"]})
    return root


def hand_made(root: Path, names: tuple[bytes, ...]) -> ExcludeList:
    """The list for the tree, with the names that dpkg cannot record."""
    made = exclude_list(root, ["k"])
    with_newline = [name for name in names if b"\n" in name]
    flat = [b"/flat/" + n for n in with_newline] + [b"/mixed/" + n + b"/" + n for n in with_newline]
    deep = [b"/deep/" + n for n in with_newline]
    return ExcludeList(
        paths=tuple(sorted([*made.paths, *flat, *deep])),
        directories=made.directories | set(deep),
        ambiguous=made.ambiguous,
        packages=made.packages,
        recorded=made.recorded,
    )


def contents(top: Path) -> set[bytes]:
    start = os.fsencode(top)
    return {
        os.path.join(directory, name)[len(start) :]
        for directory, below, files in os.walk(start)
        for name in below + files
    }


def expected(root: Path, excludes: ExcludeList) -> set[bytes]:
    return {
        path for path in contents(root) if not any(path == top or path.startswith(top + b"/") for top in excludes.paths)
    }


def run_rsync(source: Path, target: Path, exclude_from: Path) -> None:
    assert RSYNC is not None
    command = [RSYNC, "-a", f"--exclude-from={exclude_from}", f"{source}/", f"{target}/"]
    subprocess.run(command, check=True, timeout=60)


@contextmanager
def lsyncd(config: Path) -> Iterator[None]:
    """A running lsyncd, ended by its own process id."""
    assert LSYNCD is not None
    with (config.parent / "lsyncd.out").open("wb") as output:
        process = subprocess.Popen([LSYNCD, "-nodaemon", str(config)], stdout=output, stderr=output)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(timeout=10)


def wait_for(path: bytes) -> None:
    wait_until(lambda: os.path.lexists(path), f"{path!r}", 120)


def wait_until_same(one: Callable[[], object], other: Callable[[], object]) -> None:
    """What has to be the same comes piece by piece."""
    with suppress(LabError):
        wait_until(lambda: one() == other(), "the same", 60)
    assert one() == other()


@pytest.mark.skipif(RSYNC is None, reason="needs rsync")
def test_rsync_leaves_out_exactly_the_list(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "root", HOSTILE, DECOYS)
    excludes = hand_made(root, HOSTILE)
    assert {b"/deep/" + name for name in HOSTILE} <= set(excludes.paths)
    rules = tmp_path / "rules"
    rules.write_bytes(render(excludes, "rsync"))
    run_rsync(root, tmp_path / "out", rules)
    assert contents(tmp_path / "out") == expected(root, excludes)


@pytest.mark.skipif(RSYNC is None, reason="needs rsync")
def test_rsync_reads_the_lsyncd_list_the_same_way(tmp_path: Path) -> None:
    names = HOSTILE
    root = make_tree(tmp_path / "root", names, tuple(d for d in DECOYS if not looks_alike(d)))
    excludes = hand_made(root, names)
    assert not excludes.ambiguous
    rules = tmp_path / "rules"
    rules.write_bytes(render(excludes, "lsyncd"))
    run_rsync(root, tmp_path / "out", rules)
    assert contents(tmp_path / "out") == expected(root, excludes)


def looks_alike(name: bytes) -> bool:
    return name in (b"stXar", b"stXXar", b"questXion")


def test_a_path_that_lsyncd_cannot_tell_from_another_is_synced(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "root", HOSTILE, DECOYS)
    excludes = exclude_list(root, ["k"])
    assert {os.path.basename(path) for path in excludes.ambiguous} == set(LOOKALIKES)
    lines = render(excludes, "lsyncd").split(b"\n")
    assert b"/flat/st?ar" not in lines
    assert b"/flat/open?" in lines


@pytest.mark.skipif(LSYNCD is None or RSYNC is None, reason="needs lsyncd and rsync")
def test_lsyncd_leaves_out_exactly_the_list_at_start_and_afterwards(tmp_path: Path) -> None:
    """The same events go to a second target without a list: some names lsyncd cannot sync by itself."""
    root = make_tree(tmp_path / "root", HOSTILE, tuple(d for d in DECOYS if not looks_alike(d)))
    excludes = hand_made(root, HOSTILE)
    rules = tmp_path / "rules"
    rules.write_bytes(render(excludes, "lsyncd"))
    filtered, control = tmp_path / "filtered", tmp_path / "control"
    filtered.mkdir()
    control.mkdir()
    config = tmp_path / "lsyncd.conf"
    config.write_text(
        f"""settings {{ nodaemon = true, logfile = "{tmp_path}/log" }}
sync {{ default.rsync, source = "{root}", target = "{filtered}", delay = 1, excludeFrom = "{rules}" }}
sync {{ default.rsync, source = "{root}", target = "{control}", delay = 1 }}
"""
    )
    with lsyncd(config):
        for target in (filtered, control):
            make_file(root, b"/first-" + os.fsencode(target.name))
            wait_for(live(target, b"/first-" + os.fsencode(target.name)))
            wait_for(live(target, b"/mixed/plain/kept"))
        wait_until_same(lambda: without_first(contents(filtered)), lambda: without_first(expected(root, excludes)))
        left_out = contents(root) - expected(root, excludes)
        wait_until_same(lambda: left_out - (contents(control) - contents(filtered)), set)
        # Everything anew, so that each name comes as an event.
        before = [path for path in contents(root) if not os.path.isdir(live(root, path))]
        for path in before:
            with open(live(root, path), "ab") as stream:
                stream.write(b"changed")
        make_file(root, b"/last")
        for target in (filtered, control):
            wait_for(live(target, b"/last"))
        time.sleep(2.5)
        kept = expected(root, excludes)

        def changed(target: Path) -> set[bytes]:
            return {path for path in before if is_changed(target, path)}

        wait_until_same(lambda: changed(filtered), lambda: changed(control) & kept)
        assert b"/flat/plain" in changed(control)
        wait_until_same(lambda: contents(filtered), lambda: kept & contents(control))


def without_first(paths: set[bytes]) -> set[bytes]:
    return {path for path in paths if not path.startswith(b"/first")}


def is_changed(top: Path, path: bytes) -> bool:
    try:
        with open(live(top, path), "rb") as stream:
            return stream.read().endswith(b"changed")
    except FileNotFoundError:
        return False


def test_plain_and_json_hold_the_paths_themselves(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "root", HOSTILE, DECOYS)
    excludes = exclude_list(root, ["k"])
    assert tuple(render(excludes, "plain").split(b"\n")[:-1]) == excludes.paths
    entries = json.loads(render(excludes, "json"))
    assert tuple(os.fsencode(entry["path"]) for entry in entries) == excludes.paths
    assert {os.fsencode(e["path"]) for e in entries if e["directory"]} == excludes.directories


def test_plain_refuses_a_newline(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "root", HOSTILE, DECOYS)
    with pytest.raises(ExcludeError, match="use the format json"):
        render(hand_made(root, HOSTILE), "plain")


def test_an_unknown_format_is_named(tmp_path: Path) -> None:
    root = make_tree(tmp_path / "root", (b"plain",), ())
    with pytest.raises(ExcludeError, match="rsync, lsyncd, plain, json"):
        render(exclude_list(root, ["k"]), "xml")
