"""What an offer file says of one region and operating system: small enough to be asked at once, in SQLite.

It is kept in a file, so that only the first run reads the offer file. That one is put in its place as a whole, and is
used only when it is whole, and made from the offer file as it is now.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import tempfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Self

from vcrecovery.cost.aws_products import Cost, Machine
from vcrecovery.cost.aws_stream import Identity
from vcrecovery.store.connection import Connection

#: Of its tables, and of what is taken for a price. One of another form is not used.
_FORM = 1
#: SQLite has no exact numbers: an amount is a text, always the same for the same.
_SCHEMA = """
CREATE TABLE machine (name TEXT PRIMARY KEY, cores REAL, memory INTEGER, arm INTEGER) STRICT;
CREATE TABLE cost (
    thing TEXT, system TEXT, purchase TEXT, amount TEXT, currency TEXT,
    PRIMARY KEY (thing, system, purchase, amount, currency)
) STRICT, WITHOUT ROWID;
CREATE TABLE about (said TEXT) STRICT;
"""


@dataclass(frozen=True)
class MadeFrom:
    """An offer file as it is at a time, and what of it."""

    path: str
    identity: Identity
    region: str
    system: str


class OfferIndex:
    """`as_of`: the day of its prices; `system`: the operating system, as the file spells it."""

    as_of: date
    system: str

    def __init__(self) -> None:
        # In memory, whether or not it can be kept. Whoever asks may do so from several threads.
        self._db = sqlite3.connect(":memory:", check_same_thread=False, factory=Connection)

    @classmethod
    def empty(cls) -> Self:
        index = cls()
        index._db.executescript(_SCHEMA)
        return index

    def add_machine(self, machine: Machine) -> None:
        row = (machine.name, machine.cores, machine.memory, machine.arm)
        self._db.execute("INSERT OR IGNORE INTO machine VALUES (?, ?, ?, ?)", row)

    def add_cost(self, thing: str, system: str, cost: Cost) -> None:
        exact = format(cost.amount.normalize(), "f")
        row = (thing, system, cost.purchase, exact, cost.currency)
        self._db.execute("INSERT OR IGNORE INTO cost VALUES (?, ?, ?, ?, ?)", row)

    def size_of(self, name: str) -> tuple[float, int] | None:
        """The cores of a machine, and its memory in bytes."""
        rows: list[tuple[float, int]] = self._db.execute(
            "SELECT cores, memory FROM machine WHERE name = ?", (name,)
        ).fetchall()
        return rows[0] if rows else None

    def names(self) -> Sequence[str]:
        return [name for (name,) in self._db.execute("SELECT name FROM machine ORDER BY name")]

    def costs(self, thing: str, system: str, purchase: str) -> Sequence[Cost]:
        """Several when the file does not agree with itself."""
        rows = self._db.execute(
            "SELECT amount, currency FROM cost WHERE thing = ? AND system = ? AND purchase = ?",
            (thing, system, purchase),
        )
        return sorted((Cost(purchase, Decimal(said), of) for said, of in rows), key=lambda cost: cost.amount)

    def purchases(self, name: str, system: str) -> Sequence[str]:
        """Those of which the file agrees with itself."""
        rows = self._db.execute(
            "SELECT purchase FROM cost WHERE thing = ? AND system = ? GROUP BY purchase HAVING count(*) = 1",
            (name, system),
        )
        return [purchase for (purchase,) in rows]

    def has_prices(self, system: str) -> bool:
        return bool(self._db.execute("SELECT 1 FROM cost WHERE system = ? LIMIT 1", (system,)).fetchall())

    def disagreeing(self, system: str) -> Sequence[str]:
        """Machines, and how they are bought, of which the file has several prices."""
        rows = self._db.execute(
            "SELECT thing, purchase FROM cost WHERE system = ? GROUP BY thing, purchase HAVING count(*) > 1", (system,)
        )
        return [f"{thing} {purchase}" for thing, purchase in rows]

    def fitting(self, cores: float, memory: int, system: str, purchase: str) -> Sequence[tuple[str, Cost]]:
        """Machines that have so much at least. None of Arm, on which nothing runs that was copied from others."""
        rows = self._db.execute(
            "SELECT name, min(amount), min(currency) FROM machine JOIN cost ON thing = name"
            " WHERE cores >= ? AND memory >= ? AND NOT arm AND system = ? AND purchase = ?"
            " GROUP BY name HAVING count(*) = 1 ORDER BY name",
            (cores, memory, system, purchase),
        )
        return [(name, Cost(purchase, Decimal(said), of)) for name, said, of in rows]

    def save(self, path: Path, made_from: MadeFrom) -> None:
        """Raises OSError or sqlite3.Error; then nothing of it is there."""
        said = json.dumps({"as_of": self.as_of.isoformat(), "system": self.system, "sum": self._sum(made_from)})
        self._db.execute("DELETE FROM about")
        self._db.execute("INSERT INTO about VALUES (?)", (said,))
        self._db.commit()
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".new-", ignore_cleanup_errors=True) as folder:
            scratch = Path(folder) / path.name
            kept = sqlite3.connect(scratch)
            try:
                self._db.backup(kept)
            finally:
                kept.close()
            # Of two runs at the same time, the later one puts the same in its place.
            scratch.replace(path)

    @classmethod
    def load(cls, path: Path, made_from: MadeFrom) -> Self | None:
        """None when there is none, it was made from something else, or is damaged."""
        index = cls()
        try:
            kept = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
            try:
                kept.backup(index._db)
            finally:
                kept.close()
            ((said,),) = index._db.execute("SELECT said FROM about").fetchall()
            about = json.loads(said)
            index.as_of, index.system = date.fromisoformat(about["as_of"]), str(about["system"])
            return index if about["sum"] == index._sum(made_from) else None
        except (sqlite3.Error, ValueError, LookupError, TypeError):
            return None

    def _sum(self, made_from: MadeFrom) -> str:
        queries = ("SELECT * FROM machine ORDER BY name", "SELECT * FROM cost")
        tables = [self._db.execute(query).fetchall() for query in queries]
        everything = repr((_FORM, astuple(made_from), self.as_of, self.system, tables))
        return hashlib.sha256(everything.encode()).hexdigest()
