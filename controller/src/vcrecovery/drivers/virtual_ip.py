"""A virtual address: put on this machine's interface, led to a standby, and told to the neighbours.

The address is led on by a rule of netfilter (DNAT), so that nothing in the standby has to know of it. The neighbours
learn of the move from gratuitous ARP (RFC 5227) or unsolicited neighbour advertisements (RFC 4861), at once instead
of when their caches are over.
"""

from __future__ import annotations

import fcntl
import json
import re
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from pathlib import Path

from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.process import run
from vcrecovery.errors import ExternalError

#: Our own chain of the table `nat`, so that what others have there is left alone.
CHAIN = "VCRECOVERY"
COMMAND_TIMEOUT = 10.0
#: Seconds for one answer, and how often it is asked, whether somebody else has the address.
PROBE_WAIT, PROBES = 0.1, 3
#: How often the neighbours are told, and seconds in between: a frame may get lost.
ANNOUNCEMENTS, PAUSE = 3, 0.05
#: Seconds for the kernel's own look for an IPv6 address that is there twice.
DAD_WITHIN = 5.0
#: What the errors of iptables say where there is no chain, table or program, and where there is no such rule.
_NO_CHAIN = re.compile(r" failed with status [123]: | is not installed")
_NO_RULE = re.compile(r" failed with status [12]: ")
#: PREROUTING: what comes from outside. OUTPUT: what this machine itself sends.
_HOOKS = ("PREROUTING", "OUTPUT")
_ARP, _IPV6 = 0x0806, 0x86DD
_SIOCGIFHWADDR = 0x8927


@dataclass(frozen=True)
class VirtualIp:
    """An address with its network, and the interface that shows it."""

    address: IPv4Interface | IPv6Interface
    interface: str

    @property
    def ip(self) -> IPv4Address | IPv6Address:
        return self.address.ip

    def __str__(self) -> str:
        return f"{self.ip} on {self.interface}"


def take(wanted: VirtualIp, standby: str, clock: Clock) -> bool:
    """Leads the address to `standby` and puts it on the interface; whether it was not there before.

    The neighbours are told in any case. Raises ExternalError when somebody else has the address, or when this machine
    cannot take it.
    """
    there = _is_there(wanted)
    if not there:
        _must_be_free(wanted)
    # First where it leads to: from the moment it is there until then this machine itself would answer.
    _lead(wanted, standby)
    if not there:
        _ip(wanted, "add", str(wanted.address))
    # Also one that is there: who added it may have been killed before the kernel had looked for another holder.
    if wanted.ip.version == 6:
        _wait_until_usable(wanted, clock)
    announce(wanted, clock)
    return not there


def holds(wanted: VirtualIp, standby: str) -> bool:
    """Whether this machine shows the address and leads it to `standby`. Raises ExternalError where it cannot tell."""
    flags = _flags(wanted)
    if flags is None or "dadfailed" in flags:
        return False
    # A firewall that is loaded anew flushes the built-in chains, and leaves ours.
    return all(_is_hooked(wanted, hook) for hook in _HOOKS) and _leads(wanted, standby)


def give_up(wanted: VirtualIp) -> None:
    """Takes the address off this machine, and no longer leads it anywhere. Harmless when it is not there.

    The plan may have named another interface or prefix when it was taken, and a restart may have renamed the interface.
    """
    for interface, address in _everywhere(wanted):
        run(["ip", "-j", "address", "del", address, "dev", interface], timeout=COMMAND_TIMEOUT)
    for rule in _rules(wanted):
        _nat(wanted, "-D", CHAIN, *rule)


# -- the interface -------------------------------------------------------------------------------------------------


def _ip(wanted: VirtualIp, *words: str) -> bytes:
    return run(["ip", "-j", "address", *words, "dev", wanted.interface], timeout=COMMAND_TIMEOUT)


def _flags(wanted: VirtualIp) -> set[str] | None:
    """What the kernel says of the address; None when it is not on the interface."""
    for link in json.loads(_ip(wanted, "show") or b"[]"):
        for entry in link.get("addr_info", ()):
            if entry.get("local") == str(wanted.ip):
                return {name for name, value in entry.items() if value is True}
    return None


def _everywhere(wanted: VirtualIp) -> list[tuple[str, str]]:
    """Each interface that shows the address, and the address with the prefix that it has there."""
    shown = run(["ip", "-j", "address", "show", "to", str(wanted.ip)], timeout=COMMAND_TIMEOUT)
    return [
        (str(link["ifname"]), f"{entry['local']}/{entry['prefixlen']}")
        for link in json.loads(shown or b"[]")
        for entry in link.get("addr_info", ())
        if entry.get("local") == str(wanted.ip)
    ]


def _is_there(wanted: VirtualIp) -> bool:
    return _flags(wanted) is not None


def _wait_until_usable(wanted: VirtualIp, clock: Clock) -> None:
    deadline = clock.steady() + DAD_WITHIN
    while (flags := _flags(wanted)) is not None and "tentative" in flags:
        if "dadfailed" in flags:
            _ip(wanted, "del", str(wanted.address))
            raise ExternalError(f"another machine still has {wanted}", "shut that machine down, then run it again")
        if clock.steady() > deadline:
            return
        clock.sleep(0.05)


# -- netfilter -----------------------------------------------------------------------------------------------------


def _nat(wanted: VirtualIp, *words: str) -> bytes:
    program = "iptables" if wanted.ip.version == 4 else "ip6tables"
    return run([program, "-w", "5", "-t", "nat", *words], timeout=COMMAND_TIMEOUT)


