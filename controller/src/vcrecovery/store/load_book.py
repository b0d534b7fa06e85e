"""How loaded the watcher has seen the secondaries, for other programs: a file, and no history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from vcrecovery.balance.load import Load
from vcrecovery.errors import ExternalError, what_helps

#: Seconds after which what was seen says nothing of now.
VALID_FOR = 60.0


@dataclass(frozen=True)
class Seen:
    """Of one secondary, at `at`: seconds since the epoch. `since`: when it became overloaded; None while it is not.

    `trouble`: why its load is not known; `proposal`: what the watcher would move; `moving`: it moves one from or to it.
    """

    at: float
    load: Load | None = None
    since: float | None = None
    why: str = ""
    trouble: str = ""
    proposal: tuple[str, ...] = ()
    moving: bool = False


_FORM = TypeAdapter(dict[str, Seen])


class LoadBook:
    """In the state folder."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "loads.json"

    def write(self, seen: Mapping[str, Seen]) -> None:
        """Raises ExternalError."""
        scratch = self._path.with_suffix(".new")
        try:
            # Not on the disk at once: after a reboot it says nothing of now.
            scratch.write_bytes(_FORM.dump_json(dict(seen)))
            scratch.replace(self._path)
        except OSError as error:
            raise ExternalError(f"{self._path} cannot be written: {error.strerror}", what_helps(error)) from error

    def read(self, now: float) -> dict[str, Seen]:
        """What is not too old; nothing where it cannot be read: the watcher, which cannot write it either, says so."""
        try:
            found = _FORM.validate_json(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return {name: one for name, one in found.items() if 0 <= now - one.at <= VALID_FOR}
