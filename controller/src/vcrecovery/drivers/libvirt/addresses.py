"""Where a host's VMs are on the network, as it knows that."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from ipaddress import IPv4Address
from xml.etree import ElementTree

import libvirt

from vcrecovery.drivers.libvirt.connection import Call
from vcrecovery.drivers.libvirt.loads import Loads

#: Leases of libvirt's own DHCP, the host's neighbour table (libvirt 9.0 often cannot read it), and the guest's agent.
_SOURCES = (
    libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE,
    libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_ARP,
    libvirt.VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_AGENT,
)


class Addresses(Loads):
    """The part of a host that knows where its VMs are."""

    def addresses(self, uuid: str) -> list[str]:
        """IPv4 addresses of a VM, of the first source that knows any; none of one that is off. Raises ExternalError."""

        def asked(call: Call[list[str]]) -> list[str]:
            domain = call.domain(uuid)
            if domain is None:
                return []
            for source in _SOURCES:
                with contextlib.suppress(libvirt.libvirtError):  # it is off, has no agent, or another network
                    cards = domain.interfaceAddresses(source).values()
                    found = [one["addr"] for card in cards for one in card["addrs"] or () if _counts(one["addr"])]
                    if found:
                        return list(dict.fromkeys(found))
            return []

        return self._answer(asked)

    def cards(self, uuid: str) -> list[str]:
        """The hardware addresses of a VM's network cards. Raises ExternalError."""

        def asked(call: Call[list[str]]) -> list[str]:
            domain = call.domain(uuid)
            if domain is None:
                return []
            found = ElementTree.fromstring(domain.XMLDesc()).findall("./devices/interface/mac")  # noqa: S314  libvirt's own
            return [card.attrib["address"].lower() for card in found]

        return self._answer(asked)

    def _answer(self, ask: Callable[[Call[list[str]]], list[str]]) -> list[str]:
        try:
            return self._call(ask)
        except libvirt.libvirtError as error:
            raise self._unreachable(error) from error


def _counts(address: str) -> bool:
    try:
        found = IPv4Address(address)
    except ValueError:
        return False
    return not (found.is_loopback or found.is_link_local)
