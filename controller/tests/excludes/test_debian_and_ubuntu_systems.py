"""Systems with the names and shapes of Debian 12 and Ubuntu 24.04: what the profile leaves out, and rsync with it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from package_trees import make_dpkg, make_file, make_link, with_parents

from vcrecovery.excludes import exclude_list, render


class System(NamedTuple):
    """What packages record; what scripts generate; and what the administrator made. All files are on the disk."""

    kept: Mapping[str, Iterable[str]]
    excluded: Mapping[str, Iterable[str]]
    generated: Iterable[str]
    administrators: Iterable[str]
    listed: Iterable[str]


def doc(name: str) -> str:
    return f"/usr/share/doc/{name}/copyright"


BASE = {
    "base-files": (
        "/etc/os-release",
        "/usr/lib/os-release",
        "/boot",
        "/etc/default",
        "/usr/lib",
        "/usr/bin",
        "/usr/sbin",
    ),
    "kmod": (
        "/etc/init.d/kmod",
        "/usr/bin/kmod",
        "/usr/share/initramfs-tools/hooks/kmod",
        "/lib/modprobe.d/aliases.conf",
    ),
    "libc6-dev": ("/usr/include/stdio.h",),
    "linux-libc-dev": ("/usr/include/linux/version.h", doc("linux-libc-dev")),
    "lsyncd": ("/etc/init.d/lsyncd", "/lib/systemd/system/lsyncd.service"),
    "udev": ("/lib/udev/rules.d/50-udev-default.rules", "/usr/share/initramfs-tools/hooks/udev"),
}
GRUB = {
    "grub-common": ("/etc/grub.d/00_header", "/etc/grub.d/40_custom", "/usr/bin/grub-file", "/var/lib/grub/ucf"),
    "grub2-common": ("/usr/sbin/grub-install", "/usr/sbin/update-grub", "/usr/share/grub/grub-mkconfig_lib"),
    "grub-efi-amd64": (doc("grub-efi-amd64"),),
    "grub-efi-amd64-bin": ("/usr/lib/grub/x86_64-efi/linux.mod",),
    "grub-efi-amd64-signed": ("/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed",),
    "shim-signed": ("/usr/lib/shim/shimx64.efi.signed",),
    "mokutil": ("/usr/bin/mokutil",),
    "efibootmgr": ("/bin/efibootmgr",),
    "os-prober": ("/usr/bin/os-prober",),
}
INITRAMFS = {
    "initramfs-tools": (
        "/etc/initramfs-tools/conf.d",
        "/etc/kernel/postinst.d/initramfs-tools",
        doc("initramfs-tools"),
    ),
    "initramfs-tools-core": ("/etc/initramfs-tools/initramfs.conf", "/usr/sbin/mkinitramfs"),
    "klibc-utils": ("/usr/lib/klibc/bin/sh", "/usr/share/initramfs-tools/hooks/klibc-utils"),
    "libklibc": ("/lib/klibc-XX6cASCB7KZyJWpIJW79y94XHBY.so",),
}
KEXEC = {
    "kexec-tools": ("/etc/init.d/kexec", "/etc/init.d/kexec-load", "/sbin/kexec"),
    "kdump-tools": ("/etc/init.d/kdump-tools", "/lib/systemd/system/kdump-tools.service"),
    "makedumpfile": ("/usr/bin/makedumpfile",),
}
DEPMOD = ("alias", "alias.bin", "builtin.bin", "dep", "dep.bin", "devname", "softdep", "symbols", "symbols.bin")
#: Directories with nothing but files of excluded packages, under their shortest names.
SHORT = ("/boot/grub", "/etc/grub.d", "/etc/initramfs-tools", "/usr/lib/grub", "/usr/lib/klibc", "/var/lib/grub")


def boot(efi: str) -> tuple[str, ...]:
    """What grub-install, update-grub, ucf and the links to services leave behind."""
    return (
        *(f"/boot/grub/{name}" for name in ("grub.cfg", "grubenv", "unicode.pf2", "fonts/unicode.pf2", "locale/de.mo")),
        *(f"/boot/grub/x86_64-efi/{name}" for name in ("normal.mod", "core.efi", "grub.efi", "load.cfg", "moddep.lst")),
        *(f"/boot/efi/EFI/{efi}/{name}" for name in ("grubx64.efi", "shimx64.efi", "BOOTX64.CSV", "grub.cfg")),
        *(f"/boot/efi/EFI/BOOT/{name}" for name in ("BOOTX64.EFI", "fbx64.efi", "grubx64.efi")),
        *("/etc/default/grub", "/var/lib/grub/ucf/grub.previous", "/etc/default/kexec", "/etc/default/kdump-tools"),
        *("/etc/initramfs-tools/modules", "/etc/initramfs-tools/conf.d/resume"),
        *(f"/etc/rc2.d/S01{name}" for name in ("grub-common", "kdump-tools", "kexec", "kexec-load", "lsyncd")),
        "/etc/systemd/system/multi-user.target.wants/kdump-tools.service",
        "/etc/systemd/system/multi-user.target.wants/lsyncd.service",
    )


def kernel_files(version: str) -> tuple[str, ...]:
    """What depmod, update-initramfs and kdump-config generate for a kernel."""
    return (
        f"/boot/initrd.img-{version}",
        f"/var/lib/initramfs-tools/{version}",
        f"/var/lib/kdump/initrd.img-{version}",
        *(f"/usr/lib/modules/{version}/modules.{name}" for name in DEPMOD),
    )


LATEST, BEFORE = "6.1.0-50-amd64", "6.1.0-49-amd64"
DEBIAN = System(
    kept=BASE,
    excluded={
        **GRUB,
        **INITRAMFS,
        **KEXEC,
        **{
            f"linux-image-{version}": (
                *(f"/boot/{name}-{version}" for name in ("vmlinuz", "System.map", "config")),
                *(
                    f"/lib/modules/{version}/{name}"
                    for name in ("kernel/fs/ext4.ko", "modules.builtin", "modules.order")
                ),
                doc(f"linux-image-{version}"),
            )
            for version in (LATEST, BEFORE)
        },
        "linux-image-amd64": (doc("linux-image-amd64"),),
        f"linux-headers-{LATEST}": (f"/usr/src/linux-headers-{LATEST}/Makefile", f"/lib/modules/{LATEST}/build"),
        "linux-kbuild-6.1": ("/usr/lib/linux-kbuild-6.1/scripts/fixdep",),
        "linux-base": ("/usr/bin/linux-version",),
        "firmware-linux-free": ("/lib/firmware/carl9170-1.fw",),
        "intel-microcode": ("/lib/firmware/intel-ucode/06-01-00", "/etc/default/intel-microcode"),
        "dkms": ("/usr/sbin/dkms", "/etc/kernel/postinst.d/dkms", "/lib/systemd/system/dkms.service"),
        "zfs-dkms": ("/usr/src/zfs-2.1.11/Makefile",),
        "cryptsetup-initramfs": ("/usr/share/initramfs-tools/hooks/cryptroot",),
    },
    generated=(
        *boot("debian"),
        *kernel_files(LATEST),
        *kernel_files(BEFORE),
        *("/vmlinuz", "/vmlinuz.old", "/initrd.img", "/initrd.img.old"),
        "/etc/systemd/system/multi-user.target.wants/dkms.service",
    ),
    administrators=(
        f"/usr/lib/modules/{LATEST}/updates/dkms/zfs.ko",
        "/etc/default/grub.d/own.cfg",
        "/boot/efi/EFI/own/boot.efi",
        "/etc/kernel/postinst.d/zz-own",
        "/etc/modprobe.d/own.conf",
    ),
    listed=(
        *SHORT,
        f"/usr/lib/modules/{BEFORE}",
        f"/usr/lib/modules/{LATEST}/kernel",
        f"/usr/lib/modules/{LATEST}/build",
        *("/boot/efi/EFI/debian", "/boot/efi/EFI/BOOT", "/usr/lib/firmware", "/usr/src"),
    ),
)

GENERIC, HWE = "6.8.0-60-generic", "6.11.0-26-generic"


def ubuntu_kernel(version: str, headers: str) -> dict[str, tuple[str, ...]]:
    """Ubuntu's split: the image has the image only, and the modules the rest of /boot."""
    number = version.rpartition("-")[0]
    return {
        f"linux-image-{version}": (f"/boot/vmlinuz-{version}", doc(f"linux-image-{version}")),
        f"linux-modules-{version}": (
            *(f"/boot/{name}-{version}" for name in ("System.map", "config")),
            *(f"/lib/modules/{version}/{name}" for name in ("kernel/fs/ext4.ko.zst", "modules.order")),
        ),
        f"linux-modules-extra-{version}": (f"/lib/modules/{version}/kernel/drivers/can.ko.zst",),
        f"linux-headers-{version}": (f"/usr/src/linux-headers-{version}/Makefile", f"/lib/modules/{version}/build"),
        f"{headers}-headers-{number}": (f"/usr/src/{headers}-headers-{number}/Kconfig",),
        f"{headers}-tools-{number}": (f"/usr/lib/{headers}-tools-{number}/perf",),
        f"linux-tools-{version}": (f"/usr/lib/linux-tools/{version}/perf",),
    }


