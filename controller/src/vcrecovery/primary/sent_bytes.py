"""How many bytes the sync has sent, as the kernel counts them for the sync's units.

They run in a slice of their own, for which systemd has the kernel count (IPAccounting): whatever program sends for
them, with all that the way costs. The count begins anew when the slice does, at a boot.
"""

from __future__ import annotations

from typing import Optional

from .programs import ProgramError, Run

SLICE = "system-vcrecovery.slice"
#: systemd answers at once, or hangs.
_TIMEOUT = 5.0
#: Seconds between two looks: it is for bills, which are in no hurry.
_EVERY = 60.0
#: What systemd prints where nothing is counted: its word for it, or the greatest number there is.
_MOST = 1 << 53


def sent_bytes(run: Run) -> Optional[int]:
    """None where nothing is counted: an old kernel, or a container."""
    try:
        said = run(["systemctl", "show", "--property=IPEgressBytes", "--", SLICE], _TIMEOUT).strip().rpartition("=")[2]
    except ProgramError:
        return None
    return int(said) if said.isdecimal() and int(said) < _MOST else None


class SentBytes:
    """The count, looked at now and then."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._looked_at: Optional[float] = None
        self._found: Optional[int] = None

    def at(self, instant: float) -> Optional[int]:
        """At most a minute old at that time."""
        # A clock that was set back must not stop it.
        if self._looked_at is None or not self._looked_at <= instant < self._looked_at + _EVERY:
            self._looked_at, self._found = instant, sent_bytes(self._run)
        return self._found
