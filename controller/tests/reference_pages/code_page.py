"""`docs/reference/exit-codes.md`: what each exit status means."""

from __future__ import annotations

from collections.abc import Iterator

from reference_pages.markdown import head, table
from vcrecovery import errors
from vcrecovery.cli.main import _NAGIOS_UNKNOWN
from vcrecovery.cli.status import _NAGIOS
from vcrecovery.errors import ExitCode, VCRecoveryError

#: Those that no error has, or that a bug has.
_WITHOUT_ERROR = {
    ExitCode.DONE: "Done, or nothing to do.",
    ExitCode.INTERNAL: "A bug in VCRecovery; please report it. `VCRECOVERY_DEBUG=1` shows where.",
    ExitCode.ATTENTION: "`status --check` only: something needs attention now.",
    ExitCode.WARNING: "`status --check` only: something needs attention, but can wait.",
}
_INTERRUPTED = ("130", "", "Interrupted by Ctrl-C. The same call goes on from there.")
_NAGIOS_HEAD = """
## As a Nagios plugin

`vcrecovery status --nagios` has the statuses of a Nagios plugin instead.

"""


def _classes() -> Iterator[type[VCRecoveryError]]:
    """In the order of the file: the first with a status is the general one."""
    for entry in vars(errors).values():
        if isinstance(entry, type) and issubclass(entry, VCRecoveryError):
            yield entry


def _meaning(status: ExitCode) -> str:
    """Raises StopIteration for a status that has neither an error nor a sentence here."""
    if status in _WITHOUT_ERROR:
        return _WITHOUT_ERROR[status]
    return next(error.__doc__ or "" for error in _classes() if error.exit_code is status)


def rows() -> list[tuple[str, str, str]]:
    """Status, name and meaning of each."""
    return [*((str(int(status)), status.name, _meaning(status)) for status in ExitCode), _INTERRUPTED]


def page() -> str:
    nagios = {code: (word, f"`status --check` would exit with {check}") for check, (word, code) in _NAGIOS.items()}
    nagios[_NAGIOS_UNKNOWN] = (
        "UNKNOWN",
        "nobody could look: the plan or the journal cannot be read, or the command line is wrong",
    )
    return (
        head("Exit codes", "`controller/src/vcrecovery/errors.py`", "The same for every verb.")
        + "\n"
        + table(("status", "name", "meaning"), rows())
        + _NAGIOS_HEAD
        + table(("status", "word", "when"), [(str(code), *said) for code, said in sorted(nagios.items())])
    )
