"""How loaded the watcher has seen the secondaries, for other programs: a file, and no history."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from vcrecovery.balance.load import Load
from vcrecovery.store.noted import Noted

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


class LoadBook(Noted[Seen]):
    """In the state folder."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir / "loads.json", _FORM)

    def read(self, now: float) -> dict[str, Seen]:
        """What is not too old; nothing where it cannot be read."""
        return {name: one for name, one in self.all().items() if 0 <= now - one.at <= VALID_FOR}
