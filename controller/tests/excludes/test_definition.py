"""The list against a brute-force reading of the definition, on generated databases and trees."""

# Paths are bytes here, which pathlib does not know.
# ruff: noqa: PTH114, PTH115, PTH118, PTH120
from __future__ import annotations

import itertools
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from package_trees import live, make_directory, make_dpkg, make_file, make_link, with_parents

from vcrecovery.excludes import ExcludeList, exclude_list

NAMES = (b"a", b"b", b"c", b"lib")
PACKAGES = ("k1", "k2", "o1", "o2")


class World(NamedTuple):
    """A root: what packages record, what is really there, and what is diverted."""

    records: dict[str, frozenset[bytes]]
    files: frozenset[bytes]
    directories: frozenset[bytes]
    merged: tuple[tuple[bytes, bytes], ...]
    diversions: tuple[tuple[bytes, bytes, bytes], ...]
    bare: bool


def paths(deepest: int = 4) -> st.SearchStrategy[bytes]:
    return st.lists(st.sampled_from(NAMES), min_size=1, max_size=deepest).map(lambda n: b"/" + b"/".join(n))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    pool = draw(st.lists(paths(), min_size=1, max_size=10, unique=True))
    some = st.frozensets(st.sampled_from(pool), max_size=6)
    links = st.sampled_from(
        [
            (),
            ((b"/lib", b"usr/lib"),),
            ((b"/lib", b"/usr/lib"), (b"/a/b", b"../c")),
            ((b"/c/c", b"/a"), (b"/lib", b"../../a/lib")),
        ]
    )
    diverted = st.tuples(
        st.sampled_from(pool),
        st.sampled_from(pool).map(lambda path: path + b".distrib"),
        st.sampled_from([b":", b"k1", b"o1"]),
    )
    return World(
        records={name: draw(some) for name in PACKAGES},
        files=draw(some),
        directories=draw(st.frozensets(st.sampled_from(pool), max_size=3)),
        merged=draw(links),
        diversions=tuple(draw(st.lists(diverted, max_size=1))),
        bare=draw(st.booleans()),
    )


def build(world: World, root: Path) -> None:
    make_dpkg(root, world.records, world.diversions)
    if world.bare:
        # As RPM does: directories are not recorded.
        for name, recorded in world.records.items():
            lines = b"".join(path + b"\n" for path in (b"/.", *sorted(recorded)))
            (root / f"var/lib/dpkg/info/{name}.list").write_bytes(lines)
    for link, target in world.merged:
        make_link(root, link, target)
        make_directory(root, resolve(root, link, follow=True))
    wanted = sorted(set().union(*world.records.values()) | world.files | {d[1] for d in world.diversions})
    for path in wanted:
        make_if_possible(root, path, is_file=not any(p.startswith(path + b"/") for p in wanted))
    for path in world.directories:
        make_if_possible(root, path, is_file=False)


def make_if_possible(root: Path, path: bytes, *, is_file: bool) -> None:
    real = resolve(root, path, follow=False)
    if os.path.lexists(live(root, real)):
        return
    try:
        if is_file:
            make_file(root, real)
        else:
            make_directory(root, real)
    except (FileExistsError, NotADirectoryError):
        pass


def resolve(root: Path, path: bytes, *, follow: bool) -> bytes:
    """Component by component; absolute targets and `..` stay in the root."""
    done = b""
    todo = path.strip(b"/").split(b"/")
    while todo:
        name = todo.pop(0)
        if name in (b"", b"."):
            continue
        if name == b"..":
            done = os.path.dirname(done) if done else b""
            done = b"" if done == b"/" else done
            continue
        here = live(root, done + b"/" + name)
        if os.path.islink(here) and (todo or follow):
            target = os.readlink(here)
            if target.startswith(b"/"):
                done = b""
            todo = target.split(b"/") + todo
        else:
            done += b"/" + name
    return done


def through(root: Path, path: bytes) -> Iterator[bytes]:
    """The symlinks that a recorded path goes through."""
    parts = path.strip(b"/").split(b"/")
    for length in range(1, len(parts)):
        prefix = resolve(root, b"/" + b"/".join(parts[:length]), follow=False)
        if os.path.islink(live(root, prefix)):
            yield prefix


