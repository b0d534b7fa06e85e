"""Stage 2: the command on a large synthetic database."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vcrecovery_lab.progress import stderr_progress

from .kernel import PATTERNS, kernels
from .measure import Spread, measured, peak_memory, spread
from .packages import Package, record
from .scale import Scale
from .system import canonical_on_machine, merged_usr
from .tree import TreeWriter

_TIMEOUT_SECONDS = 120
# Taken from Debian 12 with 829 packages: one path in 11 is a directory, one directory in 9 holds names that kernel
# packages have too, and these are one path in 20. Only such directories are looked at.
_PER_DIRECTORY = 10
_COMMON_SHARE = 0.11
_COMMON_NAMES = ("Makefile", "Kconfig", "README", "types.h", "string.h")


@dataclass(frozen=True)
class DatabaseCost:
    """`vcrecovery exclude-list` as a process; `wall` and `cpu` in seconds, memory in bytes."""

    packages: int
    paths: int
    listed: int
    wall: Spread
    cpu: Spread
    peak_memory: int


def measure_database(root: Path, scale: Scale, seed: int) -> DatabaseCost:
    """Makes the database at `root` and runs the command on it."""
    kernel = kernels(scale.kernel_files, seed).packages
    recorded = sum(len(package.recorded) for package in kernel)
    others = list(_others(scale.database_packages - len(kernel), scale.database_paths - recorded, seed))
    with stderr_progress(f"database: {scale.database_packages:,} packages, {scale.database_paths:,} paths"):
        _lay_out(root, kernel, others)
    argv = [str(Path(sys.executable).with_name("vcrecovery")), "exclude-list", "--root", str(root), "--format", "rsync"]
    argv += [word for pattern in PATTERNS for word in ("--packages", pattern)]
    with stderr_progress(f"database: {scale.list_runs} runs of vcrecovery exclude-list"):
        usages = [measured(argv, timeout=_TIMEOUT_SECONDS) for _ in range(scale.list_runs)]
    return DatabaseCost(
        packages=len(kernel) + len(others),
        paths=recorded + sum(len(package.recorded) for package in others),
        listed=usages[0].output.count(b"\n"),
        wall=spread([usage.wall for usage in usages]),
        cpu=spread([usage.cpu for usage in usages]),
        peak_memory=peak_memory(argv, timeout=_TIMEOUT_SECONDS),
    )


def _others(count: int, paths: int, seed: int) -> Iterator[Package]:
    """So many packages that record so many paths together, directories counted."""
    chosen = random.Random(seed)
    for number in range(count):
        share = paths // (count - number)
        paths -= share
        yield _package(f"site-{chosen.choice(('lib', 'app', 'dev'))}-{number}", share, chosen)


def _package(name: str, recorded: int, chosen: random.Random) -> Package:
    docs = f"/usr/share/doc/{name}"
    files = [f"{docs}/copyright", f"{docs}/changelog.Debian.gz", f"/usr/bin/{name}"]
    # /., /usr, /usr/share, /usr/share/doc, /usr/bin, /usr/lib, the docs, /usr/lib/NAME; one more per directory.
    left = recorded - len(files) - 8
    number = 0
    while left > 1:
        names = min(_PER_DIRECTORY, left - 1)
        common = _COMMON_NAMES if chosen.random() < _COMMON_SHARE else ()
        own = (f"{name}-{number}-{at}.py" for at in range(names))
        files += [f"/usr/lib/{name}/part{number}/{file}" for file in itertools.islice((*common, *own), names)]
        left -= names + 1
        number += 1
    if left:
        files.append(f"{docs}/README")
    return Package(name, "1.0-1", tuple(file.encode() for file in files))


def _lay_out(root: Path, kernel: Sequence[Package], others: Sequence[Package]) -> None:
    """The kernels' files, which the command walks through, and everybody's directories, which it resolves."""
    root.mkdir()
    writer = TreeWriter(root)
    merged_usr(writer)
    for package in kernel:
        for file in canonical_on_machine(package.files):
            writer.file(file)
        for link, target in zip(canonical_on_machine(package.links), package.links.values(), strict=True):
            writer.link(link, target)
    for package in others:
        for file in package.files:
            writer.directory(file.rpartition(b"/")[0])
    record(root, [*kernel, *others])
