"""What the watcher has last found of updates and transfers of the zones, for other programs: a file, and no history."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from vcrecovery.store.noted import Noted

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


class ZoneBook(Noted[Tried]):
    """In the state folder: the names with which something is wrong."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir / "zones.json", _FORM)

    def read(self, now: float) -> dict[str, Tried]:
        """What is not too old; nothing where it cannot be read."""
        return {name: one for name, one in self.all().items() if abs(now - one.at) <= VALID_FOR}
