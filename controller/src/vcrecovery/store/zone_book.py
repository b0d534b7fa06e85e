"""What the watcher has last found of updates and transfers of the zones, for other programs: a file, and no history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from vcrecovery.errors import ExternalError, what_helps

#: Seconds after which what was found says nothing of now: some times as long as lies between two tries.
VALID_FOR = 3 * 3600.0


@dataclass(frozen=True)
class Tried:
    """Of one name, at `at`: seconds since the epoch. `refused`: why it cannot be changed, and `hint` the way out.

    `late`: of the name servers that do not get the zone's changes, each.
    """

    at: float = 0.0
    refused: str = ""
    hint: str = ""
    late: tuple[str, ...] = ()


NOT_TRIED = Tried()
_FORM = TypeAdapter(dict[str, Tried])


class ZoneBook:
    """In the state folder: the names with which something is wrong."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "zones.json"

    def write(self, found: Mapping[str, Tried]) -> None:
        """Raises ExternalError."""
        scratch = self._path.with_suffix(".new")
        try:
            # Not on the disk at once: after a reboot all is tried anew.
            scratch.write_bytes(_FORM.dump_json(dict(found)))
            scratch.replace(self._path)
        except OSError as error:
            raise ExternalError(f"{self._path} cannot be written: {error.strerror}", what_helps(error)) from error

    def read(self, now: float) -> dict[str, Tried]:
        """What is not too old; nothing where it cannot be read: the watcher, which cannot write it either, says so."""
        try:
            found = _FORM.validate_json(self._path.read_bytes())
        except (OSError, ValueError):
            return {}
        return {name: one for name, one in found.items() if abs(now - one.at) <= VALID_FOR}
