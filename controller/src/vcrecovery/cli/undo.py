"""What `vcrecovery rollback` and `vcrecovery commit` do, once they are called."""

from __future__ import annotations

import json
from pathlib import Path

from vcrecovery.cli.output import say
from vcrecovery.cli.recovery import carry_out, tell_the_end
from vcrecovery.core.episode import Request
from vcrecovery.core.text import clock_time, day_and_time, plain, span
from vcrecovery.errors import RefusedError, UsageError
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.rollback import Loss, loss_of
from vcrecovery.standby.kept_points import commit
from vcrecovery.store.lock import KEEPER_PATIENCE


def roll_back(env: Environment, plan_path: Path, service: str, word: str | None, *, as_json: bool) -> None:
    """Raises RefusedError where there is nothing to go back to, and without the operator's `word`."""
    if word not in (None, service):
        raise UsageError(f"--drop-new-writes {word} is not the service's name", f"type {service} to mean it")
    loss = loss_of(env, service)
    if loss is None:
        tell_the_end(env, Request(force=True), service, None, as_json=as_json)
        return
    if not as_json:
        for line in _lines(service, loss):
            say(line)
    elif word is None:
        say(json.dumps(_data(service, loss), indent=2))
    if word is None:
        raise RefusedError(
            f"a rollback of {service} loses what its VM has written: nothing was touched",
            f"`vcrecovery rollback {service} --drop-new-writes {service}` means it",
        )
    carry_out(
        env,
        plan_path,
        service=service,
        vm=None,
        host=None,
        site=None,
        group=None,
        force=True,
        restore_point=loss.restore_point,
        as_json=as_json,
    )


def commit_now(env: Environment, service: str) -> None:
    lxd = env.lxd[env.plan.services[service].standby.secondary]
    removed = commit(env.plan, service, lxd, env.journal, env.clock, patience=KEEPER_PATIENCE)
    say(f"{service}: committed: {', '.join(removed)} removed" if removed else f"{service}: nothing to commit")


def _lines(service: str, loss: Loss) -> list[str]:
    lines = [f"{service}: back to {loss.restore_point}, what its standby was; all that was written since is lost"]
    if loss.serves_since is not None:
        ago = span(loss.now - loss.serves_since)
        lines.append(f"  its VM serves since {day_and_time(loss.serves_since)}, for {ago}")
    if loss.failed_over_at is not None:
        lines.append(f"  what its standby wrote after the failover of {day_and_time(loss.failed_over_at)} is lost too")
    changed = loss.changed
    if changed is None:
        return [*lines, "  what was written since is not counted: its secondary is another machine"]
    if not changed.count:
        return [*lines, "  no file in its standby has changed since; what the VM has not sent is not counted"]
    some = "the newest:" if changed.count > len(changed.newest) else "namely:"
    files = f"{changed.count} file{'' if changed.count == 1 else 's'}"
    lines.append(f"  {files} in its standby {'has' if changed.count == 1 else 'have'} changed since, {some}")
    return [*lines, *(f"    {clock_time(at)}  {plain(name)}" for at, name in changed.newest)]


def _data(service: str, loss: Loss) -> dict[str, object]:
    return {
        "service": service,
        "restore_point": loss.restore_point,
        "serves_since": loss.serves_since,
        "failed_over_at": loss.failed_over_at,
        "changed": loss.changed.count if loss.changed is not None else None,
        "newest": [{"at": at, "path": name} for at, name in loss.changed.newest] if loss.changed is not None else [],
    }