def _rules(wanted: VirtualIp) -> list[list[str]]:
    """The rules of our chain for this address, as they are given to iptables; none where there is no such chain.

    Raises ExternalError when that cannot be told now, such as while somebody else holds the lock of netfilter.
    """
    try:
        text = _nat(wanted, "-S", CHAIN).decode()
    except ExternalError as error:
        if _NO_CHAIN.search(error.message):
            return []
        raise
    found = [line.split()[2:] for line in text.splitlines() if line.startswith(f"-A {CHAIN} ")]
    network = f"{wanted.ip}/{wanted.ip.max_prefixlen}"
    return [rule for rule in found if rule[:2] == ["-d", network]]


def _is_hooked(wanted: VirtualIp, hook: str) -> bool:
    """Whether what passes there passes our chain. Raises ExternalError when that cannot be told now."""
    try:
        _nat(wanted, "-C", hook, "-j", CHAIN)
    except ExternalError as error:
        if _NO_RULE.search(error.message):
            return False
        raise
    return True


def _leads(wanted: VirtualIp, standby: str) -> bool:
    return [rule[-1] for rule in _rules(wanted)] == [standby]


def _lead(wanted: VirtualIp, standby: str) -> None:
    family = "ipv4/ip_forward" if wanted.ip.version == 4 else "ipv6/conf/all/forwarding"
    if Path(f"/proc/sys/net/{family}").read_text(encoding="ascii").strip() == "0":
        setting = f"net.{family.replace('/', '.')}"
        raise ExternalError(f"this machine forwards nothing: {setting} is 0", f"`sysctl -w {setting}=1`")
    try:
        _nat(wanted, "-N", CHAIN)
    except ExternalError:
        _nat(wanted, "-S", CHAIN)
    for hook in _HOOKS:
        if not _is_hooked(wanted, hook):
            _nat(wanted, "-I", hook, "-j", CHAIN)
    if _leads(wanted, standby):
        return
    for rule in _rules(wanted):
        _nat(wanted, "-D", CHAIN, *rule)
    _nat(wanted, "-A", CHAIN, "-d", str(wanted.ip), "-j", "DNAT", "--to-destination", standby)


# -- the neighbours ------------------------------------------------------------------------------------------------


def _hardware_address(interface: str) -> bytes:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        answer = fcntl.ioctl(sock.fileno(), _SIOCGIFHWADDR, struct.pack("256s", interface.encode()[:15]))
    return answer[18:24]


def _raw(interface: str, protocol: int) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol))
    sock.bind((interface, protocol))
    return sock


def _arp(operation: int, sender: bytes, sender_ip: bytes, target: bytes, target_ip: bytes) -> bytes:
    """An ARP message to everybody (RFC 826), with its Ethernet header."""
    header = b"\xff" * 6 + sender + struct.pack("!H", _ARP)
    return header + struct.pack("!HHBBH", 1, 0x0800, 6, 4, operation) + sender + sender_ip + target + target_ip


def _must_be_free(wanted: VirtualIp) -> None:
    """Asks whether somebody else has an IPv4 address; for IPv6 the kernel does so itself when the address is added."""
    if wanted.ip.version == 6:
        return
    try:
        own = _hardware_address(wanted.interface)
        with _raw(wanted.interface, _ARP) as sock:
            for _ in range(PROBES):
                sock.send(_arp(1, own, bytes(4), bytes(6), wanted.ip.packed))
                if owner := _answer(sock, wanted.ip.packed, own, PROBE_WAIT):
                    raise ExternalError(
                        f"{owner.hex(':')} still has {wanted}",
                        "shut that machine down, or take the address off it, then run it again",
                    )
    except OSError as error:
        raise _unusable(wanted, error) from error


def _answer(sock: socket.socket, address: bytes, own: bytes, seconds: float) -> bytes | None:
    """The hardware address of whoever says within `seconds` that `address` is its own."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        sock.settimeout(left)
        try:
            frame = sock.recv(2048)
        except TimeoutError:
            return None
        sender, sender_ip = frame[22:28], frame[28:32]
        if frame[12:14] == struct.pack("!H", _ARP) and sender_ip == address and sender != own:
            return sender
    return None


def announce(wanted: VirtualIp, clock: Clock) -> None:
    """Tells all neighbours that the address is here. Raises ExternalError when the interface cannot be used."""
    try:
        own = _hardware_address(wanted.interface)
        frames, protocol = _announcements(wanted, own)
        with _raw(wanted.interface, protocol) as sock:
            for number in range(ANNOUNCEMENTS):
                if number:
                    clock.sleep(PAUSE)
                for frame in frames:
                    sock.send(frame)
    except OSError as error:
        raise _unusable(wanted, error) from error


def _announcements(wanted: VirtualIp, own: bytes) -> tuple[Sequence[bytes], int]:
    packed = wanted.ip.packed
    if wanted.ip.version == 4:
        # As a request and as an answer: some listen to the one only, some to the other.
        return [_arp(1, own, packed, bytes(6), packed), _arp(2, own, packed, b"\xff" * 6, packed)], _ARP
    everybody = IPv6Address("ff02::1").packed
    # Override, not solicited; then the option with our hardware address.
    message = struct.pack("!BBHI", 136, 0, 0, 0x20000000) + packed + b"\x02\x01" + own
    pseudo = packed + everybody + struct.pack("!II", len(message), 58)
    message = message[:2] + struct.pack("!H", _checksum(pseudo + message)) + message[4:]
    header = b"\x33\x33\x00\x00\x00\x01" + own + struct.pack("!H", _IPV6)
    return [header + struct.pack("!IHBB", 6 << 28, len(message), 58, 255) + packed + everybody + message], _IPV6


def _checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def _unusable(wanted: VirtualIp, error: OSError) -> ExternalError:
    return ExternalError(
        f"interface {wanted.interface} cannot be used for {wanted.ip}: {error.strerror or error}",
        "correct the service's virtual_ip, or run as root",
    )
