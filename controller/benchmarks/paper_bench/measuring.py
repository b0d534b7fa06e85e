"""Runs the benchmarks that are missing, each as its own process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from .benches import BENCHES
from .kept import Folder, Kept, Run
from .machine import commit, described, today

#: Seconds that a benchmark has to remove what it has made, once it was asked to end.
_PATIENCE = 300.0


def missing(folder: Folder, again: Collection[str], quick: bool) -> list[str]:
    """Those that have to be run. What was measured whole is as good as a quick run; the reverse is not."""
    return [name for name in BENCHES if name in again or not _will_do(folder.read(name), quick)]


def _will_do(kept: Kept | None, quick: bool) -> bool:
    # What found nothing is tried again: what was in its way may be gone.
    return kept is not None and kept.found is not None and (quick or not kept.run.quick)


def measure(folder: Folder, names: Sequence[str], quick: bool) -> None:
    """One after the other: a benchmark that fails is written down, and the next one has its turn."""
    for number, name in enumerate(names, 1):
        bench = BENCHES[name]
        takes = "a quick run" if quick else f"about {bench.takes}"
        sys.stderr.write(f"\n{name} ({number} of {len(names)}): figures {bench.figures}, {takes}\n")
        results = folder.unfinished(name)
        began = time.monotonic()
        words = [
            sys.executable,
            "-m",
            bench.module,
            *bench.words,
            "--json",
            str(results),
            *(["--quick"] if quick else []),
        ]
        status, said = shown(words)
        sys.stderr.write(f"{name}: ended with status {status} after {(time.monotonic() - began) / 60:.1f} minutes\n")
        folder.write(name, Run(quick, status, said if status else "", commit(), today(), described()), results)


def shown(words: Sequence[str | Path]) -> tuple[int, str]:
    """Runs a command, shows what it says while it says it, and returns its status and the last line on stderr.

    Ctrl-C reaches it too, and SIGTERM is passed on: it removes what it has made before this raises.
    """
    last = bytearray()
    with subprocess.Popen(words, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None  # noqa: S101  it was asked for
        reader = threading.Thread(target=_copy, args=(process.stderr.fileno(), last), daemon=True)
        reader.start()
        previous = signal.signal(signal.SIGTERM, _end)
        try:
            status = process.wait()
        except SystemExit:
            process.terminate()
            process.wait(_PATIENCE)
            raise
        except KeyboardInterrupt:
            process.wait(_PATIENCE)
            raise
        finally:
            signal.signal(signal.SIGTERM, previous)
        # Whoever else has got its stderr may keep it open.
        reader.join(5)
    lines = [line for line in last.decode(errors="replace").splitlines() if line.strip()]
    return status, lines[-1].strip() if lines else "it said nothing"


def _copy(source: int, last: bytearray) -> None:
    with contextlib.suppress(OSError):
        while chunk := os.read(source, 4096):
            sys.stderr.write(chunk.decode(errors="replace"))
            sys.stderr.flush()
            last += chunk
            del last[:-4096]


def _end(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)