UBUNTU = System(
    kept={
        **BASE,
        # Wrappers and manual pages; nothing in them belongs to one kernel.
        "linux-tools-common": ("/usr/bin/perf", "/usr/share/man/man1/perf.1.gz"),
        "busybox-static": ("/bin/busybox",),
        "cloud-init": ("/usr/bin/cloud-init",),
        "fwupd": ("/usr/bin/fwupdmgr",),
    },
    excluded={
        **GRUB,
        **INITRAMFS,
        **KEXEC,
        **ubuntu_kernel(GENERIC, "linux"),
        **ubuntu_kernel(HWE, "linux-hwe-6.11"),
        **{name: (doc(name),) for name in ("linux-generic", "linux-image-generic-hwe-24.04", "linux-virtual")},
        "ubuntu-kernel-accessories": (doc("ubuntu-kernel-accessories"),),
        "linux-base": ("/usr/bin/linux-version",),
        "linux-base-sgx": ("/lib/udev/rules.d/60-sgx.rules",),
        "linux-firmware": ("/lib/firmware/amdgpu/one.bin.zst",),
        "amd64-microcode": ("/lib/firmware/amd-ucode/microcode_amd.bin",),
        "wireless-regdb": ("/lib/firmware/regulatory.db",),
        "linux-cloud-tools-common": ("/usr/sbin/hv_kvp_daemon",),
        "secureboot-db": ("/usr/share/secureboot/updates/dbx/one.bin", "/lib/systemd/system/secureboot-db.service"),
        "overlayroot": ("/etc/overlayroot.conf", "/usr/sbin/overlayroot-chroot"),
        "cloud-initramfs-copymods": ("/usr/share/initramfs-tools/hooks/copymods",),
        "cloud-initramfs-dyn-netconf": ("/usr/share/initramfs-tools/hooks/cloud-initramfs-dyn-netconf",),
        "busybox-initramfs": ("/usr/lib/initramfs-tools/bin/busybox",),
        "initramfs-tools-bin": ("/usr/lib/initramfs-tools/bin/wait-for-root",),
        "dracut-install": ("/usr/lib/dracut/dracut-install",),
        "grub-gfxpayload-lists": ("/etc/grub-gfxpayload-lists/blacklist",),
    },
    generated=(
        *boot("ubuntu"),
        *kernel_files(GENERIC),
        *kernel_files(HWE),
        *("/boot/vmlinuz", "/boot/vmlinuz.old", "/boot/initrd.img", "/boot/initrd.img.old"),
        "/etc/systemd/system/multi-user.target.wants/grub-common.service",
        "/etc/systemd/system/rescue.target.wants/grub-initrd-fallback.service",
        "/etc/systemd/system/multi-user.target.wants/secureboot-db.service",
    ),
    administrators=(
        f"/usr/lib/modules/{HWE}/updates/dkms/own.ko.zst",
        "/etc/default/grub.d/50-cloudimg-settings.cfg",
        "/boot/grub/custom.cfg",
    ),
    listed=(
        *(path for path in SHORT if path != "/boot/grub"),
        *("/boot/grub/grub.cfg", "/boot/grub/x86_64-efi", "/boot/efi/EFI", "/usr/lib/firmware", "/usr/src"),
        *(f"/usr/lib/modules/{GENERIC}", f"/usr/lib/modules/{HWE}/kernel"),
        *("/usr/lib/linux-tools", "/usr/lib/linux-hwe-6.11-tools-6.11.0-26", "/usr/lib/initramfs-tools"),
    ),
)
ALIASES = ("bin", "lib", "sbin")


