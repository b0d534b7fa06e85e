"""How busy a VM is, as its hypervisor counts it: of a secondary on which the controller itself does not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import libvirt

from vcrecovery.balance.devices import CardReading, DiskReading
from vcrecovery.balance.load import MachineReading
from vcrecovery.drivers.libvirt.by_name import ByName
from vcrecovery.drivers.libvirt.connection import Call

_STATS = libvirt.VIR_DOMAIN_STATS_VCPU | libvirt.VIR_DOMAIN_STATS_BLOCK | libvirt.VIR_DOMAIN_STATS_INTERFACE
#: What libvirt had to ask a QEMU that is busy is left out.
_NOWAIT = libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
_SECOND = 1e9


class Loads(ByName):
    """The part of a host that knows how busy its VMs are."""

    def machine(self, name: str) -> MachineReading | None:
        """None where it does not run, or this host does not know it. Raises ExternalError when that does not answer."""

        def asked(call: Call[MachineReading | None]) -> MachineReading | None:
            try:
                domain = call.connection.lookupByName(name)
                found = call.connection.domainListGetStats([domain], _STATS, _NOWAIT)
            except libvirt.libvirtError as error:
                if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
                    return None
                raise
            return _machine(found[0][1]) if found else None

        try:
            return self._call(asked)
        except libvirt.libvirtError as error:
            raise self._unreachable(error) from error


def _machine(stats: Mapping[str, Any]) -> MachineReading | None:
    """What is not among them is not known. How long a disk is in use is not: it is no longer than its requests took."""
    cores = [one for one in _each(stats, "vcpu") if "time" in one]
    if not cores:
        return None
    stolen = sum(one["delay"] for one in cores) / _SECOND if all("delay" in one for one in cores) else None
    disks = {
        one["name"]: DiskReading(one["rd.reqs"] + one["wr.reqs"], one["rd.bytes"] + one["wr.bytes"], waited, waited)
        for one in _each(stats, "block")
        if {"name", "rd.reqs", "wr.reqs", "rd.bytes", "wr.bytes", "rd.times", "wr.times"} <= one.keys()
        for waited in [(one["rd.times"] + one["wr.times"]) / _SECOND]
    }
    cards = {
        one["name"]: CardReading(one["rx.bytes"], one["tx.bytes"], one.get("rx.drop", 0) + one.get("tx.drop", 0))
        for one in _each(stats, "net")
        if {"name", "rx.bytes", "tx.bytes"} <= one.keys()
    }
    busy = sum(one["time"] for one in cores) / _SECOND + (stolen or 0.0)
    return MachineReading(busy, stolen, {}, disks or None, cards or None)


def _each(stats: Mapping[str, Any], kind: str) -> Sequence[dict[str, Any]]:
    """`block.0.rd.reqs` is the first one's `rd.reqs`."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in stats.items():
        own, _, rest = key.partition(".")
        number, _, what = rest.partition(".")
        if own == kind and number.isdigit():
            found.setdefault(number, {})[what] = value
    return list(found.values())
