"""Kernel packages shaped like Debian 12's, and what lies around them on a real system."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from .packages import Package

#: What is asked to be left out; the machine's own packages of these names do not take part.
PATTERNS = ("linux-image-*", "linux-headers-*", "linux-kbuild-*", "initramfs-tools*")

_ABIS = ("6.1.0-37", "6.1.0-41")
_SUBSYSTEMS = ("drivers/net", "drivers/gpu/drm", "drivers/media", "drivers/usb", "fs", "net", "sound/pci", "crypto")
_DIRECTORIES = ("include/linux", "include/uapi/linux", "include/net", "arch/x86/include/asm", "scripts", "kernel")
# Names that other packages use too: what tells owners apart by the last part of a path must not be spared them.
_COMMON_NAMES = ("Makefile", "Kconfig", "types.h", "string.h", "errno.h", "time.h", "README")
_GENERATED_BY_DEPMOD = (
    "alias",
    "alias.bin",
    "builtin.alias.bin",
    "builtin.bin",
    "dep",
    "dep.bin",
    "devname",
    "softdep",
    "symbols",
    "symbols.bin",
)


@dataclass(frozen=True)
class Kernels:
    """Paths are absolute and as dpkg would record them."""

    packages: tuple[Package, ...]
    derived: tuple[bytes, ...]
    """Files that no package owns, but that only the kernel's packages make and need."""
    foreign: tuple[bytes, ...]
    """Files that no package owns and that have to be synced, in the midst of the kernel's."""


def kernels(files: int, seed: int) -> Kernels:
    """Packages with `files` files altogether, symlinks not counted."""
    chosen = random.Random(seed)
    packages = [_initramfs_tools(), _kbuild(files // 40)]
    left = files - sum(len(package.files) for package in packages)
    for number, abi in enumerate(_ABIS, 1):
        share = left // (len(_ABIS) - number + 1)
        left -= share
        packages.extend(_kernel(abi, share, chosen))
    last = f"{_ABIS[-1]}-amd64"
    for kind in ("image", "headers"):
        name = f"linux-{kind}-amd64"
        docs = (f"/usr/share/doc/{name}/copyright".encode(),)
        packages.append(_without_one(packages, Package(name, "6.1.1", docs)))
    return Kernels(tuple(packages), tuple(_derived()), tuple(_foreign(last)))


def _without_one(packages: list[Package], added: Package) -> Package:
    """Makes room for the added package's one file, so that the sum stays."""
    at = max(range(len(packages)), key=lambda index: len(packages[index].files))
    large = packages[at]
    packages[at] = Package(large.name, large.version, large.files[:-1], large.links, large.arch)
    return added


def _kernel(abi: str, files: int, chosen: random.Random) -> Iterator[Package]:
    version = f"{abi}-amd64"
    boot = [f"/boot/{name}-{version}" for name in ("vmlinuz", "config", "System.map")]
    depmod = [f"/lib/modules/{version}/modules.{name}" for name in ("builtin", "builtin.modinfo", "order")]
    docs = [f"/usr/share/doc/linux-image-{version}/{name}" for name in ("copyright", "changelog.Debian.gz")]
    bug = [f"/usr/share/bug/linux-image-{version}/{name}" for name in ("control", "include-1network", "presubj")]
    fixed = [*boot, *depmod, *docs, *bug]
    modules, common = files * 27 // 100, files * 45 // 100
    flavour = files - modules - common - len(fixed)
    yield _package(
        f"linux-image-{version}",
        [*fixed, *_spread(f"/lib/modules/{version}/kernel", _SUBSYSTEMS, ".ko", modules, 12, chosen)],
    )
    headers = f"/usr/src/linux-headers-{version}"
    shared = f"/usr/src/linux-headers-{abi}-common"
    yield _package(
        f"linux-headers-{version}",
        _spread(
            headers, ("include/config", "include/generated", "arch/x86/include/generated"), "", flavour, 40, chosen
        ),
        {
            f"/lib/modules/{version}/build": headers,
            f"/lib/modules/{version}/source": shared,
            f"{headers}/scripts": "../../lib/linux-kbuild-6.1/scripts",
        },
    )
    yield _package(f"linux-headers-{abi}-common", _spread(shared, _DIRECTORIES, ".h", common, 25, chosen))


def _kbuild(files: int) -> Package:
    chosen = random.Random(files)
    return _package(
        "linux-kbuild-6.1",
        _spread("/usr/lib/linux-kbuild-6.1", ("scripts", "scripts/mod", "tools"), "", files, 25, chosen),
    )


def _initramfs_tools() -> Package:
    """Shares directories with the administrator's scripts."""
    return _package(
        "initramfs-tools",
        [
            "/etc/initramfs-tools/initramfs.conf",
            "/etc/initramfs-tools/modules",
            "/etc/initramfs-tools/update-initramfs.conf",
            "/etc/kernel/postinst.d/initramfs-tools",
            "/etc/kernel/postrm.d/initramfs-tools",
            "/usr/sbin/update-initramfs",
            "/usr/share/doc/initramfs-tools/copyright",
            "/usr/share/initramfs-tools/init",
        ],
    )


def _derived() -> Iterator[bytes]:
    for abi in _ABIS:
        version = f"{abi}-amd64"
        yield f"/boot/initrd.img-{version}".encode()
        yield f"/var/lib/initramfs-tools/{version}".encode()
        for name in _GENERATED_BY_DEPMOD:
            yield f"/lib/modules/{version}/modules.{name}".encode()


def _foreign(version: str) -> Iterator[bytes]:
    yield f"/lib/modules/{version}/updates/dkms/zfs.ko".encode()
    yield b"/etc/kernel/postinst.d/zz-site-backup"
    yield b"/etc/kernel/postrm.d/zz-site-backup"
    yield b"/etc/initramfs-tools/hooks/site-keys"


def _spread(
    top: str, directories: tuple[str, ...], ending: str, files: int, per_directory: int, chosen: random.Random
) -> list[str]:
    """So many files below top, in small directories below the given ones."""
    found: list[str] = []
    number = 0
    while len(found) < files:
        parent = f"{top}/{directories[number % len(directories)]}"
        # Some files lie in the directory itself, most in one below it.
        if number >= len(directories):
            parent += f"/{chosen.choice('abcdefghkmnprstvwx')}{number}"
        names = list(_COMMON_NAMES[: chosen.randrange(len(_COMMON_NAMES))]) if ending in ("", ".h") else []
        names += [f"{chosen.choice(_STEMS)}_{index}{ending}" for index in range(per_directory - len(names))]
        found += [f"{parent}/{name}" for name in names]
        number += 1
    return found[:files]


_STEMS = ("snd", "usb", "core", "virtio", "nf", "hid", "i2c", "mmc", "phy", "dma", "clk", "gpio", "regmap", "spi")


def _package(name: str, files: list[str], links: dict[str, str] | None = None) -> Package:
    pairs = {link.encode(): target.encode() for link, target in (links or {}).items()}
    return Package(name, "6.1.1", tuple(path.encode() for path in files), pairs)
