"""What a page and its Markdown are made of, so that both say the same. Texts are plain; `...` in them is a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Items:
    items: Sequence[str]


@dataclass(frozen=True)
class Table:
    """`right`: the columns of figures. The first cell of each row names it."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Chart:
    """`name` is unique in a document. `about` says what the picture shows; the table beside it has the figures."""

    name: str
    title: str
    about: str


@dataclass(frozen=True)
class Lines(Chart):
    """A line for each series, over days; seconds, on a scale of powers of ten."""

    series: Mapping[str, Mapping[date, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Points(Chart):
    """For each row what was reached, each point with its kind; and the target, if there is one. Seconds."""

    rows: Mapping[str, Sequence[tuple[str, float]]] = field(default_factory=dict)
    targets: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Bars(Chart):
    """A bar for each name, with its value as text."""

    bars: Mapping[str, tuple[float, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Front(Chart):
    """What is worth its price: each step an amount and the seconds that it takes. `now`: the same of what there is."""

    steps: Sequence[tuple[float, float]] = ()
    now: tuple[float, float] | None = None
    currency: str = ""


Block = Text | Items | Table | Lines | Points | Bars | Front


@dataclass(frozen=True)
class Section:
    """`anchor`: its address in the page."""

    anchor: str
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """The whole report. `summary`: what it comes to, in a few lines."""

    title: str
    about: str
    summary: Sequence[str]
    sections: Sequence[Section]
    foot: str
