"""What became of each mutant, and which of those that stay are known, with the reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

KNOWN = Path(__file__).with_name("known.yml")
#: By a test that failed, one that hung, or the type checker, which `make lint` runs.
_NOTICED = frozenset({"killed", "timeout", "caught by type check", "segfault"})
_LINE = re.compile(r"^ +(?P<name>\S+): (?P<status>.+)$", re.MULTILINE)
EQUIVALENT, STAYS = "equivalent", "stays"


@dataclass(frozen=True)
class Mutant:
    name: str
    status: str

    @property
    def module(self) -> str:
        """As below `vcrecovery`: `core.decide`."""
        parts = self.name.split(".")[1:]
        return ".".join(part for part in parts if not part.startswith(("x_", "xǁ")))

    @property
    def noticed(self) -> bool:
        return self.status in _NOTICED


@dataclass(frozen=True)
class Change:
    """A mutant by what it changes: its name counts, and another line above gives it to another."""

    module: str
    before: str
    after: str


@dataclass(frozen=True)
class Known:
    """`as_`: it changes nothing that anybody can see (`equivalent`), or it would, and no test is worth it (`stays`)."""

    change: Change
    as_: str
    why: str


def mutants_of(results: str) -> list[Mutant]:
    """`results`: what `mutmut results --all true` prints."""
    return [Mutant(found["name"], found["status"]) for found in _LINE.finditer(results)]


def change_of(mutant: Mutant, shown: str) -> Change:
    """`shown`: what `mutmut show` prints of it, a difference."""
    lines = [line for line in shown.splitlines() if not line.startswith(("---", "+++", "#", "@@"))]
    before, after = (" ".join(line[1:].strip() for line in lines if line[:1] == sign) for sign in "-+")
    return Change(mutant.module, before, after)


def known(text: str) -> list[Known]:
    """Raises ValueError where an entry gives no reason."""
    found = []
    for module, entries in (yaml.safe_load(text) or {}).items():
        for entry in entries:
            one = Known(Change(module, entry["before"], entry["after"]), entry["as"], entry["why"])
            if one.as_ not in (EQUIVALENT, STAYS) or not one.why:
                raise ValueError(f"{module}: {one.change.after!r}: `as` is equivalent or stays, and `why` the reason")
            found.append(one)
    return found


@dataclass(frozen=True)
class Score:
    """Of a module, or of all."""

    mutants: int
    noticed: int
    equivalent: int

    @property
    def share(self) -> float:
        """Of those that are not equivalent, what is noticed; in percent."""
        return 100.0 * self.noticed / max(1, self.mutants - self.equivalent)


def scores(mutants: Iterable[Mutant], left: Mapping[str, Change], reasons: Sequence[Known]) -> dict[str, Score]:
    """By module. `left`: of each mutant that stays, its change."""
    equivalent = {one.change for one in reasons if one.as_ == EQUIVALENT}
    all_, noticed, same = Counter[str](), Counter[str](), Counter[str]()
    for mutant in mutants:
        all_[mutant.module] += 1
        noticed[mutant.module] += mutant.noticed
        same[mutant.module] += not mutant.noticed and left[mutant.name] in equivalent
    return {module: Score(all_[module], noticed[module], same[module]) for module in sorted(all_)}


def total(by_module: Mapping[str, Score]) -> Score:
    of = by_module.values()
    return Score(sum(s.mutants for s in of), sum(s.noticed for s in of), sum(s.equivalent for s in of))
