"""Small initramfs archives made of busybox: one that boots the VMs, one that only tells that the kernel runs.

Debian's own initramfs would boot the VMs too, but brings udev along, which is slow where the CPU is emulated.
"""

from __future__ import annotations

import lzma
import shutil
from collections.abc import Sequence
from pathlib import Path

from . import cpio
from .run import LabError

# The disk, the network card and the source of randomness of the VMs; udev finds all of them in place.
BOOT_MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "virtio_rng")

# Computed by the guest's shell: the text itself must not stand in anything the kernel echoes.
TRIAL_MARKER = "vcrlab-trial-42-up"
_TRIAL_INIT = """#!/bin/busybox sh
echo "vcrlab-trial-$((6 * 7))-up"
exec /bin/busybox poweroff -f
"""

_BOOT_INIT = """#!/bin/busybox sh
export PATH=/bin
busybox mount -t devtmpfs dev /dev
while read -r module; do busybox insmod "/modules/$module"; done </modules/order
tries=0
until [ -b /dev/vda ] || [ "$tries" -eq 100 ]; do tries=$((tries + 1)); busybox usleep 50000; done
busybox mount -t ext4 -o rw,noatime /dev/vda /root
busybox mount -o move /dev /root/dev
exec busybox switch_root /root /sbin/init
"""


def trial_initramfs() -> bytes:
    """Prints TRIAL_MARKER on the console and switches the machine off."""
    return cpio.archive(_busybox(_TRIAL_INIT))


def boot_initramfs(modules: Path) -> bytes:
    """Mounts /dev/vda and starts its /sbin/init; `modules` is the kernel's directory under /lib/modules."""
    has = built_in((modules / "modules.builtin").read_text())
    loaded = [name for name in BOOT_MODULES if name not in has]
    names = load_order((modules / "modules.dep").read_text(), loaded)
    entries = _busybox(_BOOT_INIT)
    entries += [cpio.directory("root"), cpio.directory("modules")]
    entries.append(cpio.file("modules/order", "".join(f"{_plain_name(name)}\n" for name in names).encode()))
    entries += [cpio.file(f"modules/{_plain_name(name)}", _content(modules / name)) for name in names]
    return cpio.archive(entries)


def built_in(modules_builtin: str) -> set[str]:
    """The modules that are part of the kernel, by the names that modprobe takes."""
    return {_module(path) for path in modules_builtin.splitlines()}


def _plain_name(path: str) -> str:
    return Path(path).name.removesuffix(".xz")


def _module(path: str) -> str:
    return _plain_name(path).removesuffix(".ko").replace("-", "_")


def _content(module: Path) -> bytes:
    # Debian 13's are compressed. Busybox leaves that to the kernel, which knows no more than it was built with.
    read = module.read_bytes()
    return lzma.decompress(read) if module.suffix == ".xz" else read


def load_order(modules_dep: str, wanted: Sequence[str]) -> list[str]:
    """The files of the wanted modules and of those they depend on, each after its dependencies."""
    lines = (line.partition(":") for line in modules_dep.splitlines())
    dependencies = {path: needs.split() for path, _, needs in lines}
    paths = {_module(path): path for path in dependencies}
    order: list[str] = []
    for module in wanted:
        path = paths.get(module)
        if path is None:
            raise LabError(f"image: the kernel has no module {module}")
        # modules.dep names all dependencies, also the indirect ones, those to be loaded first last.
        order += [name for name in (*reversed(dependencies[path]), path) if name not in order]
    return order


def _busybox(init: str) -> list[cpio.Entry]:
    busybox = shutil.which("busybox")
    if busybox is None:
        raise LabError("busybox: not found (Debian package busybox-static)")
    return [
        cpio.directory("bin"),
        cpio.file("bin/busybox", Path(busybox).read_bytes(), 0o755),
        cpio.directory("dev"),
        cpio.character_device("dev/console", 5, 1),
        cpio.file("init", init.encode(), 0o755),
    ]
