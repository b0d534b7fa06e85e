"""The root that everything is measured on: a real system, kernel packages, what lies around them, and data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .kernel import PATTERNS, kernels
from .packages import record
from .scale import Scale
from .system import canonical_on_machine, copy_database, lay_out
from .tree import TreeWriter, data_files, live_paths


@dataclass(frozen=True)
class Root:
    """Paths are absolute in the root and as its file system has them."""

    path: Path
    unneeded: frozenset[bytes]
    """Files that a right list leaves out: of the kernel's packages alone, or made by them."""
    data: tuple[bytes, ...]
    live: dict[bytes, bool]
    """Every path below the root, and whether it is a directory."""
    machine_paths: int
    """Files and symlinks of the machine's own packages."""


def build_root(path: Path, scale: Scale, seed: int) -> Root:
    """Makes the root at `path`, which does not exist yet."""
    path.mkdir()
    copy_database(path, PATTERNS, scale.system_packages)
    generated = kernels(scale.kernel_files, seed)
    writer = TreeWriter(path)
    writer.adopt()
    system = lay_out(writer)
    owned: set[bytes] = set()
    for package in generated.packages:
        for file in canonical_on_machine(package.files):
            writer.file(file)
            owned.add(file)
        for link, target in zip(canonical_on_machine(package.links), package.links.values(), strict=True):
            writer.link(link, target)
            owned.add(link)
    derived = canonical_on_machine(generated.derived)
    for file in [*derived, *canonical_on_machine(generated.foreign)]:
        writer.file(file)
    record(path, generated.packages)
    data = data_files(writer, max(scale.synced_files - len(system), scale.synced_files // 4))
    return Root(path, frozenset((owned - system) | set(derived)), tuple(data), dict(live_paths(path)), len(system))
