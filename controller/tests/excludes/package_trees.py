"""Builds roots with a dpkg database and live files, for the tests of exclude lists."""

# Paths are bytes here, which pathlib does not know.
# ruff: noqa: PTH103, PTH120, PTH123, PTH211
from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

STANZA = "Package: {name}\nStatus: install ok {state}\nArchitecture: {arch}\nVersion: 1.0-1\n{more}\n"


def live(root: Path, path: bytes) -> bytes:
    return os.fsencode(root) + path


def make_file(root: Path, path: bytes, content: bytes = b"x") -> None:
    name = live(root, path)
    os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, "wb") as stream:
        stream.write(content)


def make_directory(root: Path, path: bytes) -> None:
    os.makedirs(live(root, path), exist_ok=True)


def make_link(root: Path, path: bytes, target: bytes) -> None:
    os.makedirs(os.path.dirname(live(root, path)), exist_ok=True)
    os.symlink(target, live(root, path))


def with_parents(paths: Iterable[bytes]) -> list[bytes]:
    """The paths and everything above them, as dpkg lists them."""
    found = {b"/."}
    for path in paths:
        while path:
            found.add(path)
            path = path.rpartition(b"/")[0]
    return sorted(found)


def make_dpkg(
    root: Path,
    packages: Mapping[str, Iterable[bytes]],
    diversions: Iterable[tuple[bytes, bytes, bytes]] = (),
    states: Mapping[str, str] | None = None,
    same: Iterable[str] = (),
) -> Path:
    """A dpkg database; a package's key is `name` or `name:arch`, and `same` lists the multi-arch ones."""
    directory = root / "var/lib/dpkg"
    (directory / "info").mkdir(parents=True)
    (directory / "alternatives").mkdir()
    stanzas = []
    for key, paths in packages.items():
        name, _, arch = key.partition(":")
        more = "Multi-Arch: same\n" if key in same else ""
        state = (states or {}).get(key, "installed")
        stanzas.append(STANZA.format(name=name, arch=arch or "amd64", state=state, more=more))
        stem = key if key in same else name
        lines = b"".join(path + b"\n" for path in with_parents(paths))
        (directory / "info" / f"{stem}.list").write_bytes(lines)
    (directory / "status").write_text("".join(stanzas))
    triplets = (b"\n".join(triplet) + b"\n" for triplet in diversions)
    (directory / "diversions").write_bytes(b"".join(triplets))
    return root


def make_alternative(root: Path, name: str, link: bytes, choices: Iterable[bytes], current: bytes) -> None:
    """One group of update-alternatives without slaves, and its links."""
    data = b"auto\n" + link + b"\n\n" + b"".join(choice + b"\n50\n" for choice in choices) + b"\n"
    (root / "var/lib/dpkg/alternatives" / name).write_bytes(data)
    make_link(root, link, b"/etc/alternatives/" + os.fsencode(name))
    make_link(root, b"/etc/alternatives/" + os.fsencode(name), current)
