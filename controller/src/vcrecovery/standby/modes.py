"""How a standby waits: what its mode wants, what it is, and the next step between the two. The steps are pure.

A standby is booted at one of two levels. `base`: systemd is up and nothing else, but for the plan's `warm_units`; from
there its services start in a failover. `all`: its services run. Which one it has reached, and from when its processes
are at the oldest, is noted at the container, so that it outlives the controller; a container that was started since is
not refreshed yet.

A boot to `all` may begin with the units that answer the ports. A cold standby's recovery time is its boot, and of that
most is what nobody waits for: logins, timers, logs of a kernel. systemd has no word for "these first"; so it is told to
boot to little more than them, and one of them to be a unit that starts the rest once they run.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from vcrecovery.drivers.lxd import Instance
from vcrecovery.drivers.lxd.instances import FROZEN, RUNNING, STOPPED
from vcrecovery.errors import ExternalError, what_helps
from vcrecovery.plan.model import Service
from vcrecovery.plan.modes import Mode

#: As an earlier version called it.
REFRESHED_KEY = "user.vcrecovery.settled"
RAW_KEY = "raw.lxc"
_INIT = "lxc.init.cmd = /sbin/init"
#: What the line begins with by which a container boots to `base` only. Of two such lines the later one holds.
_BASE_INIT = f"{_INIT} systemd.unit=sysinit.target"
#: Nothing waits for the journal to be on disk: it goes there with the rest.
_JOURNAL_FLUSH = "systemd-journal-flush.service"
#: Seconds of a boot after which the rest starts without them.
FIRST_AT_MOST = 60
#: Seconds that it then waits: when a whole host has failed, the first units of others need that CPU time more.
NEIGHBOURS_FIRST = 5


class Level(StrEnum):
    BASE = "base"
    ALL = "all"


class Act(StrEnum):
    """What brings a standby nearer to its mode."""

    STOP = "stop"
    BOOT = "boot"
    #: Wait for the boot, start what belongs to the level, restart what has become stale.
    REFRESH = "refresh"
    FREEZE = "freeze"
    THAW = "thaw"


@dataclass(frozen=True)
class Refreshed:
    """What runs, and since when by the secondary's clock: no file that is newer is known to its processes."""

    level: Level
    since: float


def level_of(mode: Mode) -> Level:
    return Level.BASE if mode is Mode.WARM else Level.ALL


def refreshed(instance: Instance) -> Refreshed | None:
    """None when nothing is known of the boot that it is in."""
    try:
        level, since, boot = instance.config.get(REFRESHED_KEY, "").split(" ")
        found = Refreshed(Level(level), float(since))
        # The same boot, not a later one: the clock may have been set back since.
        return found if float(boot) == instance.started_at else None
    except ValueError:
        return None


def note(level: Level, since: float, instance: Instance) -> str:
    """What `refreshed` reads."""
    return f"{level} {since!r} {instance.started_at!r}"


def next_act(mode: Mode, status: str, found: Refreshed | None, every: float, now: float) -> Act | None:
    """What to do with a standby in LXD's `status`; None when it is as `mode` wants it, or is changing."""
    if mode is Mode.COLD:
        return Act.STOP if status in (RUNNING, FROZEN) else None
    if status == STOPPED:
        return Act.BOOT
    if status not in (RUNNING, FROZEN):
        return None
    level = level_of(mode)
    if found is not None and found.level is Level.ALL and level is Level.BASE:
        return Act.STOP
    # A clock that was set back must not put the refresh off for ever.
    if found is None or found.level is not level or abs(now - found.since) >= every:
        return Act.THAW if status == FROZEN else Act.REFRESH
    if mode is Mode.FROZEN:
        return Act.FREEZE if status == RUNNING else None
    return Act.THAW if status == FROZEN else None


def boots_to_base(config: Mapping[str, str]) -> bool:
    """Whether a container of this configuration boots to `base` only."""
    return _BASE_INIT in config.get(RAW_KEY, "")


