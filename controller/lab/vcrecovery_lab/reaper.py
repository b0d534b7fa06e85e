"""`python reaper.py COMMAND...`: runs a command, and reaps at once whatever it leaves behind, until all has ended.

libvirt waits until the kernel has forgotten a QEMU that died, which is PID 1's work. systemd does it at once; the
PID 1 of a container or a test machine may take seconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys

_PR_SET_CHILD_SUBREAPER = 36


def main() -> int:
    """The command's exit status."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    command = subprocess.Popen(sys.argv[1:])
    status = 0
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, ended = os.wait()
            if pid == command.pid:
                status = os.waitstatus_to_exitcode(ended)
    return status


if __name__ == "__main__":
    sys.exit(main())
