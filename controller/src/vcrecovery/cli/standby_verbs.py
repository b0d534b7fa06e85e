"""`vcrecovery standby` with the verbs of all its files."""

from __future__ import annotations

from vcrecovery.cli import restore_points, standby_modes
from vcrecovery.cli.standby import standby

__all__ = ["restore_points", "standby", "standby_modes"]
