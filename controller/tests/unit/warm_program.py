"""The program without the third of a second in which it loads: each run is a fork of a process that has it loaded.

It is the real `main()` with its own arguments, environment and output, and it ends as any Python program does. What a
start loads, how long it takes, and how it takes to closed descriptors is asked of `view_program`, which starts it anew.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from lab.loaded_program import LOADED


def vcrecovery(*words: str | Path, **changes: str) -> subprocess.CompletedProcess[str]:
    return LOADED.run([os.fsdecode(word) for word in words], 60.0, changes)
