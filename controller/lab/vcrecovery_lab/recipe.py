"""What the image of the lab's VMs holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

_DPKG = """# A lab image: whoever installs it can wait for it again, and nobody reads manuals in it.
force-unsafe-io
path-exclude=/usr/share/man/*
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/info/*
path-exclude=/usr/share/lintian/*
path-exclude=/usr/share/locale/*
"""

# To look at every device, and load modules for each, takes an emulated CPU seconds; these are the ones in use.
_UDEV_TRIGGER = """[Service]
ExecStart=
ExecStart=-udevadm trigger --action=add --subsystem-match=block --subsystem-match=net --subsystem-match=tty \\
  --subsystem-match=input
"""

_SSHD = """PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UseDNS no
"""

_PAGE = """<!DOCTYPE html>
<title>debian</title>
<h1>debian</h1>
"""


#: On the path of whatever Python is to be quick with Ansible's modules: see there.
KEPT_BYTECODE = Path(__file__).resolve().parents[1] / "kept_bytecode"
#: Debian's Python has a `sitecustomize` of its own.
KEEPS_BYTECODE = {
    "usr/lib/python3/dist-packages/vcrlab_kept_bytecode.py": (KEPT_BYTECODE / "sitecustomize.py").read_text(),
    "usr/lib/python3/dist-packages/vcrlab.pth": "import vcrlab_kept_bytecode\n",
}


@dataclass(frozen=True)
class Recipe:
    """All that decides what is in the image."""

    suite: str = "bookworm"
    disk_mib: int = 1500
    packages: tuple[str, ...] = (
        *("systemd", "systemd-sysv", "dbus", "linux-image-cloud-amd64", "initramfs-tools"),
        *("iproute2", "iputils-ping", "netbase", "ifupdown", "procps", "openssh-server"),
        *("nginx-light", "lsyncd", "rsync", "acl", "attr", "python3-apt"),
    )
    # In place before the packages, so that dpkg and the initramfs hooks go by them.
    early_files: Mapping[str, str] = field(
        default_factory=lambda: {
            "etc/dpkg/dpkg.cfg.d/lab": _DPKG,
            "etc/initramfs-tools/conf.d/lab": "MODULES=list\nRESUME=none\n",
            "etc/initramfs-tools/modules": "virtio_pci\nvirtio_blk\nvirtio_net\n",
        }
    )
    # The files that name a VM are here too: each VM's own take their places.
    files: Mapping[str, str] = field(
        default_factory=lambda: {
            "etc/hostname": "debian\n",
            "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
            "etc/machine-id": "uninitialized\n",
            "etc/resolv.conf": "",
            "etc/network/interfaces": "auto lo\niface lo inet loopback\n",
            # For `virsh shutdown`; with all devices looked at, udev would load it.
            "etc/modules-load.d/lab.conf": "button\n",
            "etc/default/locale": "LANG=C.UTF-8\n",
            "etc/fstab": "/dev/vda / ext4 defaults,noatime 0 0\n",
            "etc/ssh/sshd_config.d/lab.conf": _SSHD,
            "etc/systemd/journald.conf.d/lab.conf": "[Journal]\nStorage=volatile\n",
            "etc/systemd/system/systemd-udev-trigger.service.d/lab.conf": _UDEV_TRIGGER,
            "var/www/html/index.html": _PAGE,
            **KEEPS_BYTECODE,
        }
    )
    removed: tuple[str, ...] = ("var/www/html/index.nginx-debian.html",)
    disabled_services: tuple[str, ...] = ("lsyncd",)
    # Maintenance that a machine which lives for minutes does not need, and what waits for hardware it has not got.
    masked_units: tuple[str, ...] = (
        *("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer"),
        *("e2scrub_all.timer", "e2scrub_reap.service", "systemd-pstore.service", "getty@tty1.service"),
        *("ifupdown-pre.service", "kmod-static-nodes.service", "systemd-binfmt.service"),
        *("modprobe@configfs.service", "modprobe@dm_mod.service", "modprobe@drm.service", "modprobe@loop.service"),
        *("modprobe@fuse.service", "sys-fs-fuse-connections.mount", "sys-kernel-config.mount"),
        *("sys-kernel-debug.mount", "sys-kernel-tracing.mount", "dev-hugepages.mount"),
        "proc-sys-fs-binfmt_misc.automount",
    )

    def digest(self, *sources: Path) -> str:
        """A hash of the recipe and of the programs that carry it out."""
        sha256 = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode())
        for source in sources:
            sha256.update(source.read_bytes())
        return sha256.hexdigest()
