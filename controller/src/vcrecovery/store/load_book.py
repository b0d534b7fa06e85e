"""How loaded the watcher has seen the secondaries, for other programs: a file, and no history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from vcrecovery.balance.load import Load
from vcrecovery.errors import ExternalError

#: Seconds after which what was seen says nothing of now.
VALID_FOR = 60.0


@dataclass(frozen=True)
class Seen:
    """Of one secondary, at `at`: seconds since the epoch. `since`: when it became overloaded; None while it is not.

    `trouble`: why its load is not known; `proposal`: what the watcher would move.
    """

    at: float
    load: Load | None = None
    since: float | None = None
    why: str = ""
    trouble: str = ""
    proposal: tuple[str, ...] = ()


_FORM = TypeAdapter(dict[str, Seen])


class LoadBook:
    """Its methods raise ExternalError when the folder cannot be used."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "loads.json"

    def write(self, seen: Mapping[str, Seen]) -> None:
        scratch = self._path.with_suffix(".new")
        try:
            # Not on the disk at once: after a reboot it says nothing of now.
            scratch.write_bytes(_FORM.dump_json(dict(seen)))
            scratch.replace(self._path)
        except OSError as error:
            raise self._unusable(error) from error

    def read(self, now: float) -> dict[str, Seen]:
        """What is not too old; nothing of a damaged one, which the watcher replaces."""
        try:
            found = _FORM.validate_json(self._path.read_bytes())
        except (FileNotFoundError, ValueError):
            return {}
        except OSError as error:
            raise self._unusable(error) from error
        return {name: one for name, one in found.items() if 0 <= now - one.at <= VALID_FOR}

    def _unusable(self, error: OSError) -> ExternalError:
        return ExternalError(f"{self._path} cannot be used: {error.strerror}", "free some space or correct its rights")
