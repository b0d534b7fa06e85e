"""The operator's commands around a sync or a snapshot: whatever happens, the second one runs."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
from typing import Iterator

from .programs import ProgramError
from .settings import Hook

#: There while the first command may have had its effect and the second has not ended well; it holds the second.
HELD = "held"
_GRACE_SECONDS = 3.0


@contextlib.contextmanager
def between(hook: Hook, run_dir: str) -> Iterator[None]:
    """`after` runs in any case, also when `before` has failed half-way."""
    _remember(hook, run_dir)
    try:
        _command("before", hook.before, hook.timeout)
        yield
    except BaseException as error:
        _undo(hook, run_dir, f"; before that, {error}" if isinstance(error, ProgramError) else "")
        raise
    _undo(hook, run_dir, "")


def release_what_is_held(run_dir: str) -> None:
    """Runs the second command of a run that was killed; if it fails, that of the next pair has to tell.

    It may be that there was nothing left to undo.
    """
    try:
        with open(os.path.join(run_dir, HELD), encoding="utf-8") as file:
            found = json.load(file)
        hook = Hook("true", str(found["after"]), float(found["timeout"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return
    with contextlib.suppress(ProgramError):
        _undo(hook, run_dir, "")


def _remember(hook: Hook, run_dir: str) -> None:
    path = os.path.join(run_dir, HELD)
    os.makedirs(run_dir, mode=0o755, exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8", opener=_for_root) as file:
        json.dump({"after": hook.after, "timeout": hook.timeout}, file)
    os.replace(path + ".new", path)


def _for_root(path: str, flags: int) -> int:
    """A command may hold a password."""
    return os.open(path, flags, 0o600)


def _undo(hook: Hook, run_dir: str, earlier: str) -> None:
    try:
        _command("after", hook.after, hook.timeout)
    except ProgramError as error:
        raise ProgramError(
            f"THE SERVICE MAY STILL BE HELD: {error}; run it by hand ({_one_line(hook.after)}){earlier}", error.status
        ) from None
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(run_dir, HELD))


def _command(name: str, command: str, timeout: float) -> None:
    """Not by `programs.run`: what a hook leaves in the background would hold its pipes open, and outlive a time-out."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            ["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            status = process.wait(timeout)
            reason = "" if status == 0 else f"failed: {_last_line(output.fileno()) or f'exit status {status}'}"
        except subprocess.TimeoutExpired:
            last = _last_line(output.fileno())
            status, reason = 124, f"has not ended within {timeout:g} s" + (f", and said: {last}" if last else "")
        except BaseException:
            _kill(process)
            raise
        if reason:
            _kill(process)
            raise ProgramError(f"the consistency hook's command `{name}` {reason}", status)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """With all that it has started; one that ends by itself may tidy up."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)


def _last_line(handle: int) -> str:
    size = os.fstat(handle).st_size
    text = os.pread(handle, 4096, max(0, size - 4096)).decode("utf-8", "replace")
    return text.strip().splitlines()[-1].strip() if text.strip() else ""


def _one_line(command: str) -> str:
    text = " ".join(command.split())
    return text if len(text) <= 120 else f"{text[:117]}..."
