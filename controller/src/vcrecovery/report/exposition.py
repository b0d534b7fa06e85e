"""Prometheus' text format, version 0.0.4. Pure.

Our own: every value is read anew for each page, which needs none of prometheus_client's registries and counters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class Sample:
    labels: Mapping[str, str]
    value: float
    #: Of a histogram: `_bucket`, `_sum` or `_count`.
    suffix: str = ""


@dataclass(frozen=True)
class Family:
    """One metric: its name, what it means, and its values."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    meaning: str
    samples: Sequence[Sample] = field(default=())


def render(families: Iterable[Family]) -> str:
    """Families without values are left out: a figure that is not known has no value."""
    lines = []
    for family in families:
        if family.samples:
            meaning = family.meaning.replace("\\", "\\\\").replace("\n", "\\n")
            lines += [f"# HELP {family.name} {meaning}", f"# TYPE {family.name} {family.kind}"]
            lines += [_line(family.name + sample.suffix, sample) for sample in family.samples]
    return "".join(line + "\n" for line in lines)


def _line(name: str, sample: Sample) -> str:
    labels = ",".join(f'{key}="{_escaped(value)}"' for key, value in sample.labels.items())
    return f"{name}{{{labels}}} {number(sample.value)}" if labels else f"{name} {number(sample.value)}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if float(value).is_integer() and abs(value) < 2**53 else repr(float(value))
