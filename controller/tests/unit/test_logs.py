"""What is logged, and what is not."""

from __future__ import annotations

import subprocess
import sys

#: As websockets does in a thread of its own, when a peer is silent.
SILENT_PEER = """
import logging
from vcrecovery.logs import set_up
set_up("text", verbose=True)
try:
    raise TimeoutError
except TimeoutError:
    logging.getLogger("websockets.client").error("keepalive ping failed", exc_info=True)
logging.getLogger("vcrecovery.watch").error("LXD on secondary sec1 does not answer")
"""


def test_a_silent_peer_is_told_once_by_whoever_listens() -> None:
    done = subprocess.run([sys.executable, "-c", SILENT_PEER], capture_output=True, text=True, timeout=60, check=True)
    (line,) = done.stderr.splitlines()
    assert line.endswith("ERROR   LXD on secondary sec1 does not answer")
