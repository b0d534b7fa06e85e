"""Package runs on the primary, seen from outside it: the package database in the standby's tree has changed.

A standby that runs (hot, or warm and running) would go on with programs that are no longer on its disk, and its
maintainer scripts have run on the primary only (paper, end of section IV.A). So it is started anew, or only the units
that the changed packages own are. A package run takes a while and comes in bursts: the database has to be left alone
for some time first.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vcrecovery.errors import ExternalError
from vcrecovery.transfer.rootfs import Rootfs

DPKG_STATUS = "/var/lib/dpkg/status"
RPM_DATABASES = ("/usr/lib/sysimage/rpm/rpmdb.sqlite", "/var/lib/rpm/rpmdb.sqlite", "/var/lib/rpm/Packages")
#: Seconds without a change after which a package run counts as ended; and the longest that this is waited for.
SETTLE, PATIENCE = 30.0, 600.0

#: Bytes. A primary may write what it likes; one that is larger is no database.
_LARGEST_STATUS, _LARGEST_RPM, _LARGEST_LIST = 1 << 26, 1 << 28, 1 << 24
#: A name of Debian's, perhaps with its architecture: of others there is no list, and they may lead out of the tree.
_NAME = re.compile(r"[\w.+:~-]+")
_UNIT = re.compile(r"^(?:/usr)?/lib/systemd/system/([\w.\\-]+\.service)$", re.MULTILINE)


@dataclass(frozen=True)
class Packages:
    """The packages of a tree. `versions` is by `name:arch`, empty where only the fingerprint is known (RPM)."""

    fingerprint: str
    versions: Mapping[str, str] = field(default_factory=dict)

    def changed_since(self, before: Packages) -> list[str]:
        """Packages that are new, gone or of another version, sorted."""
        names = set(self.versions) | set(before.versions)
        return sorted(name for name in names if self.versions.get(name) != before.versions.get(name))


def read_packages(tree: Rootfs) -> Packages | None:
    """The packages of a standby's tree; None if it has no database that is known."""
    status = tree.read(DPKG_STATUS, _LARGEST_STATUS + 1)
    if status is not None:
        if len(status) > _LARGEST_STATUS:
            return None
        versions = dict(_installed(status.decode("utf-8", "replace")))
        text = json.dumps(versions, sort_keys=True)
        return Packages(hashlib.sha256(text.encode()).hexdigest(), versions)
    for path in RPM_DATABASES:
        content = tree.read(path, _LARGEST_RPM + 1)
        if content is not None and len(content) <= _LARGEST_RPM:
            return Packages(hashlib.sha256(content).hexdigest())
    return None


def units_of(tree: Rootfs, packages: Sequence[str]) -> list[str]:
    """The systemd services that these packages (`name:arch`, dpkg) own in the tree, sorted."""
    units: set[str] = set()
    for label in filter(_NAME.fullmatch, packages):
        name = label.partition(":")[0]
        for list_name in (name, label):
            lines = tree.read(f"/var/lib/dpkg/info/{list_name}.list", _LARGEST_LIST + 1) or b""
            if len(lines) <= _LARGEST_LIST:
                units.update(_UNIT.findall(lines.decode(errors="replace")))
    return sorted(units)


class Settling:
    """Says when a change is over. Times are those of a clock that is never set."""

    def __init__(self, settle: float = SETTLE, patience: float = PATIENCE) -> None:
        self._settle, self._patience = settle, patience
        self._newest: str | None = None
        self._first_change = self._last_change = 0.0

    def is_due(self, handled: str, seen: str, now: float) -> bool:
        """True once `seen` differs from `handled` and has not changed for the time to settle, or will not settle."""
        if seen == handled:
            self._newest = None
            return False
        if self._newest is None:
            self._first_change = now
        if seen != self._newest:
            self._newest, self._last_change = seen, now
        due = now - self._last_change >= self._settle or now - self._first_change >= self._patience
        if due:
            self._newest = None
        return due


class Handled:
    """Which packages each running standby has been started with; on disk, so that a restart forgets nothing."""

    def __init__(self, state_dir: Path) -> None:
        self._folder = state_dir / "packages"
        #: Those that could not be written.
        self._unwritten: dict[str, Packages] = {}

    def read(self, service: str) -> Packages | None:
        if service in self._unwritten:
            return self._unwritten[service]
        try:
            found = json.loads((self._folder / f"{service}.json").read_text())
            return Packages(found["fingerprint"], found["versions"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, service: str, packages: Packages) -> None:
        """Raises ExternalError when the disk does not take it; until the program ends it is known all the same."""
        self._unwritten[service] = packages
        text = json.dumps({"fingerprint": packages.fingerprint, "versions": dict(packages.versions)})
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            scratch = self._folder / f"{service}.new"
            scratch.write_text(text)
            scratch.replace(self._folder / f"{service}.json")
        except OSError as error:
            raise ExternalError(
                f"the noted packages in {self._folder} cannot be used: {error.strerror}",
                "free some space or correct its rights",
            ) from error
        del self._unwritten[service]


def _installed(status: str) -> Sequence[tuple[str, str]]:
    """(name:arch, version) of each stanza; states count as part of the version: an upgrade goes through several."""
    found = []
    for stanza in status.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Architecture|Version|Status): (.*)$", stanza, re.MULTILINE))
        if "Package" in fields:
            label = f"{fields['Package']}:{fields.get('Architecture', '')}"
            found.append((label, f"{fields.get('Version', '')} {fields.get('Status', '')}"))
    return found
