"""`--dry-run` of failover and switchover, as an operator reads it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from vcrecovery.cli.options import colour
from vcrecovery.cli.output import say
from vcrecovery.core.episode import Request
from vcrecovery.core.text import plain
from vcrecovery.errors import RefusedError, VCRecoveryError
from vcrecovery.operations.dry_run import DryRun, dry_run
from vcrecovery.operations.environment import Environment


def tell_dry_run(env: Environment, services: Sequence[str], cause: str, request: Request, *, as_json: bool) -> None:
    """Raises RefusedError when one of them would be refused; all are told before."""
    found = [_of_one(env, name, cause, request) for name in services]
    if as_json:
        say(json.dumps({"dry_run": True, "services": [_data(entry) for entry in found]}, indent=2))
    else:
        for line in (line for entry in found for line in _lines(entry)):
            say(line)
    refused = [entry.service for entry in found if entry.refused]
    if refused:
        raise RefusedError(f"would be refused: {', '.join(refused)}", "nothing was touched")


def _of_one(env: Environment, name: str, cause: str, request: Request) -> DryRun:
    try:
        return dry_run(env, name, cause, request)
    except VCRecoveryError as error:
        return DryRun(name, refused=error.message, hint=error.hint)


def _lines(entry: DryRun) -> list[str]:
    lines = [f"{entry.service}: dry run, nothing is touched"]
    if entry.saw:
        lines.append(f"  seen now      {plain(entry.saw)}")
    if entry.refused:
        hint = f"; {entry.hint}" if entry.hint else ""
        return [*lines, f"  {colour('would refuse', 'red')}  {plain(entry.refused + hint)}"]
    if entry.nothing_to_do:
        return [*lines, f"  nothing to do: {entry.nothing_to_do}"]
    if entry.under_way is not None:
        lines.append(f"  goes on with epoch {entry.under_way}")
    lines.append("  step          last time")
    lines += [f"  {step:<12}  {_seconds(seconds)}" for step, seconds in entry.steps]
    if entry.seconds is not None:
        lines.append(f"  {'together':<12}  {_seconds(entry.seconds)}")
    lines += [f"  {'command':<12}  {plain(hook)}" for hook in entry.hooks]
    return lines


def _seconds(seconds: float | None) -> str:
    return "never done" if seconds is None else f"{seconds:.1f} s"


def _data(entry: DryRun) -> dict[str, object]:
    return {
        "service": entry.service,
        "saw": entry.saw,
        "refused": entry.refused or None,
        "hint": entry.hint,
        "nothing_to_do": entry.nothing_to_do or None,
        "under_way": entry.under_way,
        "hooks": list(entry.hooks),
        "steps": [{"step": step.value, "seconds": seconds} for step, seconds in entry.steps],
    }
