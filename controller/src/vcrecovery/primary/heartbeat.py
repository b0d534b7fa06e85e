"""The marker file whose copy in the standby tells how old the standby is.

`at` is a time of which it is known that all changes before have been sent. `good_until` is a time up to which all
changes are known to have been sent, or null when that is `at` itself.
`queue` is the number of changes that lsyncd has seen and not sent. `units` has the state of each unit behind the
service's ports that is not active; null when that is not known. `boot` is the kernel's name for the boot of the VM, and
`final` is true once its shutdown has sent the last files (see `last_files`). `sent`: bytes that the sync has sent since
that boot; null where nobody counts them. `receiver`: the secondary that it vouches for, of those that it `knows`; null
where there is one only.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from typing import Callable, Dict, Optional, Sequence

from .current import current, read_json, sent_to, still_vouched
from .marker import NAME
from .marks import Marks
from .programs import Run, run
from .sent_bytes import SentBytes
from .unit_states import unit_states

#: `good_until` before the first whole sync.
NEVER = 0.0
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_PROBE, _PROBES = "probe-", 8
#: The version before had the milliseconds of the wall clock there.
_NUMBER = re.compile(_PROBE + r"([0-9]{15})")
#: What lsyncd writes, in the run directory.
_LSYNCD = "lsyncd"
_POLL_SECONDS = 0.2


def stamp(
    state_dir: str, at: float, good_until: Optional[float], queue: Optional[int] = None,
    units: Optional[Dict[str, str]] = None, final: bool = False, sent: Optional[int] = None,
    receiver: Optional[str] = None, knows: Sequence[str] = (),
) -> None:  # fmt: skip
    """Replaces the marker at once."""
    os.makedirs(state_dir, mode=0o755, exist_ok=True)
    path = os.path.join(state_dir, NAME)
    with open(path + ".new", "w", encoding="utf-8") as file:
        good = good_until if good_until is None else round(good_until, 3)
        said = {"at": round(at, 3), "good_until": good, "queue": queue, "units": units}
        whose = {"receiver": receiver, "knows": list(knows)} if knows else {}
        json.dump({**said, "boot": boot_id(), "final": final, "sent": sent, **whose}, file)
        file.write("\n")
    os.replace(path + ".new", path)


def boot_id() -> Optional[str]:
    """A new one with each boot; None where the kernel does not tell."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None


def last_good(state_dir: str) -> Optional[float]:
    """What the last heartbeat, of an earlier run perhaps, vouched for."""
    try:
        with open(os.path.join(state_dir, NAME), encoding="utf-8") as file:
            found = json.load(file)
        good = found["good_until"] if found["good_until"] is not None else found["at"]
        return float(good)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def since_boot() -> float:
    """Seconds, also those for which the VM was suspended: a clock that nobody sets."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def beat(
    state_dir: str, run_dir: str, every: float,
    now: Callable[[], float] = time.time, sleep: Callable[[float], None] = time.sleep,
    units: Sequence[str] = (), programs: Run = run, receivers: Sequence[str] = (),
    steady: Callable[[], float] = since_boot, look: Callable[[], None] = lambda: None,
) -> None:  # fmt: skip
    """Stamps every so many seconds what has been sent by then, and how the `units` are, for ever.

    What is known is known of a moment. When the clock is set, that moment gets another time: the one that a clock like
    the new one would have shown then. `look` makes a mark where lsyncd does not see everything.
    """
    good = last_good(state_dir) or NEVER
    vouched_for = sent_to(read_json(os.path.join(state_dir, NAME)), receivers)
    marks, probes = Marks(run_dir), Probes(state_dir, run_dir)
    sent = SentBytes(programs)
    next_probe = 0.0
    ahead: Optional[float] = None
    while True:
        instant, ticks = now(), steady()
        if ahead is not None and good != NEVER:
            good += instant - ticks - ahead
        ahead = instant - ticks
        if ticks >= next_probe:
            next_probe = ticks + every
            probes.add(ticks)
        made = probes.sent()
        # After it: what was mounted before that probe is seen, what is mounted later is not vouched for.
        look()
        # First: whoever has the sync go elsewhere has made a mark before.
        to = current(run_dir, receivers)
        if made is not None:
            at = made + ahead
            suspect = marks.any
            good = still_vouched(good, vouched_for, to, NEVER) if suspect else at
            vouched_for = None if to is None else to.name
            queue = queue_length(os.path.join(run_dir, _LSYNCD, "status"))
            stamp(
                state_dir, at, good if suspect else None, queue, unit_states(units, programs), sent=sent.at(instant),
                receiver=vouched_for, knows=receivers,
            )  # fmt: skip
        sleep(min(every, _POLL_SECONDS))


class Probes:
    """Empty files with names of their own; once lsyncd says that one is sent, all that changed before it is.

    A file that is written again and again could not tell that: rsync sends what it holds then, perhaps long after the
    change that it is sent for, and before others that are sent beside it.

    lsyncd tells the greatest name of its life. So each is greater than all before, whatever clock is set, also after a
    restart of this program, and beside what a boot before has left, which lsyncd sees go.
    """

    def __init__(self, state_dir: str, run_dir: str) -> None:
        self._state_dir, self._sent = state_dir, os.path.join(run_dir, _LSYNCD, "sent")
        self._open: Dict[str, float] = {}
        self._last = _number(self._newest())
        os.makedirs(state_dir, mode=0o755, exist_ok=True)
        for name in os.listdir(state_dir):
            if name.startswith(_PROBE):
                self._last = max(self._last, _number(name))
                self._remove(name)

    def add(self, ticks: float) -> None:
        """Makes one, by a clock that is never set. The oldest stays until it is sent, of the others a few."""
        self._last = max(self._last + 1, int(ticks * 1000))
        name = f"{_PROBE}{self._last:015d}"
        if len(self._open) > _PROBES:
            self._close(sorted(self._open)[1:2])
        self._open[name] = ticks
        os.close(os.open(os.path.join(self._state_dir, name), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))

    def sent(self) -> Optional[float]:
        """When the newest was made that has been sent since the last call; None if none has."""
        newest = _number(self._newest())
        if newest > self._last:
            # Not one of these, which can tell nothing any more. The next ones come after it.
            self._last = newest
            self._close(list(self._open))
            return None
        done = [name for name in self._open if _number(name) <= newest]
        found = max((self._open[name] for name in done), default=None)
        self._close(done)
        return found

    def _close(self, names: Sequence[str]) -> None:
        for name in names:
            del self._open[name]
            self._remove(name)

    def _newest(self) -> str:
        try:
            with open(self._sent, encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._state_dir, name))


def _number(name: str) -> int:
    """0 for what is no probe."""
    found = _NUMBER.fullmatch(name)
    return int(found.group(1)) if found else 0


def queue_length(status_file: str) -> Optional[int]:
    """How many changes lsyncd holds, from its status file; None if that cannot be read."""
    try:
        with open(status_file, encoding="utf-8", errors="replace") as file:
            found = re.search(r"^There are (\d+) delays", file.read(20000), re.M)
    except OSError:
        return None
    return int(found.group(1)) if found else None
