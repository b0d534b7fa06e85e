"""A cloud image: a disk that boots by itself, and whose first boot does what cloud-init finds on a seed.

Debian's LXD is in it, and what pip would fetch: the machines that are made of it reach no mirror.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from .domain import COMMAND_LINE
from .image import DEFAULT_CACHE, Image, ensure_image, make_disk
from .layout import CHECKOUT
from .progress import Progress
from .recipe import Recipe
from .run import run

_BASE = Recipe()
_LOCK = CHECKOUT / "controller/requirements.lock"
#: Where pip finds its packages there.
_WHEELS = "opt/wheels"
_DISK_MIB = 4000
#: The first sector of the partition.
_FIRST = 2048
_SECTOR = 512

CLOUD = replace(
    _BASE,
    disk_mib=_DISK_MIB,
    packages=(
        *_BASE.packages,
        *("cloud-init", "cloud-guest-utils", "e2fsprogs", "fdisk", "grub-common", "grub-pc-bin"),
        *("lxd", "lxd-client", "btrfs-progs", "squashfs-tools", "uidmap", "dnsmasq-base", "iptables"),
        *("python3-venv", "python3-libvirt", "openssl"),
    ),
    files={
        **_BASE.files,
        # lxcfs, which LXD requires, is a file system of FUSE.
        "etc/modules-load.d/lab.conf": "button\nfuse\n",
        "etc/fstab": "LABEL=root / ext4 defaults,noatime 0 1\n",
        "etc/network/interfaces": "auto lo\niface lo inet loopback\nsource /etc/network/interfaces.d/*\n",
        "etc/pip.conf": f"[global]\nno-index = true\nfind-links = /{_WHEELS}\n",
        "etc/cloud/cloud.cfg.d/90-lab.cfg": "datasource_list: [NoCloud]\napt_preserve_sources_list: true\n",
    },
    disabled_services=("lsyncd", "nginx"),
    # It waits two minutes for cards that are not its own.
    masked_units=(*_BASE.masked_units, "systemd-networkd-wait-online.service"),
)


def cloud_image(progress: Progress, trees: Mapping[str, Path]) -> Path:
    """A raw disk with copies of `trees` in /srv, by their names. It is kept, and nobody changes it."""
    image = ensure_image(DEFAULT_CACHE.with_name("vcrecovery-lab-cloud"), progress, CLOUD)
    named = hashlib.sha256(
        b"\0".join([_LOCK.read_bytes(), Path(__file__).read_bytes(), *map(os.fsencode, trees.values())])
    )
    disk = image.disk.with_name(f"cloud-{named.hexdigest()[:12]}.img")
    if not disk.exists():
        for old in disk.parent.glob("cloud-*.img"):
            old.unlink()
        with tempfile.TemporaryDirectory(prefix=".unfinished-", dir=disk.parent) as folder:
            whole = _whole_disk(image, trees, Path(folder), progress)
            whole.chmod(0o644)
            whole.rename(disk)
    return disk


def _whole_disk(image: Image, trees: Mapping[str, Path], folder: Path, progress: Progress) -> Path:
    root, partition, disk = folder / "root", folder / "partition", folder / "disk"
    with progress("cloud image: files"):
        run(["cp", "-a", image.rootfs, root], timeout=300)
        for name, tree in trees.items():
            run(["cp", "-a", tree, root / "srv" / name], timeout=300)
            shutil.rmtree(root / "srv" / name / "boot")
        # The one of the archive that the image is made of may refuse deletions; this machine has the security update.
        shutil.copy2("/usr/bin/rsync", root / "usr/bin/rsync")
    with progress("cloud image: Python packages (about 20 s)"):
        pip: list[str | Path] = [
            CHECKOUT / ".venv/bin/pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
        ]
        run([*pip, "--require-hashes", "-r", _LOCK, "-d", root / _WHEELS], timeout=600)
    with progress("cloud image: disk"):
        core = _boot_loader(root)
        make_disk(root, partition, _DISK_MIB)
        _assemble(disk, partition, core)
    return disk


def _boot_loader(root: Path) -> bytes:
    """GRUB for what lies before the first partition, from its first sector on. It boots the one kernel there is."""
    (kernel,) = (root / "boot").glob("vmlinuz-*")
    version = kernel.name.removeprefix("vmlinuz-")
    command_line = COMMAND_LINE.replace("root=/dev/vda", "root=LABEL=root")
    linux = f"linux /boot/{kernel.name} {command_line}\ninitrd /boot/initrd.img-{version}"
    (root / "boot/early.cfg").write_text(f"set root=(hd0,msdos1)\n{linux}\nboot\n")
    modules = ["biosdisk", "part_msdos", "ext2", "linux"]
    words = [
        "grub-mkimage",
        "-O",
        "i386-pc",
        "-p",
        "(hd0,msdos1)/boot/grub",
        "-c",
        "/boot/early.cfg",
        "-o",
        "/boot/core.img",
    ]
    run(["chroot", root, *words, *modules], timeout=60)
    first = (root / "usr/lib/grub/i386-pc/boot.img").read_bytes()
    return first.ljust(_SECTOR, b"\0")[:_SECTOR] + (root / "boot/core.img").read_bytes()


def _assemble(disk: Path, partition: Path, core: bytes) -> None:
    """A disk with one partition. GRUB expects what follows its first sector right behind that."""
    sectors = partition.stat().st_size // _SECTOR
    entry = struct.pack("<B3sB3sII", 0x80, b"\0" * 3, 0x83, b"\0" * 3, _FIRST, sectors)
    table = entry.ljust(64, b"\0") + b"\x55\xaa"
    if len(core) > _FIRST * _SECTOR:
        raise ValueError(f"the boot loader has {len(core)} bytes")
    with disk.open("wb") as file:
        file.write(core)
        file.seek(446)
        file.write(table)
        os.truncate(file.fileno(), (_FIRST + sectors) * _SECTOR)
    words = ["dd", f"if={partition}", f"of={disk}", "bs=1M", f"seek={_FIRST * _SECTOR >> 20}", "conv=notrunc,sparse"]
    run([*words, "status=none"], timeout=300)
