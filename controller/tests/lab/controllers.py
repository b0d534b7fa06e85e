"""Starts killed controllers: a process that has loaded everything forks one for each call.

Most of a short run is loading Python. `python controllers.py` takes one JSON object a line and answers with another:
`{"before": "N", "words": [...], "out": FILE, "err": FILE}` with the new process's id, `{"wait": ID}` and `{"poll": ID}`
with its exit status, the latter with `null` while it runs.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))

from lab.killed_controller import run_until

#: Seconds for a controller to end, and the status of one that has not.
PATIENCE, HUNG = 300.0, 1000


class Controllers:
    """The way to such a process, which is started when it is needed."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = {**os.environ, **env}
        self._process: subprocess.Popen[str] | None = None

    def start(self, before: str, words: list[str], out: Path, err: Path) -> int:
        """The process id of a controller that is killed before change number `before`."""
        return int(self._ask({"before": before, "words": words, "out": str(out), "err": str(err)}))

    def wait(self, pid: int) -> int:
        """Its exit status."""
        return int(self._ask({"wait": pid}))

    def poll(self, pid: int) -> int | None:
        """None while it runs."""
        found: int | None = self._ask({"poll": pid})
        return found

    def _ask(self, request: dict[str, Any]) -> Any:
        if self._process is None:
            command = [sys.executable, __file__]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=self._env)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate(timeout=60)


def load_everything() -> None:
    import vcrecovery

    for module in pkgutil.walk_packages(vcrecovery.__path__, "vcrecovery."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def become_controller(asked: dict[str, Any]) -> None:
    """In the new process. Does not return."""
    for number, file in ((1, asked["out"]), (2, asked["err"])):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        run_until(asked["before"], asked["words"])
    except SystemExit as end:
        # As at any end of Python; but to tidy up what was loaded takes as long as all the rest.
        threading._shutdown()  # type: ignore[attr-defined]
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)


def status_of(pid: int, patience: float) -> int | None:
    """The exit status of a child; None if it still runs after `patience` seconds."""
    descriptor = os.pidfd_open(pid)
    try:
        if not select.select([descriptor], [], [], patience)[0]:
            return None
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    finally:
        os.close(descriptor)


def ended_or_hung(pid: int) -> int:
    if (status := status_of(pid, PATIENCE)) is None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return HUNG
    return status


def serve() -> None:
    load_everything()
    ended: dict[int, int | None] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        answer: int | None
        if "words" in asked:
            if (answer := os.fork()) == 0:
                become_controller(asked)
            # Numbers are used again.
            ended.pop(answer, None)
        else:
            waits = "wait" in asked
            pid = asked["wait"] if waits else asked["poll"]
            if ended.get(pid) is None:
                ended[pid] = ended_or_hung(pid) if waits else status_of(pid, 0)
            answer = ended[pid]
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
