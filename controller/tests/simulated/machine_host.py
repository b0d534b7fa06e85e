"""A libvirtd that makes VMs, as python-libvirt shows it: its domains, one storage pool, and what is in that."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

import libvirt

from simulated.libvirt import SimulatedError

#: The image, and how much is in it.
IMAGE, SIZE = "debian.qcow2", 1 << 20


@dataclass
class MachineHost:
    """`unseen`: volumes that nobody has told libvirtd of. `hanging`: set, calls wait for `go_on`."""

    domains: dict[str, Domain] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    unseen: dict[str, Volume] = field(default_factory=dict)
    pools: tuple[str, ...] = ("vms",)
    kind: str = "dir"
    active: bool = True
    broken: bool = False
    hanging: bool = False
    go_on: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.volumes[IMAGE] = Volume(self, IMAGE, SIZE, "qcow2")

    def open(self, _uri: str) -> MachineHost:
        self.asked()
        return self

    def asked(self) -> None:
        if self.hanging:
            self.go_on.wait(60)
        if self.broken:
            raise SimulatedError(libvirt.VIR_ERR_SYSTEM_ERROR, "Failed to connect socket\nto '/run/libvirt-sock'")

    # -- a connection ------------------------------------------------------------------------------------------

    def isAlive(self) -> bool:  # noqa: N802
        return True

    def setKeepAlive(self, _interval: int, _count: int) -> None: ...  # noqa: N802

    def close(self) -> None: ...

    def lookupByName(self, name: str) -> Domain:  # noqa: N802
        self.asked()
        if name not in self.domains:
            raise SimulatedError(libvirt.VIR_ERR_NO_DOMAIN, f"Domain not found: {name}")
        return self.domains[name]

    def storagePoolLookupByName(self, name: str) -> Pool:  # noqa: N802
        self.asked()
        if name not in self.pools:
            raise SimulatedError(libvirt.VIR_ERR_NO_STORAGE_POOL, f"Storage pool not found: {name}")
        return Pool(self)

    def defineXML(self, xml: str) -> Domain:  # noqa: N802
        self.asked()
        name = ElementTree.fromstring(xml).findtext("name", "")  # noqa: S314
        self.domains[name] = Domain(self, name, xml)
        return self.domains[name]

    def newStream(self) -> Stream:  # noqa: N802
        self.asked()
        return Stream()


@dataclass
class Domain:
    host: MachineHost
    name: str
    xml: str
    runs: bool = False
    with_host: bool = False

    def isActive(self) -> bool:  # noqa: N802
        return self.runs

    def autostart(self) -> bool:
        return self.with_host

    def setAutostart(self, value: int) -> None:  # noqa: N802
        self.host.asked()
        self.with_host = bool(value)

    def create(self) -> None:
        self.host.asked()
        self.runs = True

    def destroy(self) -> None:
        self.host.asked()
        self.runs = False

    def undefineFlags(self, _flags: int) -> None:  # noqa: N802
        self.host.asked()
        del self.host.domains[self.name]

    def metadata(self, _kind: int, uri: str, _flags: int) -> str:
        for element in ElementTree.fromstring(self.xml).findall("metadata/*"):  # noqa: S314
            if element.tag.startswith(f"{{{uri}}}"):
                return ElementTree.tostring(element, encoding="unicode")
        raise SimulatedError(libvirt.VIR_ERR_NO_DOMAIN_METADATA, "metadata not found")


@dataclass
class Pool:
    host: MachineHost

    def isActive(self) -> bool:  # noqa: N802
        return self.host.active

    def XMLDesc(self) -> str:  # noqa: N802
        return f"<pool type='{self.host.kind}'><target><path>/vms</path></target></pool>"

    def refresh(self) -> None:
        self.host.asked()
        self.host.volumes.update(self.host.unseen)
        self.host.unseen.clear()

    def storageVolLookupByName(self, name: str) -> Volume:  # noqa: N802
        self.host.asked()
        if name not in self.host.volumes:
            raise SimulatedError(libvirt.VIR_ERR_NO_STORAGE_VOL, f"Storage volume not found: {name}")
        return self.host.volumes[name]

    def createXML(self, xml: str) -> Volume:  # noqa: N802
        self.host.asked()
        told = ElementTree.fromstring(xml)  # noqa: S314
        name, kind = told.findtext("name", ""), told.find("target/format")
        assert name not in self.host.volumes
        assert kind is not None
        backing = told.findtext("backingStore/path", "")
        size, mode = int(told.findtext("capacity", "0")), told.findtext("target/permissions/mode", "")
        made = Volume(self.host, name, size, kind.attrib["type"], backing, mode)
        self.host.volumes[name] = made
        return made


@dataclass
class Volume:
    host: MachineHost
    name: str
    size: int
    kind: str
    backing: str = ""
    mode: str = ""
    content: bytes = b""

    def path(self) -> str:
        return f"/vms/{self.name}"

    def info(self) -> list[int]:
        return [0, self.size, 0]

    def XMLDesc(self) -> str:  # noqa: N802
        return f"<volume><target><format type='{self.kind}'/></target></volume>"

    def delete(self) -> None:
        self.host.asked()
        del self.host.volumes[self.name]

    def upload(self, stream: Stream, offset: int, length: int) -> None:
        assert (offset, length) == (0, self.size)
        stream.into = self


@dataclass
class Stream:
    into: Volume | None = None

    def sendAll(self, read: Callable[[Stream, int, Any], bytes], opaque: Any) -> None:  # noqa: N802
        assert self.into is not None
        while chunk := read(self, 1000, opaque):
            self.into.content += chunk

    def finish(self) -> None: ...
