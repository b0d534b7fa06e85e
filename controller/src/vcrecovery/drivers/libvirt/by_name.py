"""A VM by its name, with what is to be known of it before its disk is used elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import libvirt

from vcrecovery.core.domain import DomainReading
from vcrecovery.core.power import Power
from vcrecovery.drivers.libvirt.connection import Call
from vcrecovery.drivers.libvirt.events import Events
from vcrecovery.drivers.libvirt.readings import POWER, reason_of


@dataclass(frozen=True)
class NamedVm:
    """`saved`: its memory is on the host's disk, and goes on with its disks as they were then. `disks`: its files."""

    uuid: str
    reading: DomainReading
    saved: bool = False
    disks: tuple[Path, ...] = ()


class ByName(Events):
    """The part of a host that knows VMs by name."""

    def find(self, name: str) -> NamedVm | None:
        """None when this host does not know it. Raises ExternalError when the host does not answer."""

        def found(call: Call[NamedVm | None]) -> NamedVm | None:
            try:
                domain = call.connection.lookupByName(name)
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    return None
                raise
            state, reason = domain.state()
            reading = DomainReading(POWER.get(state, Power.RUNNING), reason_of(state, reason))
            saved = bool(domain.hasManagedSaveImage())
            return NamedVm(domain.UUIDString(), reading, saved, _disks(domain.XMLDesc()))

        try:
            return self._call(found)
        except libvirt.libvirtError as error:
            raise self._unreachable(error) from error


def _disks(xml: str) -> tuple[Path, ...]:
    sources = ElementTree.fromstring(xml).findall("./devices/disk[@device='disk']/source")  # noqa: S314  libvirt's own
    return tuple(Path(source.attrib["file"]) for source in sources if "file" in source.attrib)
