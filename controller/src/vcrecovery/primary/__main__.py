"""`python3 -m vcrecovery.primary refresh`, which systemd runs in the VM."""

from __future__ import annotations

import argparse
import subprocess
import sys
from typing import List, Optional

from ..excludes.errors import ExcludeError
from .package_runs import take_mark, wait_until_idle
from .refresh import refresh
from .settings import DEFAULT_PATH, read_settings

_PACKAGE_RUN_SECONDS = 900.0


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="vcrecovery.primary", description=__doc__)
    parser.add_argument("verb", choices=["refresh"], help="make the exclude list anew, if a package run changed it")
    parser.add_argument("--settings", default=DEFAULT_PATH, metavar="FILE")
    options = parser.parse_args(arguments)
    if not wait_until_idle(_PACKAGE_RUN_SECONDS):
        print(f"a package run has not ended for {_PACKAGE_RUN_SECONDS:.0f} s; reading the packages as they are")
    take_mark()
    try:
        written = refresh(read_settings(options.settings), _tell_sync)
    except ExcludeError as error:
        print(f"error: {error}; the list stays as it was", file=sys.stderr)
        return 1
    print(f"changed: {', '.join(written)}" if written else "unchanged")
    return 0


def _tell_sync() -> None:
    # lsyncd reads its list at its start only. It compares the whole tree then, so what was left out is sent now.
    subprocess.run(["systemctl", "--no-block", "try-restart", "vcrecovery-sync.service"], check=True, timeout=60)


if __name__ == "__main__":
    sys.exit(main())
