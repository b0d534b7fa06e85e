"""The LXD of a secondary that is off most of the time.

While it is off, the disk with its standbys is mounted here, and a note tells what LXD knew of them when it went down:
who asks gets the answers of then, and the files of now. What needs LXD to run is refused. Whether it is off is told by
the mount alone: a disk that is mounted here is in no VM (see `drivers.loop_disk`).
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.loop_disk import is_mounted
from vcrecovery.drivers.lxd.connection import CALL_TIMEOUT, OverHttps
from vcrecovery.drivers.lxd.instances import STOPPED
from vcrecovery.drivers.lxd.lifecycle import Happening, Happenings
from vcrecovery.drivers.lxd.routes import AnswerError, Route
from vcrecovery.drivers.lxd.server import LxdServer
from vcrecovery.errors import BootingError, ExternalError

T = TypeVar("T")
#: Seconds.
_SOON = 1.0


@dataclass(frozen=True)
class Place:
    """Where on this machine its disk is mounted while it is off, with the note beside it."""

    folder: Path

    @property
    def disk(self) -> Path:
        return self.folder / "disk"

    @property
    def note(self) -> Path:
        return self.folder / "note.json"

    @property
    def takes_files(self) -> Path:
        """There while sessions may write to the disk. Gone before these are ended for its unmount."""
        return self.folder / "takes-files"

    @property
    def is_off(self) -> bool:
        return is_mounted(self.disk)

    def rootfs(self, instance: str) -> Path:
        """As a pool with driver dir has it, in the folder that the role `secondary` gives it there."""
        return self.disk / "pool" / "containers" / instance / "rootfs"

    def read(self) -> Mapping[str, Any]:
        """Raises OSError where there is none yet, and where it is none."""
        try:
            found: Mapping[str, Any] = json.loads(self.note.read_text(encoding="utf-8"))
        except ValueError as error:
            raise OSError(f"{self.note} is no note of LXD's") from error
        return found

    def write(self, note: Mapping[str, Any]) -> None:
        """Raises ExternalError."""
        scratch = self.note.with_suffix(".new")
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o711)
            with scratch.open("w", encoding="utf-8") as file:
                json.dump(note, file)
                file.flush()
                os.fsync(file.fileno())
            scratch.replace(self.note)
        except OSError as error:
            raise ExternalError(f"{self.note} cannot be written: {error.strerror}", "free some space") from error


@dataclass(frozen=True)
class _Answer:
    status_code: int
    content: bytes
    headers: Mapping[str, str]

    def json(self) -> Any:
        return json.loads(self.content)


class _NotedSession:
    """Answers requests as LXD would have, before it went down. Raises OSError where the note cannot be read."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def request(self, method: str, url: str, **_words: Any) -> _Answer:
        if method != "GET":
            return _said(503, error="it is off (power: on-demand)")
        note, parts = self._place.read(), url.removeprefix("/1.0/").split("/")
        match parts:
            case ["instances"]:
                return _said(200, [{**found, "state": None} for found in note["instances"].values()])
            case ["instances", name]:
                found = note["instances"].get(name)
                return _said(404, error="Instance not found") if found is None else _said(200, found)
            case ["instances", _, "snapshots"]:
                return _said(200, [])
            case ["storage-pools", pool, "resources"] if pool in note["pools"]:
                space = os.statvfs(self._place.disk)
                total = space.f_blocks * space.f_frsize
                used = total - space.f_bavail * space.f_frsize
                return _said(200, {"space": {"used": used, "total": total}})
            case ["storage-pools", pool]:
                driver = note["pools"].get(pool)
                return _said(404, error="Pool not found") if driver is None else _said(200, {"driver": driver})
            case ["resources"]:
                return _said(200, note["resources"])
        return _said(503, error="it is off (power: on-demand)")


def _said(status: int, metadata: Any = None, error: str = "") -> _Answer:
    return _Answer(status, json.dumps({"metadata": metadata, "error": error}).encode(), {})


class _NothingHappens:
    """For as long as it is off."""

    def __init__(self, server: OnDemandServer, clock: Clock) -> None:
        self._server, self._clock = server, clock

    def next(self, timeout: float) -> Happening | None:
        self._clock.sleep(timeout)
        if self._server.is_here:
            return None
        raise BootingError(f"secondary {self._server.name} is being powered on", "it is listened to once it is up")


class OnDemandServer(LxdServer):
    """Over HTTPS while its disk is not mounted here, and from the note while it is.

    `boots_within`: seconds from when that ends, in which it may well not answer yet.
    """

    def __init__(self, name: str, address: OverHttps, clock: Clock, place: Place, boots_within: float) -> None:
        super().__init__(name, address, clock)
        self.place, self._address, self._boots_within = place, address, boots_within
        #: By the steady clock: when it was seen to be off last.
        self._off_at = float("-inf")

    @property
    def is_here(self) -> bool:
        is_off = self.place.is_off
        if is_off:
            self._off_at = self._clock.steady()
        return is_off

    def _unreachable(self, error: Exception) -> ExternalError:
        found = super()._unreachable(error)
        boots = self._clock.steady() - self._off_at < self._boots_within
        return BootingError(found.message, found.hint) if boots else found

    def rootfs(self, pool: str, instance: str) -> Path:
        return self.place.rootfs(instance) if self.is_here else super().rootfs(pool, instance)

    def _guard(self, call: Callable[[Any], T]) -> T:
        if not self.is_here:
            return super()._guard(call)
        try:
            return call(Route(_NotedSession(self.place), "/1.0", CALL_TIMEOUT))
        except AnswerError as error:
            if error.status_code != 503:
                raise ExternalError(f"{self.called}: {error}") from error
            raise ExternalError(
                f"secondary {self.name} is off (power: on-demand)", f"`vcrecovery secondary on {self.name}` boots it"
            ) from error
        except (OSError, KeyError) as error:
            raise ExternalError(
                f"secondary {self.name} is off, and what it holds was never noted: {error}",
                f"`vcrecovery secondary on {self.name}` boots it",
            ) from error

    @contextmanager
    def lifecycle(self) -> Iterator[Happenings]:
        if self.is_here:
            yield _NothingHappens(self, self._clock)
            return
        with super().lifecycle() as happenings:
            yield happenings

    def answers_soon(self, pool: str) -> bool:
        """Whether it is up, and has the pool. Who waits for a boot asks often: nothing there costs a second."""
        parts = urlsplit(self._address.url)
        try:
            socket.create_connection((parts.hostname or "", parts.port or 443), _SOON).close()
        except OSError:
            return False
        return self.pool_driver(pool) is not None

    def to_note(self, pool: str) -> dict[str, Any]:
        """What LXD says now, which is on. Raises ExternalError while a container there runs."""
        instances = self._guard(lambda api: api.instances.get(params={"recursion": "1"})).json()["metadata"]
        if runs := [one["name"] for one in instances if one["status"] != STOPPED]:
            raise ExternalError(f"{', '.join(runs)} runs on secondary {self.name}", "stop that first")
        size = self.size()
        return {
            "instances": {one["name"]: one for one in instances},
            "pools": {pool: self.pool_driver(pool)},
            "resources": {"cpu": {"total": size.cores}, "memory": {"total": size.memory, "used": 0}},
        }
