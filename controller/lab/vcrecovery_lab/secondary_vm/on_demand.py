"""The same secondary, off until it is needed: its standbys have a disk of their own, which its hypervisor mounts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from vcrecovery_lab import libvirt, machine
from vcrecovery_lab.image import Image
from vcrecovery_lab.pair.waiting import wait_until
from vcrecovery_lab.progress import Progress
from vcrecovery_lab.run import run

from .site import BRIDGE, HOST, NETWORK, PATIENCE, SECONDARY, Site

MOUNTED = "/srv/standbys"
#: Mounted by its name: the lab's image has no udev rules that would find its label.
_UNITS = f"""\
cat >/etc/systemd/system/standbys.service <<END
[Unit]
DefaultDependencies=no
After=systemd-remount-fs.service
Before=lxd.service lxd.socket
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/mount -t ext4 /dev/vdb {MOUNTED}
ExecStop=/bin/umount {MOUNTED}
[Install]
WantedBy=multi-user.target
END
mkdir -p {MOUNTED} /etc/systemd/system/lxd.service.d
printf '[Unit]\nRequires=standbys.service\nAfter=standbys.service\n' >/etc/systemd/system/lxd.service.d/standbys.conf
systemctl enable standbys.service
"""


class OnDemandSite(Site):
    """Its controller, and the receiver of its primaries' files, are on this machine, as is the VM."""

    def __init__(self, folder: Path, services: Mapping[str, int], **common: Any) -> None:
        super().__init__(folder, services, **common)
        self.pool_source = f"source={MOUNTED}/pool"
        self.disk = folder / f"{self.secondary.name}-standbys.img"
        self.data["secondaries"][SECONDARY] |= {
            "power": "on-demand",
            "power_off_after": "5s",
            "receiver": {"address": f"{NETWORK}.1"},
            "vm": {
                "hypervisor": HOST,
                "domain": self.secondary.name,
                "standbys_disk": "3GiB",
                "image": "/none.img",
                "network": BRIDGE,
                # Of another network than the standbys', as the plan wants it; nobody is asked there.
                "address": "192.0.2.20/24",
            },
        }
        self.plan.write_text(yaml.safe_dump(self.data))

    def _boot(self, image: Image, trees: Mapping[str, Path], progress: Progress) -> None:
        super()._boot(image, trees, progress)
        with progress("secondary: the standbys' disk"):
            with self.disk.open("wb") as file:
                file.truncate(3 << 30)
            run(["mkfs.ext4", "-q", "-L", "standbys", self.disk], timeout=60)
            self.command(_UNITS)
            self.command("systemctl poweroff --no-block")
            wait_until(lambda: libvirt.state(self.secondary.name) == "off", "its end", PATIENCE, 0.5)
            attach = [
                "--config",
                "--targetbus",
                "virtio",
                "--driver",
                "qemu",
                "--subdriver",
                "raw",
                "--cache",
                "unsafe",
            ]
            words = [
                "virsh",
                "-c",
                "qemu:///system",
                "attach-disk",
                self.secondary.name,
                str(self.disk),
                "vdb",
                *attach,
            ]
            run(words, timeout=60)
            libvirt.start(self.secondary.name)
            wait_until(lambda: machine.greets(self.secondary.ip), "its second boot", PATIENCE)
            self.command(f"mkdir -m 711 {MOUNTED}/pool")


@contextmanager
def on_demand_vm(
    folder: Path, services: Mapping[str, int], image: Image, progress: Progress, **common: Any
) -> Iterator[OnDemandSite]:
    """Such a site, with its VM on and its standbys waiting, as before its first power-off."""
    site = OnDemandSite(folder, services, **common)
    with site.laid_out(image, progress):
        try:
            yield site
        finally:
            # Where nothing is mounted, that is said, and nobody minds.
            run(["umount", str(folder / "state/secondaries" / SECONDARY / "disk")], timeout=60, check=False)
