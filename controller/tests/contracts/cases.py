"""A list of cases, each a function of a stage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import pytest

from vcrecovery.errors import ExternalError

S = TypeVar("S")


class Cases(Generic[S]):
    """Decorates the cases of one driver."""

    def __init__(self) -> None:
        self._all: list[Callable[[S], None]] = []

    def __call__(self, case: Callable[[S], None]) -> Callable[[S], None]:
        self._all.append(case)
        return case

    @property
    def each(self) -> pytest.MarkDecorator:
        """Has a test run once with each `case`."""
        return pytest.mark.parametrize("case", self._all, ids=lambda case: case.__name__)


class Waits(Protocol):
    """What every stage can do."""

    def eventually(self, condition: Callable[[], object], what: str) -> None:
        """Waits for it. Fails after a time that is long for any machine."""


def refusal(call: Callable[[], object], kind: type[ExternalError] = ExternalError) -> ExternalError:
    """The error that `call` raises, of that very type."""
    with pytest.raises(ExternalError) as caught:
        call()
    assert type(caught.value) is kind
    return caught.value
