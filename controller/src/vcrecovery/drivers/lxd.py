"""One LXD or Incus server: read, create, configure and start instances.

pylxd does the connection and the routes. Its models are left alone: `start()` and `save()` there know neither a
timeout for an operation nor ETags, and `stop()` kills by default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pylxd
import requests
from pylxd.exceptions import ClientConnectionFailed, LXDAPIException

from vcrecovery.drivers.clock import Clock
from vcrecovery.errors import OutsideError

CALL_TIMEOUT = 10.0
T = TypeVar("T")


class TryAgainError(OutsideError):
    """The instance has changed since it was read, or is busy. Reading it again and trying again is right."""


@dataclass(frozen=True)
class Instance:
    """A container as the server describes it. `etag` guards the next write."""

    name: str
    running: bool
    status: str
    config: Mapping[str, str]
    devices: Mapping[str, Mapping[str, str]]
    etag: str = field(default="", compare=False)


class LxdServer:
    """The LXD of one secondary."""

    def __init__(self, name: str, socket: Path, clock: Clock) -> None:
        self.name = name
        self.socket = socket
        self._clock = clock
        self._client: Any = None

    def _unreachable(self, error: Exception) -> OutsideError:
        reason = "no such socket" if not self.socket.exists() else str(error) or type(error).__name__
        return OutsideError(
            f"LXD on secondary {self.name} ({self.socket}) does not answer: {reason}",
            "start it, and try `lxc list` there",
        )

    def _guard(self, call: Callable[[Any], T], timeout: float = CALL_TIMEOUT) -> T:
        try:
            if self._client is None:
                if not self.socket.exists():
                    raise self._unreachable(FileNotFoundError(self.socket))
                self._client = pylxd.Client(endpoint=str(self.socket), timeout=CALL_TIMEOUT)
            return call(self._client.api)
        except (ClientConnectionFailed, requests.exceptions.RequestException) as error:
            self._client = None
            raise self._unreachable(error) from error
        except LXDAPIException as error:
            if error.response.status_code == 503:
                raise self._unreachable(error) from error
            kind = TryAgainError if "is busy running" in str(error) else OutsideError
            raise kind(f"LXD on secondary {self.name}: {error}") from error

    def get(self, instance: str) -> Instance | None:
        """None when there is no such instance. Raises OutsideError when the server does not answer."""

        def read(api: Any) -> Instance | None:
            try:
                response = api.instances[instance].get()
            except LXDAPIException as error:
                if error.response.status_code == 404:
                    return None
                raise
            data = response.json()["metadata"]
            return Instance(
                name=instance,
                running=data["status"] in ("Running", "Ready"),
                status=data["status"],
                config=data["config"],
                devices=data["devices"],
                etag=response.headers.get("ETag", ""),
            )

        return self._guard(read)

    def _wait(self, api: Any, operation: Mapping[str, Any], timeout: float, doing: str) -> Mapping[str, Any]:
        """What the operation left, once it has ended well."""
        number = operation["metadata"]["id"]
        result = (
            api.operations[number]
            .wait.get(params={"timeout": str(max(1, int(timeout)))}, timeout=timeout + CALL_TIMEOUT)
            .json()["metadata"]
        )
        if result["status_code"] == 200:
            return result["metadata"] or {}
        if result["status_code"] < 200:
            raise OutsideError(f"LXD on secondary {self.name} did not finish {doing} within {timeout:.0f} s")
        kind = TryAgainError if "is busy running" in str(result["err"]) else OutsideError
        raise kind(f"LXD on secondary {self.name}: {doing}: {' '.join(str(result['err']).split())}")

    def create_empty(self, instance: str, config: Mapping[str, str], devices: Mapping[str, Mapping[str, str]]) -> None:
        """A container without an image; its files come from elsewhere."""
        body = {
            "name": instance,
            "type": "container",
            "source": {"type": "none"},
            "profiles": [],
            "config": dict(config),
            "devices": {name: dict(device) for name, device in devices.items()},
        }

        def create(api: Any) -> None:
            self._wait(api, api.instances.post(json=body).json(), 60, f"the creation of {instance}")

        self._guard(create)

    def configure(
        self,
        instance: Instance,
        config: Mapping[str, str],
        devices: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Sets these keys and devices, if nobody has changed the instance since it was read.

        Raises TryAgainError when somebody has.
        """
        body: dict[str, Any] = {"config": dict(config)}
        if devices:
            body["devices"] = {name: dict(device) for name, device in devices.items()}

        def patch(api: Any) -> None:
            try:
                api.instances[instance.name].patch(json=body, headers={"If-Match": instance.etag})
            except LXDAPIException as error:
                if error.response.status_code == 412:
                    raise TryAgainError(
                        f"container {instance.name} was changed by somebody else at this moment", "call again"
                    ) from error
                raise

        self._guard(patch)

    def start(self, instance: str, timeout: float) -> None:
        """Starts it; nothing happens to one that runs. Waits while the server is busy with it.

        Raises OutsideError with the server's reason.
        """
        deadline = self._clock.now() + timeout
        started = False
        while True:
            found = self.get(instance)
            if found is not None and found.running:
                return
            if started and self._clock.now() >= deadline:
                raise OutsideError(
                    f"container {instance} stops right after its start",
                    f"see `lxc info --show-log {instance}`, then call again",
                )
            body = {"action": "thaw" if found is not None and found.status == "Frozen" else "start", "timeout": 30}

            def change(api: Any, body: Mapping[str, Any] = body) -> None:
                answer = api.instances[instance].state.put(json=body).json()
                self._wait(api, answer, timeout, f"the start of {instance}")

            try:
                self._guard(change)
                started = True
            except TryAgainError:
                if self._clock.now() >= deadline:
                    raise
                self._clock.sleep(0.2)
            except OutsideError as error:
                way_out = f"see `lxc info --show-log {instance}`, then call again"
                raise OutsideError(error.message, way_out) from error

    def stop(self, instance: str, timeout: float) -> None:
        """Stops it at once. For containers that hold nothing."""

        def change(api: Any) -> None:
            body = {"action": "stop", "force": True, "timeout": int(timeout)}
            self._wait(api, api.instances[instance].state.put(json=body).json(), timeout, f"the stop of {instance}")

        self._guard(change)

    def restart(self, instance: str, timeout: float) -> None:
        """Shuts it down and starts it; one that does not shut down within `timeout` seconds is stopped at once."""

        def change(api: Any) -> None:
            body = {"action": "stop", "force": False, "timeout": int(timeout)}
            self._wait(api, api.instances[instance].state.put(json=body).json(), timeout + 5, f"the stop of {instance}")

        try:
            self._guard(change, timeout + CALL_TIMEOUT)
        except OutsideError:
            found = self.get(instance)
            if found is not None and found.running:
                self.stop(instance, timeout)
        self.start(instance, timeout)

    def execute(self, instance: str, command: Sequence[str], timeout: float) -> None:
        """Runs a command in a running instance. Raises OutsideError when it fails; its output is LXD's to keep."""

        def run(api: Any) -> int:
            body = {"command": list(command), "wait-for-websocket": False, "interactive": False, "record-output": False}
            operation = api.instances[instance].exec.post(json=body).json()
            return int(self._wait(api, operation, timeout, f"`{command[0]}` in {instance}")["return"])

        status = self._guard(run, timeout + CALL_TIMEOUT)
        if status:
            raise OutsideError(
                f"`{' '.join(command)[:80]}` in container {instance} of {self.name}: exit status {status}",
                f"try it by `lxc exec {instance}`",
            )

    def delete(self, instance: str) -> None:
        def remove(api: Any) -> None:
            self._wait(api, api.instances[instance].delete().json(), 60, f"the removal of {instance}")

        self._guard(remove)

    def snapshots(self, instance: str) -> list[str]:
        """The names of the instance's snapshots; none when there is no such instance."""

        def read(api: Any) -> list[str]:
            try:
                answer = api.instances[instance].snapshots.get()
            except LXDAPIException as error:
                if error.response.status_code == 404:
                    return []
                raise
            return [str(address).rsplit("/", 1)[1] for address in answer.json()["metadata"]]

        return self._guard(read)

    def take_snapshot(self, instance: str, snapshot: str, timeout: float) -> None:
        def take(api: Any) -> None:
            answer = api.instances[instance].snapshots.post(json={"name": snapshot, "stateful": False}).json()
            self._wait(api, answer, timeout, f"the snapshot {snapshot} of {instance}")

        self._guard(take)

    def rename_snapshot(self, instance: str, snapshot: str, name: str) -> None:
        def rename(api: Any) -> None:
            answer = api.instances[instance].snapshots[snapshot].post(json={"name": name}).json()
            self._wait(api, answer, 60, f"the renaming of snapshot {snapshot} of {instance}")

        self._guard(rename)

    def delete_snapshot(self, instance: str, snapshot: str, timeout: float) -> None:
        def remove(api: Any) -> None:
            answer = api.instances[instance].snapshots[snapshot].delete().json()
            self._wait(api, answer, timeout, f"the removal of snapshot {snapshot} of {instance}")

        self._guard(remove)

    def restore(self, instance: str, snapshot: str, timeout: float) -> None:
        """Makes the files and the configuration of a stopped instance those of the snapshot."""

        def put_back(api: Any) -> None:
            answer = api.instances[instance].put(json={"restore": snapshot}).json()
            self._wait(api, answer, timeout, f"the restore of {instance} from snapshot {snapshot}")

        self._guard(put_back)

    def file(self, instance: str, path: str) -> bytes | None:
        """A file of the instance, running or not. None when it is not there."""

        def read(api: Any) -> bytes | None:
            try:
                return bytes(api.instances[instance].files.get(params={"path": path}, is_api=False).content)
            except LXDAPIException as error:
                if error.response.status_code == 404:
                    return None
                raise

        return self._guard(read)

    def _named(self, pick: Callable[[Any], Any], name: str) -> Mapping[str, Any] | None:
        def read(api: Any) -> Mapping[str, Any] | None:
            try:
                data: Mapping[str, Any] = pick(api)[name].get().json()["metadata"]
            except LXDAPIException as error:
                if error.response.status_code == 404:
                    return None
                raise
            return data

        return self._guard(read)

    def pool_driver(self, pool: str) -> str | None:
        """The storage pool's driver; None when there is no such pool."""
        found = self._named(lambda api: api.storage_pools, pool)
        return str(found["driver"]) if found else None

    def network_exists(self, network: str) -> bool:
        return self._named(lambda api: api.networks, network) is not None

    def create_pool(self, pool: str) -> None:
        self._guard(lambda api: api.storage_pools.post(json={"name": pool, "driver": "dir"}))

    def create_network(self, network: str, address: str, address6: str = "none") -> None:
        """A bridge with these addresses, without DHCP, DNS or NAT: standbys have fixed addresses."""
        config = {
            "ipv4.address": address,
            "ipv4.dhcp": "false",
            "ipv4.nat": "false",
            "ipv6.address": address6,
            "dns.mode": "none",
        }
        if address6 != "none":
            # LXD's rules only let in what its DHCP and DNS would need, and 5.0 does not get rid of those for IPv6.
            config |= {"ipv6.dhcp": "false", "ipv6.nat": "false", "ipv6.firewall": "false"}
        self._guard(lambda api: api.networks.post(json={"name": network, "type": "bridge", "config": config}))

    def remove_pool_and_network(self, pool: str, network: str) -> None:
        """Removes them if they are there. Raises OutsideError while something uses them."""
        if self.pool_driver(pool) is not None:
            self._guard(lambda api: api.storage_pools[pool].delete())
        if self.network_exists(network):
            self._guard(lambda api: api.networks[network].delete())

    def rootfs(self, pool: str, instance: str) -> Path:
        """Where a pool of driver `dir` or `btrfs` keeps the instance's files, on the secondary itself."""
        return self.socket.parent / "storage-pools" / pool / "containers" / instance / "rootfs"
