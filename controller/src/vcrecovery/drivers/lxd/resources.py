"""How big the machine is that a server runs on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vcrecovery.drivers.lxd.connection import Connection
from vcrecovery.drivers.lxd.routes import Route
from vcrecovery.errors import ExternalError

#: "ok" with versions of CRIU and of the kernel that it was checked with, or "failed" and why.
CHECKPOINTS_KEY = "user.vcrecovery.criu"
#: What the receiver can, a word each: with `orders` it tells VMs those that lie in LXD, and leaves their reports there.
RECEIVER_KEY = "user.vcrecovery.receiver"
TELLS_ORDERS = "orders"


@dataclass(frozen=True)
class Kernel:
    """`maps_owners`: LXD has it map the owners of containers' files, where the file system can do that."""

    version: str
    architecture: str
    maps_owners: bool


@dataclass(frozen=True)
class Size:
    """`cores` counts threads of the CPUs; `memory` is all of it, in bytes."""

    cores: int
    memory: int


class Resources(Connection):
    """The hardware of one server."""

    def kernel(self) -> Kernel:
        found = self._guard(lambda api: api.get()).json()["metadata"]["environment"]
        mounts = (found.get("kernel_features") or {}).get("idmapped_mounts")
        return Kernel(str(found["kernel_version"]), str(found["kernel_architecture"]), mounts == "true")

    def says_of_checkpoints(self) -> str:
        """What the role `secondary` has found out of CRIU there; empty where it was not asked to."""
        return self._told_there(CHECKPOINTS_KEY)

    def receiver_can(self, what: str) -> bool:
        """Whether `tell_of_receiver` has said so."""
        return what in self._told_there(RECEIVER_KEY).split()

    def tell_of_receiver(self, can: str) -> bool:
        """Has controllers on other machines know what the receiver beside it can; whether that changed anything."""

        def tell(api: Route) -> bool:
            project = api.projects["default"]
            answer = project.get()
            found = answer.json()["metadata"]
            if found["config"].get(RECEIVER_KEY) == can:
                return False
            # All of it: LXD takes what a PATCH leaves out for features that are to go.
            body = {"description": found["description"], "config": {**found["config"], RECEIVER_KEY: can}}
            project.put(json=body, headers={"If-Match": answer.headers.get("ETag", "")})
            return True

        return self._guard(tell)

    def _told_there(self, key: str) -> str:
        # It is in the project: LXD shows the server's own configuration to nobody whom it restricts.
        found = self._guard(lambda api: api.projects["default"].get()).json()["metadata"]["config"]
        return str(found.get(key, ""))

    def size(self) -> Size:
        """Raises ExternalError when the server does not answer, or does not say it."""
        found: Any = self._guard(lambda api: api.resources.get()).json()["metadata"]
        try:
            return Size(int(found["cpu"]["total"]), int(found["memory"]["total"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ExternalError(f"{self.called} does not say how big its machine is") from error
