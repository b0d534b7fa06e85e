"""The disk with the standbys of a secondary on demand, while its hypervisor has it: who may write there."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from vcrecovery.operations.environment import Environment, place_of_disk
from vcrecovery.standby.container import REGISTER
from vcrecovery.transfer.sessions import SESSIONS_END_WITHIN, end_sessions


class StandbysDisk:
    """Of secondary `name`. Whoever gives or takes it holds the lock of its power."""

    def __init__(self, env: Environment, name: str) -> None:
        self._env, self._name = env, name
        self.place = place_of_disk(env.plan, name)

    @property
    def services(self) -> list[str]:
        """Those that stand by there."""
        return [name for name, service in self._env.plan.services.items() if service.standby.secondary == self._name]

    @property
    def is_mounted(self) -> bool:
        return self._env.is_mounted(self.place.disk)

    @property
    def takes_files(self) -> bool:
        return self.place.takes_files.exists() and self.is_mounted

    def give(self, disk: Path) -> None:
        """To the receiver here: from now on files arrive. Raises ExternalError, also while a VM has it."""
        self._env.mount_disk(self._name, disk, self.place.disk)
        for name in self.services:
            self._tell_receiver(name)
        self.place.takes_files.touch()

    def take(self, disk: Path) -> None:
        """From the receiver. Raises ExternalError when somebody still has it."""
        with contextlib.suppress(FileNotFoundError):
            self.place.takes_files.unlink()
        for name in self.services:
            end_sessions(self._env.plan.state_dir, name, SESSIONS_END_WITHIN)
        self._env.unmount_disk(self._name, disk, self.place.disk)

    def _tell_receiver(self, name: str) -> None:
        """Where it finds the standby, without reading the plan."""
        place = self.place
        entry = {
            "container": name,
            "rootfs": str(place.rootfs(name)),
            "disk": str(place.disk),
            "note": str(place.note),
            "takes_files": str(place.takes_files),
            "relay": self._relay_of(name),
        }
        file = self._env.plan.state_dir / REGISTER / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        scratch = file.with_suffix(".new")
        scratch.write_text(json.dumps(entry, indent=1) + "\n")
        scratch.replace(file)

    def _relay_of(self, name: str) -> dict[str, str]:
        """How the receiver hands files on while it is on; the role `secondary` makes the key."""
        secondary = self._env.plan.secondaries[self._name]
        vm, folder = secondary.vm, self.place.folder / "relay"
        return {
            "address": "" if vm is None else str(vm.address.ip),
            "port": str(secondary.receiver.port),
            "key": str(folder / name),
            "known_hosts": str(folder / "known_hosts"),
        }
