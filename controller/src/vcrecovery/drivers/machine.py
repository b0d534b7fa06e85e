"""How busy the machine is that this runs on, as its kernel tells it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from vcrecovery.balance.load import MachineReading
from vcrecovery.errors import ExternalError

_PRESSURES = ("cpu", "memory", "io")
#: The places in the first line of /proc/stat, after its name: see proc(5). What guests use is in user already.
_BUSY, _STOLEN = (0, 1, 2, 5, 6, 7), 7


def machine_reading(proc: Path = Path("/proc")) -> MachineReading:
    """Raises ExternalError when the kernel does not say it."""
    try:
        ticks = [int(word) for word in (proc / "stat").read_text().split("\n", 1)[0].split()[1:]]
        second = os.sysconf("SC_CLK_TCK")
        return MachineReading(sum(ticks[n] for n in _BUSY) / second, ticks[_STOLEN] / second, _pressures(proc))
    except (OSError, ValueError, IndexError) as error:
        raise ExternalError(f"{proc / 'stat'} does not say how busy this machine is: {error}") from error


def _pressures(proc: Path) -> dict[str, float]:
    """Per cent of the last minute; a kernel without the figure leaves it out."""
    found = {}
    for name in _PRESSURES:
        with suppress(OSError, ValueError, IndexError):
            words = (proc / "pressure" / name).read_text().split()
            found[name] = float(words[2].removeprefix("avg60="))
    return found
