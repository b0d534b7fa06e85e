"""What became of each mutant, and which of those that stay are known, with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import yaml

KNOWN = Path(__file__).with_name("known.yml")
#: By the type checker, which `make lint` runs; by a test that failed, or one that hung.
BY_TYPES, BY_TESTS = "types", ("killed", "timeout")
EQUIVALENT, LAB, STAYS = "equivalent", "lab", "stays"


@dataclass(frozen=True)
class Change:
    """A mutant by what it changes: its name counts, and another line above gives it to another."""

    module: str
    before: str
    after: str


@dataclass(frozen=True)
class Mutant:
    """`shown`: what it changes, as a difference of texts."""

    name: str
    status: str
    shown: str

    @property
    def module(self) -> str:
        """As below `vcrecovery`: `core.decide`."""
        parts = self.name.split(".")[1:]
        return ".".join(part for part in parts if not part.startswith(("x_", "xǁ")))

    @property
    def noticed(self) -> bool:
        return self.status == BY_TYPES or self.status in BY_TESTS

    @property
    def change(self) -> Change:
        lines = [line for line in self.shown.splitlines() if not line.startswith(("---", "+++", "#", "@@"))]
        before, after = (" ".join(line[1:].strip() for line in lines if line[:1] == sign) for sign in "-+")
        return Change(self.module, before, after)


@dataclass(frozen=True)
class Known:
    """Why a change stays: `as_` it does nothing that anybody can see (`equivalent`), only a test in the lab sees it
    (`lab`), or no test is worth it (`stays`)."""

    change: Change
    as_: str
    why: str


def known(text: str) -> list[Known]:
    """Raises ValueError where an entry gives no reason."""
    found = []
    for module, entries in (yaml.safe_load(text) or {}).items():
        for entry in entries:
            one = Known(Change(module, entry["before"], entry["after"]), entry["as"], entry["why"])
            if one.as_ not in (EQUIVALENT, LAB, STAYS) or not one.why:
                raise ValueError(f"{module}: {one.change.after!r}: `as` is equivalent, lab or stays; `why` the reason")
            found.append(one)
    return found


def stale(mutants: Sequence[Mutant], reasons: Iterable[Known]) -> list[Change]:
    """Of the modules that were broken: what has a reason, but is noticed by now, or is not made any more."""
    made, left = {one.module for one in mutants}, {one.change for one in mutants if not one.noticed}
    return [one.change for one in reasons if one.change.module in made and one.change not in left]


@dataclass(frozen=True)
class Score:
    """Of a module, or of all. `left`: without a reason."""

    mutants: int
    by_types: int
    by_tests: int
    equivalent: int
    lab: int
    stays: int
    left: int

    @property
    def share(self) -> float:
        """Of those that are not equivalent, what is noticed; in percent."""
        return 100.0 * (self.by_types + self.by_tests) / max(1, self.mutants - self.equivalent)

    @property
    def share_of_tests(self) -> float:
        """The same without what the type checker notices."""
        return 100.0 * self.by_tests / max(1, self.mutants - self.equivalent - self.by_types)


def scores(mutants: Iterable[Mutant], reasons: Sequence[Known]) -> dict[str, Score]:
    """By module."""
    why = {one.change: one.as_ for one in reasons}
    found: dict[str, Counter[str]] = {}
    for mutant in mutants:
        count = found.setdefault(mutant.module, Counter())
        count["mutants"] += 1
        if mutant.status == BY_TYPES:
            count["by_types"] += 1
        elif mutant.noticed:
            count["by_tests"] += 1
        else:
            count[why.get(mutant.change, "left")] += 1
    return {
        module: Score(**{field.name: found[module][field.name] for field in fields(Score)}) for module in sorted(found)
    }


def total(by_module: Iterable[Score]) -> Score:
    return Score(*map(sum, zip(*map(astuple, by_module), strict=True)))
