"""`python -m exclude_bench.worker KIND ROOT OUTPUT PATTERN...`: makes one list and says how long it took.

A process of its own, so that the caller can read its peak memory and its time with the interpreter's start.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from .lists import make


def main() -> None:
    """Writes OUTPUT.rsync, OUTPUT.lsyncd and OUTPUT.paths; prints the seconds from the call to the rsync file."""
    kind, root, output, *patterns = sys.argv[1:]
    started = time.perf_counter()
    made = make(kind, Path(root), patterns)
    Path(f"{output}.rsync").write_bytes(made.rsync)
    seconds = time.perf_counter() - started
    Path(f"{output}.lsyncd").write_bytes(made.lsyncd)
    Path(f"{output}.paths").write_bytes(b"\0".join(made.paths))
    sys.stdout.write(json.dumps({"seconds": seconds, "paths": len(made.paths)}) + "\n")


if __name__ == "__main__":
    main()
