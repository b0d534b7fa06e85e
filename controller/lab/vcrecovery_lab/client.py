"""A user of the service: asks DNS for its name, then the web server for its page."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

# The system's own resolver is used, in a mount namespace in which it asks the lab's name server.
_IN_NAMESPACE = 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"'


def fetch(name_server: str, url: str, timeout: float = 3.0) -> str | None:
    """The page, or None when the name or the page is not to be had."""
    with tempfile.TemporaryDirectory() as scratch:
        resolv = Path(scratch) / "resolv.conf"
        resolv.write_text(f"nameserver {name_server}\noptions timeout:3 attempts:2\n")
        command = ["unshare", "--mount", "sh", "-c", _IN_NAMESPACE, "sh", str(resolv)]
        curl = ["curl", "--silent", "--fail", "--noproxy", "*", "--max-time", str(timeout), url]
        done = subprocess.run([*command, *curl], capture_output=True, text=True, timeout=timeout + 10, check=False)
        return done.stdout if done.returncode == 0 else None
