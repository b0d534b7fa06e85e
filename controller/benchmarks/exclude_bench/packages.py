"""Generated packages, and how dpkg records them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

DPKG = "var/lib/dpkg"


@dataclass(frozen=True)
class Package:
    """One package; its paths are absolute and spelled as dpkg records them."""

    name: str
    version: str
    files: tuple[bytes, ...]
    links: Mapping[bytes, bytes] = field(default_factory=dict)
    """Symlink -> target."""
    arch: str = "amd64"

    @property
    def recorded(self) -> list[bytes]:
        """The lines of the package's list: each directory before what is in it."""
        return with_directories([*self.files, *self.links])


def with_directories(paths: Iterable[bytes]) -> list[bytes]:
    """The paths and every directory above them, in dpkg's order."""
    found: set[bytes] = set()
    for path in paths:
        while path and path not in found:
            found.add(path)
            path = path.rpartition(b"/")[0]
    return [b"/.", *sorted(found)]


def directories_among(recorded: Iterable[bytes]) -> set[bytes]:
    """Those of the recorded paths that have something below them: a list does not say what is a directory."""
    return {path.rpartition(b"/")[0] for path in recorded} | {b"/."}


def stanza(package: Package) -> bytes:
    """The package's part of dpkg's status file."""
    text = (
        f"Package: {package.name}\nStatus: install ok installed\nPriority: optional\nSection: kernel\n"
        f"Maintainer: Benchmark <root@localhost>\nArchitecture: {package.arch}\nVersion: {package.version}\n"
        "Description: generated for a benchmark\n\n"
    )
    return text.encode()


def record(root: Path, packages: Iterable[Package]) -> None:
    """Adds the packages to the dpkg database below root."""
    info = root / DPKG / "info"
    info.mkdir(parents=True, exist_ok=True)
    with (root / DPKG / "status").open("ab") as status:
        for package in packages:
            status.write(stanza(package))
            (info / f"{package.name}.list").write_bytes(b"".join(path + b"\n" for path in package.recorded))


def in_root(root: Path, path: bytes) -> bytes:
    """The path of the running system for a path that is absolute in root."""
    return os.fsencode(root) + path
