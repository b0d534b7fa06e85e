"""What a benchmark found, and how its run went, kept in a folder: a run that was cut off goes on from there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vcrecovery_lab.run import LabError


@dataclass(frozen=True)
class Run:
    """One run of a benchmark. `said`: its last line, where it failed."""

    quick: bool
    status: int
    said: str
    commit: str
    day: str
    machine: Mapping[str, str]


@dataclass(frozen=True)
class Kept:
    """`found`: its results as it writes them with --json; None when it ended without any."""

    run: Run
    found: Mapping[str, Any] | None


class Folder:
    """NAME.run.json says that NAME has ended; NAME.json is there if it found anything."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def read(self, name: str) -> Kept | None:
        """None when it was never run to its end."""
        run = self._of(f"{name}.run.json")
        if run is None:
            return None
        try:
            return Kept(Run(**run), self._of(f"{name}.json"))
        except TypeError as error:
            raise LabError(f"{self._place / name}.run.json: {error}; remove it, and it is measured anew") from error

    def write(self, name: str, run: Run, results: Path) -> None:
        """The record of the run last: whatever cuts this off, the benchmark counts as not run."""
        self.forget(name)
        if results.exists():
            results.replace(self._place / f"{name}.json")
        unfinished = self._place / f"{name}.run.json.unfinished"
        unfinished.write_text(json.dumps(asdict(run), indent=1) + "\n", encoding="utf-8")
        unfinished.replace(self._place / f"{name}.run.json")

    def forget(self, name: str) -> None:
        for ending in ("run.json", "json"):
            (self._place / f"{name}.{ending}").unlink(missing_ok=True)

    def unfinished(self, name: str) -> Path:
        """Where a benchmark writes its results while it is not known how it ends."""
        self._place.mkdir(parents=True, exist_ok=True)
        path = self._place / f"{name}.json.unfinished"
        path.unlink(missing_ok=True)
        return path

    def _of(self, file: str) -> Any:
        path = self._place / file
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise LabError(f"{path}: {error}; remove it, and it is measured anew") from error
