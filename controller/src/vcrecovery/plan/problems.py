"""What is wrong with a plan: each problem with its line and key."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from vcrecovery.errors import UsageError

Key = tuple[str | int, ...]


@dataclass(frozen=True, order=True)
class Problem:
    """One thing wrong with a plan. `line` counts from 1; 0 when the place has none."""

    line: int
    key: str
    message: str

    def __str__(self) -> str:
        place = f"line {self.line}: " if self.line else ""
        return f"{place}{self.key}: {self.message}" if self.key else f"{place}{self.message}"


class PlanError(UsageError):
    """The plan cannot be used; `problems` has every reason, `remedy` what helps where a check of the plan does not."""

    def __init__(self, path: Path, problems: list[Problem], remedy: str = "") -> None:
        self.path = path
        self.problems = problems
        self.remedy = remedy
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"plan {path}: {problems[0]}{more}", remedy or f"see `vcrecovery plan check --plan {path}`")


def dotted(key: Key) -> str:
    text = ""
    for part in key:
        if isinstance(part, str) and not part.isprintable():
            part = repr(part)[1:-1]
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def suggest(word: str, known: list[str]) -> str:
    """`(known: a, b; did you mean a?)` for an error line."""
    if not known:
        return "(none is defined)"
    shown = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
    return f"(known: {shown}{near_to(word, known)})"


def near_to(word: str, known: list[str]) -> str:
    """`; did you mean a?`, or nothing."""
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""
