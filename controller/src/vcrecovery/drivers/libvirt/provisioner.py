"""Makes machines of a cloud image on one hypervisor, and ends them.

Each is a domain and two volumes, by a name that holds its lease: nobody else has such. Its disk holds what differs
from the image. Last it is set to start with its host, and only then it is a machine: a call that was killed is finished
by the next one, or all that it has left is removed.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

import libvirt

from vcrecovery.core.text import size_of
from vcrecovery.drivers.libvirt.connection import Call, Connection
from vcrecovery.drivers.provisioner import Made
from vcrecovery.errors import ExternalError
from vcrecovery.machines.definition import definition
from vcrecovery.machines.machine import Machine
from vcrecovery.machines.seed import Place, seed_disk, seed_files_with
from vcrecovery.plan.elastic import LibvirtMachines

#: Of the mark that a domain of ours carries, with its address.
_NAMESPACE = "urn:vcrecovery:lease"
#: Whose volumes are files.
_POOLS_OF_FILES = ("dir", "fs", "netfs")
_WITH_ALL_ELSE = (
    libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
    | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
    | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
)


class LibvirtProvisioner(Connection):
    """`networks`: those of the standbys there, in the order of `wanted.addresses`. `timeout`: seconds for each call."""

    def __init__(self, uri: str, wanted: LibvirtMachines, networks: Sequence[str], timeout: float) -> None:
        super().__init__(wanted.hypervisor, uri, timeout)
        self._wanted = wanted
        self._addresses = dict(zip(networks, map(str, wanted.addresses), strict=True))

    def create(self, order: Mapping[str, Any]) -> list[Made]:
        """The machines of this lease that exist then. Raises ExternalError when that is not known."""
        return self._ask("make", order, self._make)

    def describe(self, order: Mapping[str, Any]) -> list[Made]:
        """Those that exist. Raises as above."""
        return self._ask("describe", order, self._found)

    def destroy(self, order: Mapping[str, Any]) -> list[Made]:
        """Those that exist in spite of it. Raises as above."""
        return self._ask("destroy", order, self._end)

    def by_hand(self, order: Mapping[str, Any]) -> str:
        virsh, name = f"virsh -c {shlex.quote(self._uri)}", _name(order)
        return f"{virsh} destroy {name}; {virsh} undefine {name} --managed-save --remove-all-storage"

    def _ask(
        self, word: str, order: Mapping[str, Any], act: Callable[[Call[list[Made]], Mapping[str, Any]], list[Made]]
    ) -> list[Made]:
        try:
            return self._call(lambda call: act(call, order), slow=True)
        except libvirt.libvirtError as error:
            raise ExternalError(
                f"hypervisor {self.name} did not {word} {order['name']}: {str(error).splitlines()[0]}",
                f"try `virsh -c {self._uri} list --all`, and see its log",
            ) from error

    def _found(self, call: Call[list[Made]], order: Mapping[str, Any]) -> list[Made]:
        domain = self._domain(call, order)
        return [Made(_name(order), _address(domain))] if domain is not None and domain.autostart() else []

    def _make(self, call: Call[list[Made]], order: Mapping[str, Any]) -> list[Made]:
        domain = self._domain(call, order)
        if domain is None or not (domain.isActive() or domain.autostart()):
            domain = self._define(call, order)
            call.check()
            domain.create()
        if not domain.autostart():
            call.check()
            domain.setAutostart(1)
        return self._found(call, order)

    def _define(self, call: Call[list[Made]], order: Mapping[str, Any]) -> Any:
        """With new volumes: nothing has run on those that there may be."""
        address = self._addresses.get(order["lxd"]["network"])
        if address is None:
            raise ExternalError(f"the plan has no address for network {order['lxd']['network']} any more")
        pool = self._pool(call)
        folder = ElementTree.fromstring(pool.XMLDesc()).findtext("target/path", "")  # noqa: S314  libvirt's own
        machine = Machine(
            domain=_name(order),
            owner=order["lease"],
            cores=order["cores"],
            memory=order["memory"],
            disk=order["disk"],
            standbys_disk=0,
            network=self._wanted.network,
            standbys_network="",
            folder=folder,
        )
        gateway, name_servers = self._wanted.gateway, tuple(map(str, self._wanted.name_servers))
        place = Place(order["name"], address, str(gateway) if gateway is not None else "", name_servers)
        texts = seed_files_with(machine, place, order["user_data"])
        seed = seed_disk(texts)
        backing = self._backing(pool, machine.disk)
        self._remove_volumes(call, pool, order)
        disk_name, seed_name = _volumes(order)
        call.check()
        pool.createXML(_volume(disk_name, machine.disk, "qcow2", backing))
        call.check()
        volume = pool.createXML(_volume(seed_name, len(seed), "raw"))
        stream = call.connection.newStream()
        volume.upload(stream, 0, len(seed))
        stream.sendAll(lambda _stream, size, rest: rest.read(size), io.BytesIO(seed))
        stream.finish()
        mark = f"<lease:machine xmlns:lease='{_NAMESPACE}' token='{order['lease']}' address='{address}'/>"
        call.check()
        return call.connection.defineXML(definition(machine, self._wanted.accelerator, texts, mark))

    def _end(self, call: Call[list[Made]], order: Mapping[str, Any]) -> list[Made]:
        domain = self._domain(call, order)
        if domain is not None:
            if domain.isActive():
                call.check()
                domain.destroy()
            call.check()
            domain.undefineFlags(_WITH_ALL_ELSE)
        self._remove_volumes(call, self._pool(call), order)
        return self._found(call, order)

    def _remove_volumes(self, call: Call[list[Made]], pool: Any, order: Mapping[str, Any]) -> None:
        for name in _volumes(order):
            volume = _volume_in(pool, name)
            if volume is not None:
                call.check()
                volume.delete()

    def _domain(self, call: Call[list[Made]], order: Mapping[str, Any]) -> Any | None:
        """Raises ExternalError for one that has its name, and is not ours."""
        domain = _known(call.connection.lookupByName, _name(order), libvirt.VIR_ERR_NO_DOMAIN)
        if domain is not None and _mark(domain).get("token") != order["lease"]:
            raise ExternalError(
                f"hypervisor {self.name} has a domain {_name(order)} that was not made here", "give it another name"
            )
        return domain

    def _pool(self, call: Call[list[Made]]) -> Any:
        name, what = self._wanted.pool, f"storage pool {self._wanted.pool} of hypervisor {self.name}"
        pool = _known(call.connection.storagePoolLookupByName, name, libvirt.VIR_ERR_NO_STORAGE_POOL)
        if pool is None:
            raise ExternalError(f"there is no {what}", f"see `virsh -c {self._uri} pool-list --all`")
        if not pool.isActive():
            raise ExternalError(f"{what} is not active", f"`virsh -c {self._uri} pool-start {name}`")
        kind = ElementTree.fromstring(pool.XMLDesc()).get("type", "")  # noqa: S314  libvirt's own
        if kind not in _POOLS_OF_FILES:
            raise ExternalError(f"{what} is of type {kind}", f"name one of these: {', '.join(_POOLS_OF_FILES)}")
        return pool

    def _backing(self, pool: Any, size: int) -> str:
        """The image, as the definition of a volume of that size has it."""
        name = self._wanted.image
        image = _volume_in(pool, name)
        where = f"storage pool {self._wanted.pool} of hypervisor {self.name}"
        if image is None:
            raise ExternalError(f"there is no image {name} in {where}", "download a cloud image there")
        _, has, _ = image.info()
        if has > size:
            raise ExternalError(
                f"image {name} in {where} has {size_of(has)}, more than the disk of a machine ({size_of(size)})",
                "raise balance.elastic.template.disk",
            )
        found = ElementTree.fromstring(image.XMLDesc()).find("target/format")  # noqa: S314  libvirt's own
        kind = found.get("type", "raw") if found is not None else "raw"
        return f"<backingStore><path>{escape(image.path())}</path><format type={quoteattr(kind)}/></backingStore>"


def _name(order: Mapping[str, Any]) -> str:
    return f"{order['name']}-{order['lease']}"


def _volumes(order: Mapping[str, Any]) -> tuple[str, str]:
    """Its disk, and what cloud-init finds there: called as `Machine` calls them."""
    return f"{_name(order)}.qcow2", f"{_name(order)}-seed.iso"


def _volume(name: str, size: int, kind: str, backing: str = "") -> str:
    target = f"<target><format type='{kind}'/><permissions><mode>0600</mode></permissions></target>"
    return f"<volume><name>{escape(name)}</name><capacity unit='B'>{size}</capacity>{target}{backing}</volume>"


def _volume_in(pool: Any, name: str) -> Any | None:
    """Also one that libvirt does not know of: what it knows is from when it last looked through the pool."""
    found = _known(pool.storageVolLookupByName, name, libvirt.VIR_ERR_NO_STORAGE_VOL)
    if found is None:
        pool.refresh()
        found = _known(pool.storageVolLookupByName, name, libvirt.VIR_ERR_NO_STORAGE_VOL)
    return found


def _known(look_up: Callable[[str], Any], name: str, unknown: int) -> Any | None:
    try:
        return look_up(name)
    except libvirt.libvirtError as error:
        if error.get_error_code() == unknown:
            return None
        raise


def _mark(domain: Any) -> Mapping[str, str]:
    """Empty for one that is not ours."""
    try:
        element = domain.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, _NAMESPACE, libvirt.VIR_DOMAIN_AFFECT_CONFIG)
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN_METADATA:
            return {}
        raise
    return ElementTree.fromstring(element).attrib  # noqa: S314  libvirt's own


def _address(domain: Any) -> str:
    """Without the length of its network."""
    return _mark(domain).get("address", "").partition("/")[0]
