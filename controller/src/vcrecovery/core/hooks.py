"""The operator's own commands beside an operation's steps: which are to run, and which holds the start back. Pure.

What came of each is kept in the evidence of the step beside which it ran.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import StrEnum

from vcrecovery.core.episode import Episode, StepRecord
from vcrecovery.core.evidence import Confirmation, Failed, HookRun, Started, Verified
from vcrecovery.core.text import cut, plain, span

_WIDTH = 80


class Moment(StrEnum):
    """When a command runs, as the plan calls it."""

    BEFORE_START = "before_start"
    AFTER_SWITCH = "after_switch"
    ON_REFUSED = "on_refused"


def ran_in(episode: Episode, moment: Moment) -> tuple[HookRun, ...]:
    """What the journal has of them, in the order in which they ran."""
    return tuple(run for record in episode.steps for run in hooks_of(record) if run.moment == moment)


def hooks_of(record: StepRecord) -> tuple[HookRun, ...]:
    """Those that ran beside one try of a step."""
    evidence = record.evidence
    return evidence.hooks if isinstance(evidence, Confirmation | Failed | Started | Verified) else ()


def is_due(command: Sequence[str], ran: Sequence[HookRun], *, gate: bool) -> bool:
    """Each runs once in an episode, as far as the journal knows; a gate until it is open."""
    newest = _newest(command, ran)
    return newest is None or (gate and not newest.ok)


def closed_gate(ran: Sequence[HookRun], *, forced: bool) -> HookRun | None:
    """The gate that holds the start back."""
    if forced:
        return None
    return next((run for run in ran if run.gate and not run.ok and run is _newest(run.command, ran)), None)


def _newest(command: Sequence[str], ran: Sequence[HookRun]) -> HookRun | None:
    return next((run for run in reversed(ran) if list(run.command) == list(command)), None)


def said(run: HookRun) -> str:
    """What came of one, in a line."""
    command = cut(plain(shlex.join(run.command)), _WIDTH)
    how = f"done in {run.seconds:.1f} s" if run.ok else f"failed after {run.seconds:.1f} s"
    words = f": {plain(run.said)}" if run.said else ""
    return f"hook {run.moment}: {command}: {how}{words}"


def why_closed(run: HookRun) -> str:
    command = cut(plain(shlex.join(run.command)), _WIDTH)
    return f"the gate {command} is closed: {plain(run.said) or f'it failed after {span(run.seconds)}'}"
