"""The libvirt XML of the lab's machines."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.sax.saxutils import escape, quoteattr

Accelerator = Literal["kvm", "qemu"]
"""The names that libvirt gives to the types of its domains; "qemu" is emulation in software."""

METADATA_NAMESPACE = "urn:vcrecovery:lab"

# The first line is needed; the second spares an emulated CPU work that these machines gain nothing from. A guest that
# had to wait for its CPU for a while would distrust its clock, and take one that is slow to read. QEMU translates code
# again for each address at which it runs: a program at the same address each time takes half the time (norandmaps).
COMMAND_LINE = (
    "root=/dev/vda rw console=ttyS0 net.ifnames=0 quiet "
    "mitigations=off audit=0 apparmor=0 nokaslr norandmaps no_timer_check 8250.nr_uarts=1 rcupdate.rcu_expedited=1 "
    "tsc=reliable"
)

# What an emulated CPU claims to have, the guest uses, and to emulate AVX and the like is slow: with Nehalem a boot
# takes a quarter less time than with all that QEMU can emulate. Randomness from the CPU saves the wait for it.
_CPU = {
    "kvm": "<cpu mode='host-passthrough'/>",
    "qemu": "<cpu mode='custom' match='exact' check='none'><model fallback='forbid'>Nehalem</model>"
    "<feature policy='require' name='rdrand'/></cpu>",
}


@dataclass(frozen=True)
class Hardware:
    """What a full machine consists of.

    `tsc_khz`: how fast the emulated CPU's clock counts, if that is known. A guest that has to find it out while its
    host is busy may be wrong by a factor of 35, for as long as it runs: each time-out in it is over at once.
    """

    name: str
    uuid: str
    accelerator: Accelerator
    memory_mib: int
    vcpus: int
    kernel: Path
    initrd: Path
    disk: Path
    console: Path
    bridge: str
    mac: str
    tsc_khz: int | None = None


def emulated_tsc_khz(cpuinfo: str) -> int | None:
    """From the text of /proc/cpuinfo: an emulated x86 CPU counts as fast as the host's.

    That is half of its bogomips; "cpu MHz" may be what the host runs at to save power.
    """
    found = re.search(r"^bogomips\s*:\s*([\d.]+)$", cpuinfo, re.MULTILINE)
    return round(float(found[1]) * 500) if found else None


def full_domain(hardware: Hardware) -> str:
    """A machine with a disk and a network card that boots the given kernel."""
    command_line = COMMAND_LINE + (f" tsc_early_khz={hardware.tsc_khz}" if hardware.tsc_khz else "")
    return f"""\
<domain type={quoteattr(hardware.accelerator)}>
  <name>{escape(hardware.name)}</name>
  <uuid>{escape(hardware.uuid)}</uuid>
  <memory unit='MiB'>{hardware.memory_mib}</memory>
  <vcpu>{hardware.vcpus}</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>{escape(str(hardware.kernel))}</kernel>
    <initrd>{escape(str(hardware.initrd))}</initrd>
    <cmdline>{escape(command_line)}</cmdline>
  </os>
  <features><acpi/></features>
  {_CPU[hardware.accelerator]}
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>restart</on_reboot>
  <on_crash>destroy</on_crash>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='unsafe'/>
      <source file={quoteattr(str(hardware.disk))}/>
      <target dev='vda' bus='virtio'/>
    </disk>
    <interface type='bridge'>
      <mac address={quoteattr(hardware.mac)}/>
      <source bridge={quoteattr(hardware.bridge)}/>
      <model type='virtio'/>
      <rom enabled='no'/>
    </interface>
    <serial type='file'><source path={quoteattr(str(hardware.console))}/><target port='0'/></serial>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
  </devices>
</domain>
"""


def blank_domain(name: str, uuid: str) -> str:
    """The least that is a machine to libvirt: it finds nothing to boot, and waits."""
    return f"""\
<domain type='qemu'>
  <name>{escape(name)}</name>
  <uuid>{escape(uuid)}</uuid>
  <memory unit='MiB'>32</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='pc'>hvm</type></os>
  <devices>
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
  </devices>
</domain>
"""


def boot_sector_domain(name: str, uuid: str, disk: Path) -> str:
    """A machine that runs what stands in the first sector of a floppy disk, and nothing else."""
    floppy = (
        f"<disk type='file' device='floppy'><driver name='qemu' type='raw'/><source file={quoteattr(str(disk))}/>"
        "<target dev='fda' bus='fdc'/></disk></devices>"
    )
    blank = blank_domain(name, uuid)
    return blank.replace("</devices>", floppy).replace("</os>", "<boot dev='fd'/></os>")


def boot_sector(code: bytes) -> bytes:
    """A floppy disk that starts with `code`."""
    return code.ljust(510, b"\0") + b"\x55\xaa" + bytes(1440 * 1024 - 512)


def signed(xml: str, *, also: str = "") -> tuple[str, str]:
    """Add to the XML, as metadata, a hash of it and of `also`; return both. By it the lab knows its domains."""
    digest = hashlib.sha256(f"{xml}\0{also}".encode()).hexdigest()
    metadata = f"  <metadata><lab:domain xmlns:lab='{METADATA_NAMESPACE}' sha256='{digest}'/></metadata>\n"
    return xml.replace("  <memory unit=", f"{metadata}  <memory unit=", 1), digest
