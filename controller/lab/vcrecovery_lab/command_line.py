"""What an operator types."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from .run import LabError, run

#: Seconds.
PATIENCE = 600.0


def vcrecovery(plan: Path, *words: str, may_end: tuple[int, ...] = (0,), timeout: float = PATIENCE) -> str:
    """What it prints. Raises LabError with what it says, where it ends otherwise than it may."""
    program = [sys.executable, "-m", "vcrecovery", *words, "--plan", str(plan)]
    done = run(program, timeout=timeout, env={"PYTHONPATH": os.pathsep.join(sys.path)}, check=False)
    if done.returncode not in may_end:
        raise LabError(f"vcrecovery {' '.join(words)}: {done.stderr.strip() or done.stdout[-500:]}")
    return done.stdout
