"""The errors that a user sees. Each is one line that names the thing, and a way out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from errno import EROFS
from pathlib import Path


class ExitCode(IntEnum):
    """What the exit status of every verb means."""

    DONE = 0
    INTERNAL = 1
    USAGE = 2
    REFUSED = 3
    EXTERNAL = 4
    BUSY = 5
    #: Of `status --check` alone: something needs a person now, or in office hours.
    ATTENTION = 6
    WARNING = 7


class VCRecoveryError(Exception):
    """Base class; `str()` of it is the line for the user."""

    exit_code = ExitCode.INTERNAL

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = " ".join(message.split())
        self.hint = hint
        super().__init__(f"{self.message}; {hint}" if hint else self.message)


class InternalError(VCRecoveryError):
    """VCRecovery itself was about to break a promise: a bug. What it was about to do was not done."""

    def __init__(self, message: str, hint: str = "this is a bug") -> None:
        super().__init__(f"internal error: {message}", hint)


class UsageError(VCRecoveryError):
    """The command line or the plan is wrong. Nothing was done."""

    exit_code = ExitCode.USAGE


class RefusedError(VCRecoveryError):
    """A promise forbids what was asked. Nothing was done."""

    exit_code = ExitCode.REFUSED


class NotNowError(RefusedError):
    """It forbids it at this moment, and may not in the next: a failure that lasts is worth another try."""


class ExternalError(VCRecoveryError):
    """Something outside (libvirt, LXD, DNS, a port) failed. The same call resumes the work."""

    exit_code = ExitCode.EXTERNAL


class NotStartedError(ExternalError):
    """Others stand in the way. The same call goes on once they do not. `unmet`: services that this one needs."""

    def __init__(self, reason: str, hint: str = "", *, unmet: bool = False) -> None:
        super().__init__(f"not started: {reason}" if unmet else reason, hint)
        self.reason = reason
        self.unmet = unmet


class TakenBackError(ExternalError):
    """A switchover has failed before its standby has started; its primary serves again. The same call begins anew."""


class CalledOffError(ExternalError):
    """Somebody has asked for something else meanwhile, or something else comes first: it has not failed."""


class ReachedError(ExternalError):
    """Not all of what was asked answers as it should, and some of it does: whoever came by may have been served."""


class BootingError(ExternalError):
    """It does not answer yet, since it was powered on a moment ago: no fault, and nothing to tell anybody."""


class BusyError(VCRecoveryError):
    """Another controller is at work on the same service."""

    exit_code = ExitCode.BUSY


class OperationInterrupted(KeyboardInterrupt):
    """Ctrl-C in an operation. `how_far`: a line for each of its services; `is_left`: the same command continues it."""

    def __init__(self, how_far: Sequence[str], *, is_left: bool) -> None:
        super().__init__()
        self.how_far = tuple(how_far)
        self.is_left = is_left


def what_helps(error: Exception) -> str:
    """Against one that met a file of ours."""
    if isinstance(error, OSError) and error.errno == EROFS:
        return "`dmesg` says why it is that"
    whose = isinstance(error, PermissionError)
    return "call as the user to whom it belongs, root" if whose else "free some space or correct its rights"


@contextmanager
def lock_errors(path: Path) -> Iterator[None]:
    """An OSError of the block becomes an ExternalError that names the lock."""
    try:
        yield
    except OSError as error:
        raise ExternalError(
            f"the lock {path} cannot be used: {error.strerror}",
            f"{what_helps(error)}, then run it again",
        ) from error


def one_line(error: Exception) -> str:
    """What it says of itself."""
    return " ".join(str(error).split()) or "no message"


def bug_in_words(error: Exception) -> str:
    """Of one that nobody expected."""
    return f"{type(error).__name__}: {one_line(error)}; this is a bug"


def in_words(error: Exception) -> str:
    """For a log line: what a user is told, or that it is a bug."""
    expected = isinstance(error, VCRecoveryError | OSError)
    return one_line(error) if expected else f"internal error: {bug_in_words(error)}"
