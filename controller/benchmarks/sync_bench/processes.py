"""What processes have used, from /proc."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from dataclasses import dataclass
from pathlib import Path

from vcrecovery_lab.pair.process import below

_TICKS = os.sysconf("SC_CLK_TCK")
_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Memory:
    """Bytes: resident, and with shared pages divided among those who share them."""

    name: str
    rss: int
    pss: int


def cpu(pid: int) -> float:
    """Seconds of CPU time of a process and of the ended children that it has waited for; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:15]) / _TICKS


def memory(name: str, pids: list[int]) -> Memory:
    """The sum over the processes that are still there."""
    rss = pss = 0
    for pid in pids:
        with contextlib.suppress(OSError, AttributeError):
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            rss += int(re.search(r"^Rss: +(\d+)", text, re.MULTILINE)[1]) * 1024  # type: ignore[index]
            pss += int(re.search(r"^Pss: +(\d+)", text, re.MULTILINE)[1]) * 1024  # type: ignore[index]
    return Memory(name, rss, pss)


class Peak(threading.Thread):
    """The most memory that a process and all below it have together, looked at every 50 ms until `stop`."""

    def __init__(self, name: str, pid: int) -> None:
        super().__init__(daemon=True)
        self.peak = Memory(name, 0, 0)
        self._pid = pid
        self._ended = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._ended.wait(_POLL_SECONDS):
            now = memory(self.peak.name, [self._pid, *below(self._pid)])
            if now.pss > self.peak.pss:
                self.peak = now

    def stop(self) -> Memory:
        self._ended.set()
        self.join()
        return self.peak
