"""What the name `vcrecovery` starts, and `python -m vcrecovery`.

A secondary receives at every heartbeat of every VM: what sshd starts there goes past the command line and its library,
which are half of such a start.
"""

from __future__ import annotations

import sys
from typing import NoReturn

from vcrecovery.cli.loading import without_collection


def main() -> NoReturn:
    """Runs what stands on the command line. Errors are one line on stderr; the exit status is an ExitCode."""
    match sys.argv[1:]:
        case ["receive", service, "--state-dir", state_dir] if not service.startswith("-"):
            _receive(service, state_dir)
        case _:
            from vcrecovery.cli.main import main as command_line

            command_line()


def _receive(service: str, state_dir: str) -> NoReturn:
    """As `vcrecovery receive` does."""
    with without_collection():
        from vcrecovery.transfer.forced_command import serve
    try:
        serve(service, state_dir)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt):
        from vcrecovery.cli.main import errors_told

        with errors_told():
            raise
    sys.exit(0)


if __name__ == "__main__":
    main()
