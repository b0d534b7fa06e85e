"""What systemd is told by the verbs that keep running."""

from __future__ import annotations

import os
import socket


def tell_systemd(text: str) -> None:
    """sd_notify(3), where systemd listens."""
    if path := os.environ.get("NOTIFY_SOCKET"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(text.encode(), f"\0{path[1:]}" if path.startswith("@") else path)
