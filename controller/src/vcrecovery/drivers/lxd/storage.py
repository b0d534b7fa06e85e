"""Snapshots, files, pools and networks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vcrecovery.drivers.lxd.connection import Connection
from vcrecovery.drivers.lxd.routes import AnswerError, Route
from vcrecovery.errors import ExternalError


class Storage(Connection):
    """What instances lie on, of one server."""

    def snapshots(self, instance: str) -> list[str]:
        """The names of the instance's snapshots; none when there is no such instance."""
        answer = self._found(lambda api: api.instances[instance].snapshots.get())
        return [] if answer is None else [str(place).rsplit("/", 1)[1] for place in answer.json()["metadata"]]

    def take_snapshot(self, instance: str, snapshot: str, timeout: float) -> None:
        body = {"name": snapshot, "stateful": False}
        doing = f"the snapshot {snapshot} of {instance}"
        self._change(lambda api: api.instances[instance].snapshots.post(json=body), timeout, doing)

    def rename_snapshot(self, instance: str, snapshot: str, name: str) -> None:
        doing = f"the renaming of snapshot {snapshot} of {instance}"
        self._change(lambda api: api.instances[instance].snapshots[snapshot].post(json={"name": name}), 60, doing)

    def delete_snapshot(self, instance: str, snapshot: str, timeout: float) -> None:
        doing = f"the removal of snapshot {snapshot} of {instance}"
        self._change(lambda api: api.instances[instance].snapshots[snapshot].delete(), timeout, doing)

    def restore(self, instance: str, snapshot: str, timeout: float) -> None:
        """Makes the files and the configuration of a stopped instance those of the snapshot."""
        doing = f"the restore of {instance} from snapshot {snapshot}"
        self._change(lambda api: api.instances[instance].put(json={"restore": snapshot}), timeout, doing)

    def file(self, instance: str, path: str) -> bytes | None:
        """A file of the instance, running or not. None when it is not there."""
        answer = self._found(lambda api: api.instances[instance].files.get(params={"path": path}))
        return None if answer is None else bytes(answer.content)

    def names_in(self, instance: str, folder: str) -> list[str]:
        """What is in a folder of the instance, running or not; nothing where no such folder is."""
        answer = self._found(lambda api: api.instances[instance].files.get(params={"path": folder}))
        # A file comes as it is; only of a folder the server tells something.
        if answer is None or not answer.headers.get("Content-Type", "").startswith("application/json"):
            return []
        return [str(name) for name in answer.json()["metadata"] or []]

    def write_file(self, instance: str, path: str, content: bytes) -> None:
        """A file of the instance, running or not, of its root's and for all to read."""
        wanted = {"type": "file", "uid": "0", "gid": "0", "mode": "0644"}

        def write(api: Route) -> None:
            headers = {self.flavour.headers + name: value for name, value in wanted.items()}
            api.instances[instance].files.post(params={"path": path}, data=content, headers=headers)

        self._guard(write)

    def template(self, instance: str, name: str) -> bytes | None:
        """A file among the instance's templates, for which no program is started.

        None when it is not there, or the server does not hand it out, such as to a certificate that it restricts.
        """

        def read(api: Route) -> bytes | None:
            try:
                return bytes(api.instances[instance].metadata.templates.get(params={"path": name}).content)
            except AnswerError as error:
                if error.status_code == 503:
                    raise
                return None

        return self._guard(read)

    def pool_driver(self, pool: str) -> str | None:
        """The storage pool's driver; None when there is no such pool."""
        found = self._found(lambda api: api.storage_pools[pool].get())
        return None if found is None else str(_metadata(found)["driver"])

    def pools(self) -> dict[str, str]:
        """The driver of each storage pool."""
        found = self._guard(lambda api: api.storage_pools.get(params={"recursion": "1"})).json()["metadata"]
        return {str(pool["name"]): str(pool["driver"]) for pool in found}

    def pool_free(self, pool: str) -> int:
        """The bytes that are free in the pool. Raises ExternalError when the server does not say it."""
        return self.pool_space(pool)[0]

    def pool_space(self, pool: str) -> tuple[int, int]:
        """The bytes that are free in the pool, and all of them. Raises ExternalError as above."""
        found = _metadata(self._guard(lambda api: api.storage_pools[pool].resources.get()))
        try:
            total = int(found["space"]["total"])
            return total - int(found["space"].get("used", 0)), total
        except (KeyError, TypeError, ValueError) as error:
            raise ExternalError(f"{self.called} does not say how full pool {pool} is") from error

    def network_exists(self, network: str) -> bool:
        return self._found(lambda api: api.networks[network].get()) is not None

    def create_pool(self, pool: str, folder: str = "") -> None:
        """One with driver dir. `folder`: an empty one, which it is in; LXD's own by default."""
        config = {"source": folder} if folder else {}
        self._guard(lambda api: api.storage_pools.post(json={"name": pool, "driver": "dir", "config": config}))

    def create_network(self, network: str, address: str, address6: str = "none", card: str = "") -> None:
        """A bridge with these addresses, without DHCP or NAT: standbys have fixed addresses.

        LXD answers the standbys' own questions for names on it. `card`: one of the machine's that becomes its port.
        """
        config = {
            "ipv4.address": address,
            "ipv4.dhcp": "false",
            "ipv4.nat": "false",
            "ipv6.address": address6,
            "dns.mode": "none",
        }
        if card:
            config["bridge.external_interfaces"] = card
        if address6 != "none":
            # LXD's rules only let in what its DHCP and DNS would need, and 5.0 does not get rid of those for IPv6.
            config |= {"ipv6.dhcp": "false", "ipv6.nat": "false", "ipv6.firewall": "false"}
        try:
            self._guard(lambda api: api.networks.post(json={"name": network, "type": "bridge", "config": config}))
        except ExternalError as error:
            if "listening socket" not in error.message:
                raise
            ours = address.partition("/")[0]
            hint = (
                "a name server of this machine has taken port 53 of the bridge: have it leave that address alone "
                f"(BIND: `listen-on {{ !{ours}; any; }};` in its options)"
            )
            raise ExternalError(error.message, hint) from error

    def remove_pool_and_network(self, pool: str, network: str) -> None:
        """Removes them if they are there. Raises ExternalError while something uses them."""
        if self.pool_driver(pool) is not None:
            self._guard(lambda api: api.storage_pools[pool].delete())
        if self.network_exists(network):
            self._guard(lambda api: api.networks[network].delete())

    def rootfs(self, pool: str, instance: str) -> Path:
        """Where a pool of driver `dir` or `btrfs` keeps the instance's files, on the secondary itself.

        Raises ExternalError on another machine.
        """
        return self.socket.parent / "storage-pools" / pool / "containers" / instance / "rootfs"


def _metadata(response: Any) -> Mapping[str, Any]:
    found: Mapping[str, Any] = response.json()["metadata"]
    return found