def real(path: str) -> str:
    """The path on the file system, where /lib, /bin and /sbin are symlinks."""
    return "/usr" + path if path.split("/")[1] in ALIASES else path


def make_system(root: Path, system: System) -> None:
    for name in ALIASES:
        make_link(root, os.fsencode(f"/{name}"), os.fsencode(f"usr/{name}"))
    packages = {**system.kept, **system.excluded}
    make_dpkg(root, {name: map(os.fsencode, paths) for name, paths in packages.items()})
    recorded = [real(path) for paths in packages.values() for path in paths]
    files = [*recorded, *system.generated, *system.administrators]
    for path in files:
        if not any(other.startswith(path + "/") for other in files):
            (make_link_to if "/rc2.d/" in path or ".wants/" in path else make_file)(root, os.fsencode(path))


def make_link_to(root: Path, path: bytes) -> None:
    make_link(root, path, b"/lib/systemd/system/" + path.rpartition(b"/")[2])


def contents(top: Path) -> dict[str, bool]:
    """Every path, and true for a directory; the package database apart."""
    found = {}
    for directory, below, files in os.walk(top):
        for name in below + files:
            path = Path(directory, name)
            if "/var/lib/dpkg" not in str(path):
                found[str(path)[len(str(top)) :]] = path.is_dir() and not path.is_symlink()
    return found


