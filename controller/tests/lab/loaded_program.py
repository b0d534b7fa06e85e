"""`vcrecovery` as a test calls it hundreds of times: most of such a short run would be loading Python.

`python loaded_program.py` has loaded all of it, and forks a process for each call, which does what the command does.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Bytes of a request: words, environment and folder.
_LONGEST = 1 << 20


class LoadedProgram:
    """The way to such a process, which is started when it is needed, and ends with this one. Of any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: socket.socket | None = None

    def run(
        self, words: list[str], timeout: float, changes: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """`vcrecovery` with these words, in a session of its own. Raises TimeoutExpired after `timeout` seconds.

        `changes` are made to its environment.
        """
        environment = {**os.environ, **(changes or {})}
        asked = json.dumps({"words": words, "environment": environment, "folder": str(Path.cwd())}).encode()
        here, there = socket.socketpair()
        with here, there, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            with self._lock:
                socket.send_fds(self._connection(), [asked], [out.fileno(), err.fileno(), there.fileno()])
            there.close()
            here.settimeout(timeout)
            with here.makefile("r") as answers:
                pid = int(answers.readline())
                try:
                    status = int(answers.readline())
                except TimeoutError:
                    os.killpg(pid, signal.SIGKILL)
                    raise subprocess.TimeoutExpired(["vcrecovery", *words], timeout) from None
            for file in (out, err):
                file.seek(0)
            said = [file.read().decode(errors="replace") for file in (out, err)]
        return subprocess.CompletedProcess(["vcrecovery", *words], status, *said)

    def _connection(self) -> socket.socket:
        if self._requests is None:
            here, there = socket.socketpair(type=socket.SOCK_SEQPACKET)
            for kept in (here, there):
                kept.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST)
            with there:
                process = subprocess.Popen(
                    [sys.executable, "-P", __file__], stdin=there.fileno(), start_new_session=True
                )
            self._requests = here
            atexit.register(process.wait, 30)
            atexit.register(here.close)
        return self._requests


#: For all tests of a run.
LOADED = LoadedProgram()


def load_everything() -> None:
    import vcrecovery

    for module in pkgutil.walk_packages(vcrecovery.__path__, "vcrecovery."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    from vcrecovery.plan.model import Plan

    # Its schema is built at the first use.
    Plan.model_rebuild(force=True)
    # To look for garbage in all that would copy it into each fork.
    gc.freeze()


def become_the_program(asked: dict[str, Any], out: int, err: int) -> None:
    """In the new process. Does not return."""
    from vcrecovery.cli.main import main

    os.setsid()
    for number, file in ((0, os.open(os.devnull, os.O_RDONLY)), (1, out), (2, err)):
        os.dup2(file, number)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    sys.argv = ["vcrecovery", *asked["words"]]
    main()
    sys.exit(0)


def answer(asked: dict[str, Any], out: int, err: int, status: int) -> None:
    """Starts the program, and tells its number and its exit status."""
    pid = os.fork()
    if pid == 0:
        os.close(status)
        become_the_program(asked, out, err)
    os.write(status, f"{pid}\n".encode())
    _, ended = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):  # it has waited long enough
        os.write(status, f"{os.waitstatus_to_exitcode(ended)}\n".encode())
    os._exit(0)


def serve(requests: socket.socket) -> None:
    load_everything()
    # Whoever answers is nobody's concern when it has ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, files, _, _ = socket.recv_fds(requests, _LONGEST, 3)
        if not request:
            return
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            requests.close()
            answer(json.loads(request), *files)
        for file in files:
            os.close(file)


if __name__ == "__main__":
    serve(socket.socket(fileno=os.dup(0)))
