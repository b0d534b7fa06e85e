"""A session that is handed on to the receiver in the VM of a secondary on demand, while that is on.

The one there looks at everything once more. Standard library only: the receiver uses it.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Mapping
from typing import NoReturn

from vcrecovery.transfer.jail import PR_SET_PDEATHSIG


def ssh_words(to: Mapping[str, str], command: str) -> list[str]:
    """What runs `command` at the session there. `to`: its address, port, key and known_hosts.

    ssh reads a key twice, and fails with one that was replaced meanwhile. So it gets the next one, too, which lies
    beside it while the role `secondary` rotates it.
    """
    options = [
        ("BatchMode", "yes"),
        ("ConnectTimeout", "10"),
        ("HostKeyAlias", "vcrecovery-receiver"),
        ("IdentitiesOnly", "yes"),
        ("IdentityFile", to["key"]),
        ("IdentityFile", f"{to['key']}.new"),
        ("LogLevel", "ERROR"),
        ("ServerAliveInterval", "15"),
        ("StrictHostKeyChecking", "yes"),
        ("UserKnownHostsFile", to["known_hosts"]),
    ]
    words = [word for name, value in options for word in ("-o", f"{name}={value}")]
    return ["ssh", "-F", "none", "-T", "-p", to["port"], *words, f"root@{to['address']}", command]


def hand_on(to: Mapping[str, str], command: str) -> NoReturn:
    """Ends as the session there does. `to`: as `ssh_words` has it.

    This process stays, and holds the session's lock: ssh closes what it inherits. Whoever makes the standby serve kills
    it, and ssh with it.
    """
    argv = ssh_words(to, command)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == parent:
            os.execve("/usr/bin/ssh", argv, {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"})  # noqa: S606
        os._exit(1)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)
