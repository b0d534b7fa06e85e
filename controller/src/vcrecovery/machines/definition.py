"""The definition of such a VM for libvirt."""

from __future__ import annotations

import hashlib
import re
from typing import List, Mapping
from xml.sax.saxutils import escape, quoteattr

from .machine import Machine
from .seed import FILES

#: By it a domain is known as ours, and as being what it should be.
NAMESPACE = "urn:vcrecovery:secondary"

# An emulated CPU that claims to have all that QEMU can emulate is slow: what it claims the guest uses.
_CPU = {
    "kvm": "<cpu mode='host-passthrough' migratable='on'/>",
    "qemu": "<cpu mode='custom' match='exact' check='none'><model fallback='forbid'>Nehalem</model>"
    "<feature policy='require' name='rdrand'/></cpu>",
}


def definition(machine: Machine, accelerator: str, seed: Mapping[str, str], remark: str = "") -> str:
    """The XML. `accelerator` is libvirt's word for it, `kvm` or `qemu`; `seed`: what cloud-init finds there.

    `remark`: an element of another namespace, for its metadata. It boots its first disk. Its signature covers the seed
    too: written after that, it says that all is there.
    """
    lines = [
        f"<name>{escape(machine.domain)}</name>",
        f"<uuid>{machine.uuid}</uuid>",
        f"<memory unit='b'>{machine.memory}</memory>",
        f"<vcpu>{machine.cores}</vcpu>",
        "<os><type arch='x86_64' machine='q35'>hvm</type><boot dev='hd'/></os>",
        "<features><acpi/><apic/></features>",
        _CPU[accelerator],
        "<on_poweroff>destroy</on_poweroff>",
        "<on_reboot>restart</on_reboot>",
        "<on_crash>restart</on_crash>",
        "<devices>",
        *_disks(machine),
        *(
            f"<interface type='bridge'><mac address='{card.mac}'/><source bridge={quoteattr(card.bridge)}/>"
            "<model type='virtio'/><rom enabled='no'/></interface>"
            for card in machine.cards
        ),
        "<serial type='pty'><target port='0'/></serial>",
        "<console type='pty'><target type='serial' port='0'/></console>",
        "<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>",
        "<controller type='usb' model='none'/>",
        "</devices>",
    ]
    body = "\n".join(f"  {line}" for line in lines)
    digest = hashlib.sha256("\0".join([accelerator, body, *(seed[name] for name in FILES)]).encode()).hexdigest()
    metadata = f"  <metadata><vcr:machine xmlns:vcr='{NAMESPACE}' sha256='{digest}'/>{remark}</metadata>"
    return f"<domain type='{accelerator}'>\n{metadata}\n{body}\n</domain>\n"


def signature_in(xml: str) -> str:
    """Of a definition, ours or libvirt's own copy of it; empty for a domain that is not ours."""
    found = re.search(rf"""xmlns:vcr=["']{NAMESPACE}["'] sha256=["']([0-9a-f]{{64}})["']""", xml)
    return found[1] if found else ""


def _disks(machine: Machine) -> List[str]:
    disks = [("qcow2", machine.disk_path, "vda")]
    if machine.standbys_disk:
        disks.append(("raw", machine.standbys_path, "vdb"))
    # No CD: the kernels of cloud images have drivers for little else than virtio.
    disks.append(("raw", machine.seed_path, "vdz"))
    return [
        f"<disk type='file' device='disk'><driver name='qemu' type='{kind}'/><source file={quoteattr(path)}/>"
        f"<target dev='{name}' bus='virtio'/>{'<readonly/>' if name == 'vdz' else ''}</disk>"
        for kind, path, name in disks
    ]
