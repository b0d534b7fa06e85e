"""Long-lived programs of the stack: started in the foreground, and ended with all their children."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from vcrecovery_lab.pair.process import below
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.run import LabError

#: PostgreSQL refuses to run as root, and nothing of this needs to.
USER, GROUP = "nobody", "nogroup"
AS_USER = ("setpriv", f"--reuid={USER}", f"--regid={GROUP}", "--clear-groups")
#: Seconds that a program has to start or to end, on a slow machine that has other work, too.
PATIENCE = 120.0


class Child:
    """One program in the foreground. `stop` is the signal that ends it in order."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        log: Path,
        *,
        env: Mapping[str, str],
        stop: signal.Signals = signal.SIGTERM,
    ) -> None:
        self.name, self.log, self._stop = name, log, stop
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*AS_USER, *(str(word) for word in argv)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", **env},
                cwd="/",
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def running(self) -> bool:
        return self._process.poll() is None

    def wait_until_ready(self, ready: Callable[[], bool], seconds: float = PATIENCE) -> None:
        """Ends it, and raises LabError with the end of its log, when it is not `ready` within `seconds`."""

        def answers() -> bool:
            return not self.running() or ready()

        try:
            wait_until(answers, f"an answer of {self.name}", seconds, poll=0.02)
            if not self.running():
                raise LabError(f"{self.name} ended by itself: {end_of(self.log)}")
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Returns when the program and every process below it are gone: one that lives on would hold its sockets."""
        family = _family(self.pid) if self.running() else {}
        if self.running():
            os.kill(self.pid, self._stop)
        try:
            self._process.wait(PATIENCE)
            wait_until(lambda: not _alive(family), f"the end of {self.name}", 30)
        except (subprocess.TimeoutExpired, LabError):
            for pid in (self.pid, *_alive(family)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait(PATIENCE)
            wait_until(lambda: not _alive(family), f"the end of {self.name} after SIGKILL", PATIENCE)


def end_of(log: Path) -> str:
    """Its last lines, in one."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else ["no log"]
    return " | ".join(line.strip() for line in lines[-6:])


def _family(pid: int) -> dict[int, str]:
    """The process and all below it, with the times of their start: numbers are used again."""
    found = {one: _started(one) for one in (pid, *below(pid))}
    return {one: started for one, started in found.items() if started is not None}


def _alive(family: Mapping[int, str]) -> list[int]:
    return [pid for pid, started in family.items() if _started(pid) == started]


def _started(pid: int) -> str | None:
    """None for one that has ended, even if nobody has asked for its status yet."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]
