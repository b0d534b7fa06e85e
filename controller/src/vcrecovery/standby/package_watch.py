"""Keeps running standbys up with their primaries' packages (see `package_changes`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.lxd import Instance
from vcrecovery.drivers.runtime import Event
from vcrecovery.keeping import SayOnce, keep
from vcrecovery.plan.model import Plan
from vcrecovery.standby.container import ROLE_KEY, STANDBY, secondary_of
from vcrecovery.standby.package_changes import Handled, Packages, Settling, read_packages, units_of
from vcrecovery.store.lock import one_act, one_keeper
from vcrecovery.transfer.rootfs import Rootfs

log = logging.getLogger("vcrecovery.watch")

EVERY = 5.0
#: Not what is masked here, as what is the machine's own: systemd before 254 refuses that, and nothing would be handled.
_TRY_RESTART = """for unit do
  shift
  case $(systemctl show -p LoadState -- "$unit") in *=masked) ;; *) set -- "$@" "$unit" ;; esac
done
[ $# = 0 ] || exec systemctl try-restart -- "$@"
"""
_RESTART_SECONDS = _UNITS_SECONDS = 60.0


class Containers(Protocol):
    """What is needed of LXD."""

    @property
    def is_here(self) -> bool: ...

    def get(self, instance: str) -> Instance | None: ...

    def rootfs(self, pool: str, instance: str) -> Path: ...

    def restart(self, instance: str, timeout: float) -> None: ...

    def execute(self, instance: str, command: Sequence[str], timeout: float) -> None: ...


class PackageWatch:
    """Looks at every running standby of a plan. One that serves is never touched."""

    def __init__(
        self, plan: Plan, lxd: Mapping[str, Containers], clock: Clock, settling: Callable[[], Settling] = Settling
    ) -> None:
        self._plan, self._lxd, self._clock = plan, lxd, clock
        self._handled = Handled(plan.state_dir)
        self._settling = {name: settling() for name in plan.services}

    def run(self, stop: Event) -> None:
        """Looks every few seconds until `stop` is set; what cannot be done now is tried again."""

        def look(service: str) -> None:
            if sentence := self.look(service):
                log.info("%s", sentence)

        services = self._plan.services
        keep(services, look, every=EVERY, stop=stop, say=SayOnce(log), trouble="its packages cannot be read")

    def look(self, service: str) -> str | None:
        """Does what one service needs now; a sentence on what was done. Raises ExternalError, BusyError."""
        entry = self._plan.services[service]
        choice = entry.sync.on_package_change
        if choice == "nothing":
            return None
        lxd = self._lxd[entry.standby.secondary]
        if not lxd.is_here:
            return None  # its refresh finds that too, only later
        tree = Rootfs(lxd.rootfs(secondary_of(self._plan, entry).storage_pool, service), [])
        if not _runs_as_standby(lxd.get(service)):
            return None
        seen = read_packages(tree)
        if seen is None:
            return None
        before = self._handled.read(service)
        if before is None:
            self._handled.write(service, seen)
            return None
        if not self._settling[service].is_due(before.fingerprint, seen.fingerprint, self._clock.steady()):
            return None
        state_dir, clock = self._plan.state_dir, self._clock
        with one_keeper(state_dir, service, clock=clock), one_act(state_dir, service, clock):
            # It may have been promoted or stopped since.
            if not _runs_as_standby(lxd.get(service)):
                return None
            done = self._restart(lxd, service, tree, choice, before, seen)
            self._handled.write(service, seen)
        return done

    def _restart(
        self, lxd: Containers, service: str, tree: Rootfs, choice: str, before: Packages, seen: Packages
    ) -> str:
        changed = seen.changed_since(before)
        names = ", ".join(name.partition(":")[0] for name in changed[:3]) + (" ..." if len(changed) > 3 else "")
        what = f"{service}: {len(changed) or 'some'} packages have changed ({names or 'RPM'})"
        if choice == "units" and seen.versions:
            units = units_of(tree, changed)
            lxd.execute(service, ["systemctl", "daemon-reload"], _UNITS_SECONDS)
            if units:
                lxd.execute(service, ["/bin/sh", "-c", _TRY_RESTART, "sh", *units], _UNITS_SECONDS)
            return f"{what}; restarted {', '.join(units) or 'nothing, since they own no unit'}"
        lxd.restart(service, _RESTART_SECONDS)
        return f"{what}; the standby was restarted"


def _runs_as_standby(instance: Instance | None) -> bool:
    return instance is not None and instance.running and instance.config.get(ROLE_KEY) == STANDBY