def with_init(raw: str, service: Service, mode: Mode) -> str:
    """`raw.lxc` for a boot in `mode`. Masks have to be in place before the units start: such a boot goes by `base`."""
    lines = _without_init(raw)
    if mode is Mode.WARM:
        lines.append(" ".join([_BASE_INIT, *(f"systemd.wants={unit}" for unit in service.warm_units)]))
    elif service.masked_units:
        lines.append(_BASE_INIT)
    return "\n".join(lines)


def with_init_of(found: str, raw: str) -> str:
    """`raw` with the keeper's way of booting that `found` has."""
    return "\n".join([raw, *(line for line in found.splitlines() if line.startswith(_BASE_INIT))])


def init_of_all(first_units: Sequence[str]) -> list[str]:
    """The line of `raw.lxc` by which a boot to `all` begins with `first_units`; none when there are none.

    A tree that lacks `REST_UNIT` still boots to the service, which it would not if the target were that tree's own.
    """
    if not first_units:
        return []
    from vcrecovery.excludes.machine_specific import REST_UNIT  # with its package, which a failover does without

    wants = [f"systemd.wants={unit}" for unit in (*first_units, REST_UNIT)]
    return [" ".join([_INIT, *wants, f"systemd.mask={_JOURNAL_FLUSH}", "systemd.unit=sysinit.target"])]


def rest_units(first_units: Sequence[str]) -> dict[str, str]:
    """The texts of `REST_UNIT` and of the one that takes its place when a first unit hangs in its start.

    Until the first units run it is a job of systemd's and no process, which would take their time.
    """
    from vcrecovery.excludes.machine_specific import REST_NOW_UNIT, REST_UNIT  # see above

    unit = """\
[Unit]
Description=The rest of this standby's boot
DefaultDependencies=no
Conflicts=shutdown.target
Before=shutdown.target
"""
    service = "\n[Service]\nType=oneshot\n"
    start = "ExecStartPre=-/bin/journalctl --flush\nExecStart=/bin/systemctl start --no-block default.target\n"
    waits = f"After={' '.join(first_units)}\nJobTimeoutSec={FIRST_AT_MOST}\nOnFailure={REST_NOW_UNIT}\n"
    sleeps = f"ExecStartPre=/bin/sleep {NEIGHBOURS_FIRST}\n"
    return {REST_UNIT: f"{unit}{waits}{service}{sleeps}{start}", REST_NOW_UNIT: f"{unit}{service}{start}"}


def without_init(raw: str) -> str:
    """`raw.lxc` for a boot with everything."""
    return "\n".join(_without_init(raw))


def _without_init(raw: str) -> list[str]:
    return [line for line in raw.splitlines() if not line.startswith(_BASE_INIT)]


class ChosenModes:
    """The modes that `standby set` has chosen instead of the plan's; on disk."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / "modes"

    def read(self, service: str) -> Mode | None:
        """None when the plan's holds."""
        try:
            return Mode((self._folder / service).read_text(encoding="utf-8").strip())
        except (FileNotFoundError, ValueError):
            return None
        except OSError as error:
            raise self._unusable(error) from error

    def write(self, service: str, mode: Mode | None) -> None:
        """None gives the plan's back."""
        try:
            if mode is None:
                with contextlib.suppress(FileNotFoundError):
                    (self._folder / service).unlink()
                return
            self._folder.mkdir(parents=True, exist_ok=True)
            scratch = self._folder / f".{service}.new"
            with scratch.open("w", encoding="utf-8") as file:
                file.write(f"{mode}\n")
                file.flush()
                os.fsync(file.fileno())
            scratch.replace(self._folder / service)
        except OSError as error:
            raise self._unusable(error) from error

    def of(self, name: str, service: Service) -> Mode:
        """The mode that holds."""
        return self.read(name) or service.mode

    def _unusable(self, error: OSError) -> ExternalError:
        return ExternalError(
            f"the chosen modes in {self._folder} cannot be used: {error.strerror}",
            what_helps(error),
        )
