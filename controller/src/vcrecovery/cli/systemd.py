"""What systemd is told by the verbs that keep running."""

from __future__ import annotations

import contextlib
import os
import socket


def tell_systemd(text: str, *, at_once: bool = False) -> None:
    """sd_notify(3), where systemd listens. Raises OSError, also where it would have to wait if `at_once`."""
    if path := os.environ.get("NOTIFY_SOCKET"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(not at_once)
            sock.sendto(text.encode(), f"\0{path[1:]}" if path.startswith("@") else path)


def sign_of_life() -> None:
    """For a unit with `WatchdogSec=`: sd_watchdog_enabled(3). One that does not arrive is followed by the next."""
    if "WATCHDOG_USEC" in os.environ and os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
        with contextlib.suppress(OSError):
            tell_systemd("WATCHDOG=1", at_once=True)
