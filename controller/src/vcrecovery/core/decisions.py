"""What the decision core answers, and what it is asked with. Values."""

from __future__ import annotations

from dataclasses import dataclass

from vcrecovery.core.episode import Outcome, Step


@dataclass(frozen=True)
class Run:
    """Carry out a step."""

    step: Step
    sentence: str


@dataclass(frozen=True)
class Close:
    """End the episode. `transient`: why it is refused may be over in the next moment."""

    outcome: Outcome
    sentence: str
    hint: str = ""
    transient: bool = False


@dataclass(frozen=True)
class Wait:
    """Others come first: do nothing until they have gone on. `sentence` says for what."""

    sentence: str


@dataclass(frozen=True)
class Blocked:
    """`step` cannot be done for as long as others stand in its way: leave the episode to a later call.

    `unmet`: they are services that this one needs. `for_good`: it was tried often enough, so only an operator goes on.
    """

    step: Step
    reason: str
    hint: str = ""
    unmet: bool = False
    for_good: bool = False

    @property
    def sentence(self) -> str:
        return f"not started: {self.reason}" if self.unmet else self.reason


Decision = Run | Close | Wait | Blocked


@dataclass(frozen=True)
class Go:
    """The standby may start."""


@dataclass(frozen=True)
class Unmet:
    """Those that come first do not come up."""

    reason: str
    hint: str = ""


#: What the other services that fail over at the same time mean for the start of this one.
Readiness = Go | Wait | Unmet
GO = Go()