@pytest.mark.skipif(shutil.which("rsync") is None, reason="needs rsync")
@pytest.mark.parametrize("system", [DEBIAN, UBUNTU], ids=["debian", "ubuntu"])
def test_the_profile_leaves_out_the_boot_and_nothing_else(system: System, tmp_path: Path) -> None:
    root, target, rules = tmp_path / "root", tmp_path / "out", tmp_path / "rules"
    make_system(root, system)
    excludes = exclude_list(root, [], profile="vm-to-container")
    assert {name.partition(":")[0] for name in excludes.packages} == set(system.excluded)
    rules.write_bytes(render(excludes, "rsync"))
    subprocess.run(["rsync", "-a", f"--exclude-from={rules}", f"{root}/", f"{target}/"], check=True, timeout=60)
    there = contents(root)
    gone = set(there) - set(contents(target))
    own = {real(path) for paths in system.excluded.values() for path in paths} | set(system.generated)
    assert {path for path in gone if not there[path]} == {path for path in own if not there[path]}
    assert not gone & set(system.administrators)
    for paths in system.kept.values():
        assert not gone & {os.fsdecode(path) for path in with_parents(os.fsencode(real(path)) for path in paths)}
    assert set(system.listed) <= {os.fsdecode(path) for path in excludes.paths}


def test_a_kernel_without_its_metapackage_takes_the_links_to_kernels(tmp_path: Path) -> None:
    make_system(tmp_path, DEBIAN)
    links = {b"/vmlinuz", b"/vmlinuz.old", b"/initrd.img", b"/initrd.img.old"}
    assert links <= set(exclude_list(tmp_path, ["linux-image-6*"]).paths)
    assert not links & set(exclude_list(tmp_path, ["linux-image-*"], keep=[f"linux-image-{BEFORE}"]).paths)
