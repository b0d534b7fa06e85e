"""The fence command of a hypervisor, run once for all services of it that are failed over at the same time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

from vcrecovery.errors import ExternalError
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.model import Fence
from vcrecovery.store.lock import open_lock

#: Seconds for which a hypervisor that was proven off is taken to be off still.
PROVEN_FOR = 60.0
#: Seconds between two tries to get the lock, and the time beyond the command's own for which it is waited for.
LOOK_EVERY, PATIENCE = 0.05, 10.0
#: Seconds from the command's end for what answers there to fall silent.
OFF_WITHIN = 3.0


def fence_host(
    env: Environment,
    host: str,
    fence: Fence,
    opened_at: float,
    refuse_what_answers: Callable[[], None],
    still_answering: Callable[[], Sequence[str]],
    kind: str = "hypervisors",
) -> str:
    """Ends `host` by the operator's command, or takes over what another failover's run of it has just proven.

    That it is off, and what the command said.

    `opened_at`: when the failure was seen; what was proven before says nothing about it. `refuse_what_answers` is
    called right before the command, which another failover's run may have delayed by its whole timeout. What of the
    host `still_answering` tells after it proves that the command has ended another machine, or none.
    `kind`: of machine; two kinds may have the same name.
    Raises ExternalError when the machine is not proven off, and what these two raise.
    """
    clock = env.clock
    waits_since = clock.now()
    with _locked(env, kind, host, fence.timeout + PATIENCE) as file:
        last = _read(file)
        at, ok, said = last.get("at", 0.0), last.get("ok", False), str(last.get("said", ""))
        if ok and at >= opened_at and 0 <= clock.now() - at < PROVEN_FOR:
            return f"{host} is off: {said} (for all its services)"
        if not ok and at >= waits_since:
            raise ExternalError(said, str(last.get("way_out", "")))
        refuse_what_answers()
        try:
            said = env.power_off(host, fence.command, fence.timeout)
            _refuse_one_that_goes_on(env, host, still_answering)
        except ExternalError as error:
            _write(file, {"at": clock.now(), "ok": False, "said": error.message, "way_out": error.hint})
            raise
        _write(file, {"at": clock.now(), "ok": True, "said": said})
    return f"{host} is off: {said}"


def _refuse_one_that_goes_on(env: Environment, host: str, still_answering: Callable[[], Sequence[str]]) -> None:
    """A machine may take a moment to be off."""
    deadline = env.clock.steady() + OFF_WITHIN
    while answering := still_answering():
        if env.clock.steady() >= deadline:
            raise ExternalError(
                f"the fence command of {host} says that it is off, but {', '.join(answering)} answers",
                "see which machine it powers off, or power that off by hand and say so: "
                "`vcrecovery failover SERVICE --primary-is-down SERVICE`",
            )
        env.clock.sleep(LOOK_EVERY)


@contextmanager
def _locked(env: Environment, kind: str, host: str, timeout: float) -> Iterator[BinaryIO]:
    path = env.plan.state_dir / "locks" / kind / host
    deadline = env.clock.steady() + timeout
    with open_lock(path) as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if env.clock.steady() > deadline:
                    raise ExternalError(
                        f"the fence command of {host} has been running for over {timeout:.0f} s",
                        "see what it waits for",
                    ) from None
                env.clock.sleep(LOOK_EVERY)
        yield file


def _read(file: BinaryIO) -> dict[str, Any]:
    file.seek(0)
    try:
        found = json.loads(file.read())
    except ValueError:
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("at"), float) else {}


def _write(file: BinaryIO, entry: dict[str, Any]) -> None:
    """On the disk before it counts. Where that is full, the others run the command once more, which is harmless."""
    with contextlib.suppress(OSError):
        file.truncate(0)
        file.write(json.dumps(entry).encode())
        os.fsync(file.fileno())