def everything(root: Path) -> dict[bytes, bool]:
    """Every live path, true for a directory."""
    top = os.fsencode(root)
    found: dict[bytes, bool] = {}
    for directory, below, files in os.walk(top):
        for name in below + files:
            full = os.path.join(directory, name)
            found[full[len(top) :]] = stat.S_ISDIR(os.lstat(full).st_mode)
    return found


def owned(world: World, root: Path) -> dict[bytes, set[str]]:
    """The owners of each path, diversions applied."""
    found: dict[bytes, set[str]] = {}
    for package, recorded in world.records.items():
        lines = set(recorded) if world.bare else set(with_parents(recorded)) - {b"/."}
        real = {resolve(root, line, follow=False) for line in lines}
        for original, diverted, owner in world.diversions:
            if owner != package.encode() and resolve(root, original, follow=False) in real:
                real.discard(resolve(root, original, follow=False))
                real.add(resolve(root, diverted, follow=False))
        for path in real:
            found.setdefault(path, set()).add(package)
    return found


def excluded(world: World, root: Path, selected: set[str]) -> set[bytes]:
    """The definition, read word by word."""
    owners = owned(world, root)
    used_as_directories = {link for name in selected for path in world.records[name] for link in through(root, path)}
    there = everything(root)

    def only_theirs(path: bytes) -> bool:
        who = owners.get(path, set())
        return bool(who) and who <= selected and path not in used_as_directories

    def is_excluded(path: bytes) -> bool:
        if not only_theirs(path):
            return False
        return all(is_excluded(other) for other in there if os.path.dirname(other) == path)

    return {path for path in there if is_excluded(path)}


def covered(root: Path, listed: tuple[bytes, ...]) -> set[bytes]:
    return {path for path in everything(root) if any(path == top or path.startswith(top + b"/") for top in listed)}


def shortest(root: Path, target: set[bytes]) -> int:
    """The length of the shortest list that covers exactly the target, by trying all of them."""
    usable = [path for path in target if covered(root, (path,)) <= target]
    for length in range(len(usable) + 1):
        for listed in itertools.combinations(usable, length):
            if covered(root, listed) == target:
                return length
    raise AssertionError("no list covers the target")


def listed_for(world: World, root: Path, *, assume_owned: bool = False) -> ExcludeList:
    build(world, root)
    return exclude_list(root, ["k*"], assume_owned=assume_owned)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds())
def test_excludes_exactly_what_the_definition_excludes_and_no_list_is_shorter(world: World) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        result = listed_for(world, root)
        target = excluded(world, root, {"k1", "k2"})
        assert covered(root, result.paths) == target
        there = everything(root)
        assert result.directories == {path for path in result.paths if there[path]}
        if len(target) <= 9:
            assert len(result.paths) == shortest(root, target)


def assumed(world: World, root: Path, selected: set[str]) -> set[bytes]:
    """The definition with --assume-owned: a directory stands for all below unless another package is there."""
    owners = owned(world, root)
    strangers = set()
    for package in set(world.records) - selected:
        for path in world.records[package]:
            real = resolve(root, os.path.dirname(path), follow=True)
            strangers |= set(with_parents([real])) if real else set()
    for path, who in owners.items():
        if who - selected:
            strangers |= set(with_parents([os.path.dirname(path)]))
    used_as_directories = {link for name in selected for path in world.records[name] for link in through(root, path)}
    there = everything(root)
    theirs = {path for path in there if (w := owners.get(path)) and w <= selected and path not in used_as_directories}
    tops = {path for path in theirs if not there[path] or path not in strangers}
    return covered(root, tuple(tops))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(worlds())
def test_assume_owned_gives_what_nobody_owns_to_the_directory(world: World) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        result = listed_for(world, root, assume_owned=True)
        target = assumed(world, root, {"k1", "k2"})
        assert covered(root, result.paths) == target
        assert not any(a != b and b.startswith(a + b"/") for a in result.paths for b in result.paths)
