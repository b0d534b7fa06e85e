"""How busy the machine is that this runs on, as its kernel tells it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from vcrecovery.balance.devices import CardReading, DiskReading
from vcrecovery.balance.load import MachineReading
from vcrecovery.errors import ExternalError

_PRESSURES = ("cpu", "memory", "io")
#: The places in the first line of /proc/stat, after its name: see proc(5). What guests use is in user already.
_BUSY, _STOLEN = (0, 1, 2, 5, 6, 7), 7
#: Bytes, whatever the disk's own sectors are.
_SECTOR = 512


def machine_reading(proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> MachineReading:
    """Raises ExternalError when the kernel does not say how busy its cores are."""
    try:
        ticks = [int(word) for word in (proc / "stat").read_text().split("\n", 1)[0].split()[1:]]
        second = os.sysconf("SC_CLK_TCK")
        busy, stolen = sum(ticks[n] for n in _BUSY) / second, ticks[_STOLEN] / second
    except (OSError, ValueError, IndexError) as error:
        raise ExternalError(f"{proc / 'stat'} does not say how busy this machine is: {error}") from error
    return MachineReading(busy, stolen, _pressures(proc), _disks(proc, sys), _cards(sys))


def _pressures(proc: Path) -> dict[str, float]:
    """Per cent of the last minute; a kernel without the figure leaves it out."""
    found = {}
    for name in _PRESSURES:
        with suppress(OSError, ValueError, IndexError):
            words = (proc / "pressure" / name).read_text().split()
            found[name] = float(words[2].removeprefix("avg60="))
    return found


def _disks(proc: Path, sys: Path) -> dict[str, DiskReading] | None:
    """Those that are devices of their own: what lies on them (partitions, LVM, loops) would count twice."""
    found = {}
    with suppress(OSError, ValueError, IndexError):
        for line in (proc / "diskstats").read_text().splitlines():
            _, _, name, *words = line.split()
            if (sys / "block" / name.replace("/", "!") / "device").exists():
                reads, _, sectors_read, read_for, writes, _, sectors_written, written_for, _, busy = map(
                    int, words[:10]
                )
                size = (sectors_read + sectors_written) * _SECTOR
                found[name] = DiskReading(reads + writes, size, (read_for + written_for) / 1000, busy / 1000)
    return found or None


def _cards(sys: Path) -> dict[str, CardReading] | None:
    """Those that are devices of their own: bridges and the like would count twice."""
    found = {}
    with suppress(OSError, ValueError):
        for card in sorted((sys / "class/net").iterdir()):
            if (card / "device").exists():
                count = {name: int((card / "statistics" / name).read_text()) for name in _COUNTERS}
                dropped = count["rx_dropped"] + count["tx_dropped"]
                found[card.name] = CardReading(count["rx_bytes"], count["tx_bytes"], dropped, _speed(card))
    return found or None


_COUNTERS = ("rx_bytes", "tx_bytes", "rx_dropped", "tx_dropped")


def _speed(card: Path) -> float | None:
    """Bytes a second. Of a card without a link, and of most of VMs, the kernel does not know it."""
    with suppress(OSError, ValueError):
        megabits = int((card / "speed").read_text())
        return megabits * 1e6 / 8 if megabits > 0 else None
    return None
