"""A table of prices, as a spreadsheet writes it: one price a line."""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from vcrecovery.cost.money import Rate, amount, currency
from vcrecovery.cost.price_file import a_month
from vcrecovery.cost.prices import PER_OF_KIND, Kind, MachineOffer, Per, Price
from vcrecovery.errors import UsageError
from vcrecovery.plan.fields import parse_size
from vcrecovery.plan.problems import Problem, suggest

_T = TypeVar("_T")
_MACHINE = "machine"
_OF_MACHINES = ("name", "cores", "memory", "purchase")
_NEEDED = ("kind", "price", "per", "currency", "as_of")
_COLUMNS = (*_NEEDED[:1], *_OF_MACHINES, *_NEEDED[1:], "source")
#: What spreadsheets put between cells, by country.
_SEPARATORS = ",;\t"
_LONGEST = 200
#: Problems that one line of an error names.
_MOST = 50


class CsvPrices:
    """A `PriceSource`. Raises UsageError with everything that is wrong with the table, at the first question.

    Columns, in any order: kind (machine, disk, backup, address, traffic), price, per, currency and as_of; of machines
    also name, cores, memory (such as 32GiB) and purchase; and source, which may be empty.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        return str(self._path)

    @cached_property
    def _table(self) -> _Table:
        try:
            text = self._path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise UsageError(f"price table {self._path} cannot be read: {reason}", "correct `costs.prices`") from error
        table = _Table(self._path, text)
        if table.problems:
            said = [str(problem) for problem in table.problems]
            more = [f"and {len(said) - _MOST} more"] if len(said) > _MOST else []
            raise UsageError(f"price table {self._path}: {'; '.join(said[:_MOST] + more)}", "correct that")
        return table

    def machine(self, name: str, purchase: str) -> MachineOffer | None:
        return self._table.machines.get(name, {}).get(purchase)

    def known_as(self, name: str) -> Sequence[str]:
        return list(self._table.machines.get(name, ()))

    def fitting(self, cores: float, memory: int, purchase: str) -> Sequence[MachineOffer]:
        cheapest: dict[str, MachineOffer] = {}
        for bought in self._table.machines.values():
            offer = bought.get(purchase)
            if offer is None or offer.cores < cores or offer.memory < memory:
                continue
            of = offer.prices[0].currency
            if of not in cheapest or a_month(offer) < a_month(cheapest[of]):
                cheapest[of] = offer
        return list(cheapest.values())

    def near(self, name: str) -> Sequence[str]:
        return difflib.get_close_matches(name, self._table.machines, n=3)

    def price(self, kind: Kind) -> Price | None:
        return self._table.kinds.get(kind)

    def rates(self) -> Sequence[Rate]:
        return ()


class _Table:
    """`machines`: by name, then by how they are bought. `problems`: all that is wrong."""

    def __init__(self, path: Path, text: str) -> None:
        self.machines: dict[str, dict[str, MachineOffer]] = {}
        self.kinds: dict[Kind, Price] = {}
        self.problems: list[Problem] = []
        self._path = path
        #: Where each was given.
        self._seen: dict[tuple[str, ...], int] = {}
        header = text.partition("\n")[0]
        # Strict: a quote that never ends would make one cell of the rest.
        rows = csv.reader(
            io.StringIO(text, newline=""),
            delimiter=max(_SEPARATORS, key=header.count),
            strict=True,
            skipinitialspace=True,
        )
        try:
            names = [cell.strip().casefold() for cell in next(rows, [])]
            self.problems += _header_problems(names)
            for cells in rows if not self.problems else ():
                if any(cell.strip() for cell in cells):
                    self._add(_Row(rows.line_num, names, cells))
        except csv.Error as error:
            self.problems.append(Problem(rows.line_num, "", f"is no row of a table: {error}"))

    def _add(self, row: _Row) -> None:
        kind = row.read("kind", _kind)
        price = self._price(row, kind)
        if kind == _MACHINE:
            self._add_machine(row, price)
        elif isinstance(kind, Kind):
            for column in ("cores", "memory", "purchase"):
                if row.cell(column):
                    row.wrong(column, f"stands for nothing with a {kind}: leave it empty")
            if price is not None and not row.problems and self._is_new(row, (kind,)):
                self.kinds[kind] = price
        self.problems += row.problems

    def _add_machine(self, row: _Row, price: Price | None) -> None:
        name, purchase = row.read("name", _word), row.read("purchase", _word)
        cores, memory = row.read("cores", _cores), row.read("memory", parse_size)
        if row.problems or not (name and purchase and cores and memory and price):
            return
        known = next(iter(self.machines.get(name, {}).values()), None)
        if known is not None and (known.cores, known.memory) != (cores, memory):
            row.wrong("name", f"{name!r} is given in line {self._seen[(_MACHINE, name)]} with other cores or memory")
        elif self._is_new(row, (_MACHINE, name, purchase)):
            self._seen.setdefault((_MACHINE, name), row.line)
            self.machines.setdefault(name, {})[purchase] = MachineOffer(name, cores, memory, purchase, [price])

    def _price(self, row: _Row, kind: Kind | str | None) -> Price | None:
        value, of = row.read("price", _amount), row.read("currency", currency)
        per, day = row.read("per", _per), row.read("as_of", _day)
        allowed = [PER_OF_KIND[kind]] if isinstance(kind, Kind) else [Per.HOUR, Per.MONTH]
        if kind is not None and per is not None and per not in allowed:
            row.wrong("per", f"a {kind} is paid by the {' or '.join(allowed)}")
        if value is None or of is None or per is None or day is None:
            return None
        return Price(value, of, per, row.cell("name") or str(kind), row.cell("source") or str(self._path), day)

    def _is_new(self, row: _Row, what: tuple[str, ...]) -> bool:
        if (line := self._seen.setdefault(what, row.line)) != row.line:
            row.wrong("", f"{' '.join(what)} is given twice: it has a price in line {line}")
        return line == row.line


class _Row:
    """A line, and what is wrong with it."""

    def __init__(self, line: int, names: Sequence[str], cells: Sequence[str]) -> None:
        self.line, self.problems = line, list[Problem]()
        self._cells = {name: cell.strip() for name, cell in zip(names, cells, strict=False)}
        if any(cell.strip() for cell in cells[len(names) :]):
            self.wrong("", "has more cells than there are columns")

    def cell(self, column: str) -> str:
        """Empty when it is not there."""
        return self._cells.get(column, "")

    def read(self, column: str, as_what: Callable[[str], _T]) -> _T | None:
        """None when it is wrong."""
        try:
            return as_what(self.cell(column))
        except ValueError as error:
            said = str(error) if self.cell(column) else "is missing"
            self.wrong(column, said)
            return None

    def wrong(self, column: str, message: str) -> None:
        self.problems.append(Problem(self.line, column, message))


def _header_problems(names: Sequence[str]) -> Iterator[Problem]:
    if not any(names):
        yield Problem(1, "", f"names no columns; write them there: {', '.join(_COLUMNS)}")
        return
    for name in dict.fromkeys(names):
        if name not in _COLUMNS:
            yield Problem(1, "", f"{name!r:.40} is no column {suggest(name, list(_COLUMNS))}")
        elif names.count(name) > 1:
            yield Problem(1, "", f"column {name} is given twice")
    if missing := [name for name in _NEEDED if name not in names]:
        yield Problem(1, "", f"lacks the column {' and '.join(missing)}")


def _kind(text: str) -> Kind | str:
    if text.casefold() == _MACHINE:
        return _MACHINE
    try:
        return Kind(text.casefold())
    except ValueError:
        raise ValueError(f"{text!r:.40} is no kind {suggest(text, [_MACHINE, *Kind])}") from None


def _per(text: str) -> Per:
    try:
        return Per(text)
    except ValueError:
        raise ValueError(f"{text!r:.40} is nothing to pay by {suggest(text, list(Per))}") from None


def _word(text: str) -> str:
    if not text or len(text) > _LONGEST or not text.isprintable():
        raise ValueError(f"{text!r:.40} is no name")
    return text


def _cores(text: str) -> float:
    try:
        cores = float(text)
    except ValueError:
        cores = 0.0
    if not 0 < cores <= 4096:
        raise ValueError(f"{text!r:.40} is no number of cores")
    return cores


def _amount(text: str) -> Decimal:
    if "," in text:
        raise ValueError(f"{text!r:.40} has a comma; write it as 1234.56")
    return amount(text)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r:.40} is no day; write it as 2026-11-30") from None
