"""Which addresses a host knows of its VMs, without asking anything in them."""

from __future__ import annotations

import contextlib

import libvirt

from vcrecovery.drivers.libvirt.by_name import ByName
from vcrecovery.drivers.libvirt.connection import Call

#: Leases of libvirt's own DHCP, then the host's neighbour table. The guest agent could keep one waiting.
_SOURCES = (libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE, libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_ARP)


class Addresses(ByName):
    """The part of a host that knows where its VMs are on the network."""

    def addresses(self, uuid: str) -> list[str]:
        """IPv4 addresses of a VM, without repetition; none of one that is off. Raises ExternalError."""

        def asked(call: Call[list[str]]) -> list[str]:
            found: list[str] = []
            domain = call.domain(uuid)
            if domain is None:
                return found
            for source in _SOURCES:
                with contextlib.suppress(libvirt.libvirtError):  # it is off, or its network is not libvirt's
                    for card in domain.interfaceAddresses(source).values():
                        found += [
                            one["addr"] for one in card["addrs"] or () if one["type"] == libvirt.VIR_IP_ADDR_TYPE_IPV4
                        ]
            return list(dict.fromkeys(found))

        try:
            return self._call(asked)
        except libvirt.libvirtError as error:
            raise self._unreachable(error) from error
