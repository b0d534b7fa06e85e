"""A system of the Red Hat family, installed by the real rpm: what its profile leaves out, and rsync with it."""

# Paths are bytes here, which pathlib does not know.
# ruff: noqa: PTH112, PTH114, PTH118
from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from package_trees import make_file, make_link

from vcrecovery.excludes import exclude_list, explain, render

pytestmark = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("rpm", "rpmbuild", "rsync")), reason="needs rpm, rpmbuild and rsync"
)

OLD = "5.14.0-427.13.1.el9_4"
NEW = "5.14.0-503.11.1.el9_5"
MACHINE = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"

#: What a package records: a path that ends in a slash is a directory (%dir), `link -> target` a symlink, and one
#: with a question mark in front is %ghost, which no package brings along. Shaped as the spec files of RHEL 9 do it.
BASE: Mapping[str, Iterable[str]] = {
    "filesystem": (
        "/bin -> usr/bin",
        "/lib -> usr/lib",
        "/lib64 -> usr/lib64",
        "/sbin -> usr/sbin",
        *("/boot/", "/etc/", "/usr/", "/usr/bin/", "/usr/include/", "/usr/lib/", "/usr/lib64/", "/usr/sbin/"),
        *("/usr/share/", "/usr/share/doc/", "/usr/share/licenses/", "/usr/share/man/", "/usr/share/man/man8/"),
        *("/usr/share/locale/", "/usr/share/locale/de/", "/usr/share/locale/de/LC_MESSAGES/"),
        *("/usr/src/", "/usr/src/kernels/", "/var/", "/var/lib/"),
    ),
    "setup": ("/etc/passwd", "/etc/default/useradd"),
    "bash": ("/usr/bin/bash", "/usr/share/locale/de/LC_MESSAGES/bash.mo", "/usr/share/licenses/bash/COPYING"),
    "systemd-udev": (
        *("/etc/kernel/", "/etc/kernel/install.d/", "/usr/lib/kernel/install.d/", "/usr/lib/systemd/system/"),
        *("/usr/lib/kernel/install.d/50-depmod.install", "/usr/lib/modprobe.d/systemd.conf"),
    ),
    "kmod": ("/etc/depmod.d/dist.conf", "/etc/modprobe.d/", "/usr/bin/kmod", "/usr/sbin/depmod -> ../bin/kmod"),
    "kmod-libs": ("/usr/lib64/libkmod.so.2",),
    # Named like a kernel, and needed without one: glibc's headers, and the libraries of tools.
    "kernel-headers": ("/usr/include/linux/version.h",),
    "kernel-tools-libs": ("/usr/lib64/libcpupower.so.0",),
    "lsyncd": ("/usr/bin/lsyncd", "/usr/lib/systemd/system/lsyncd.service"),
    "linux-firmware": ("/usr/lib/firmware/", "/usr/lib/firmware/amd/", "/usr/lib/firmware/amd/one.fw.xz"),
    "linux-firmware-whence": ("/usr/share/licenses/linux-firmware-whence/WHENCE",),
    "iwl100-firmware": ("/usr/lib/firmware/iwlwifi-100-5.ucode.xz",),
    "microcode_ctl": (
        *("/usr/lib/firmware/intel-ucode/06-01-00", "/usr/lib/systemd/system/microcode.service"),
        "/usr/share/doc/microcode_ctl/README",
    ),
    "dracut": (
        *("/etc/dracut.conf", "/etc/dracut.conf.d/", "/usr/bin/dracut", "/usr/lib/dracut/"),
        *("/usr/lib/dracut/modules.d/", "/usr/lib/dracut/modules.d/99base/init.sh"),
        "/usr/lib/kernel/install.d/50-dracut.install",
    ),
    "dracut-config-rescue": ("/usr/lib/kernel/install.d/51-dracut-rescue.install",),
    "memstrack": ("/usr/bin/memstrack",),
    # Not in the profile, but with files in a directory of dracut's.
    "tpm2-tools": ("/usr/lib/dracut/modules.d/91tpm2/module-setup.sh",),
    "kexec-tools": (
        *("/etc/kdump.conf", "/usr/sbin/kexec", "/usr/lib/systemd/system/kdump.service", "/var/crash/"),
        "/var/lib/kdump/",
    ),
    "grub2-common": (
        *("/boot/grub2/", "/boot/grub2/themes/", "/boot/grub2/themes/system/", "?/boot/grub2/grubenv"),
        *("/etc/grub.d/", "/usr/share/grub/", "/usr/lib/kernel/install.d/20-grub.install"),
        "/usr/share/locale/de/LC_MESSAGES/grub.mo",
    ),
    "grub2-tools": (
        *("?/etc/default/grub", "/etc/grub.d/00_header", "/etc/grub.d/40_custom", "/usr/sbin/grub2-install"),
        "/usr/share/grub/grub-mkconfig_lib",
    ),
    "grub2-tools-extra": ("/etc/sysconfig/grub -> ../default/grub",),
    "grub2-pc": ("/boot/loader/entries/", "?/boot/grub2/grub.cfg", "?/etc/grub2.cfg -> ../boot/grub2/grub.cfg"),
    "grub2-pc-modules": ("/usr/lib/grub/i386-pc/linux.mod",),
    "grub2-efi-x64": ("/boot/loader/entries/", "/boot/efi/EFI/redhat/grubx64.efi", "?/boot/efi/EFI/redhat/grub.cfg"),
    "shim-x64": ("/boot/efi/EFI/BOOT/BOOTX64.EFI", "/boot/efi/EFI/redhat/shimx64.efi"),
    "efi-filesystem": ("/boot/efi/", "/boot/efi/EFI/", "/boot/efi/EFI/BOOT/", "/boot/efi/EFI/redhat/"),
    "grubby": ("/usr/sbin/grubby",),
    "mokutil": ("/usr/bin/mokutil",),
    "efibootmgr": ("/usr/sbin/efibootmgr",),
    "os-prober": ("/usr/bin/os-prober", "/var/lib/os-prober/"),
}
ODD = ("%{name}", "[a-z]*.h", "back\\", "it's", "two words")
DEPMOD = ("alias", "alias.bin", "dep", "dep.bin", "devname", "softdep", "symbols", "symbols.bin", "builtin.bin")


def kernel(version: str) -> Mapping[str, Iterable[str]]:
    """The packages of a kernel, as kernel.spec makes them; their paths begin with /lib."""
    name = f"{version}.x86_64"
    modules = f"/lib/modules/{name}"
    return {
        "kernel": (),
        "kernel-core": (
            *(f"?/boot/{file}-{name}" for file in ("vmlinuz", "System.map", "config")),
            *(f"?/boot/.vmlinuz-{name}.hmac", f"?/boot/initramfs-{name}.img", f"?/boot/symvers-{name}.gz"),
            *(f"{modules}/{file}" for file in (".vmlinuz.hmac", "System.map", "config", "symvers.gz", "vmlinuz")),
            *("/lib/modules/", f"{modules}/", f"{modules}/kernel/"),
        ),
        "kernel-modules-core": (
            *(f"?{modules}/modules.{file}" for file in DEPMOD),
            *(f"{modules}/modules.{file}" for file in ("builtin", "builtin.modinfo", "order")),
            *(f"{modules}/kernel/fs/", f"{modules}/kernel/fs/ext4/", f"{modules}/kernel/fs/ext4/ext4.ko.xz"),
            *(f"{modules}/{name}/" for name in ("updates", "weak-updates", "systemtap")),
            f"{modules}/build -> /usr/src/kernels/{name}",
            f"{modules}/source -> build",
        ),
        "kernel-modules": (
            *(f"{modules}/kernel/drivers/", f"{modules}/kernel/drivers/dummy.ko.xz"),
            "/etc/modprobe.d/firewalld-sysctls.conf",
        ),
        "kernel-modules-extra": (f"{modules}/extra/", f"{modules}/extra/net/", f"{modules}/extra/net/can.ko.xz"),
        "kernel-devel": (
            *(f"/usr/src/kernels/{name}/", f"/usr/src/kernels/{name}/Makefile"),
            # The directory of these is not recorded, which RPM allows.
            *(f"/usr/src/kernels/{name}/include/{odd}" for odd in ODD),
        ),
    }


def generated(version: str) -> tuple[str, ...]:
    """What the scripts of the packages leave behind, and no package records."""
    name = f"{version}.x86_64"
    return (
        f"/boot/initramfs-{name}kdump.img",
        f"/boot/loader/entries/{MACHINE}-{name}.conf",
        f"/usr/lib/modules/{name}/modules.weakdep",
    )


GENERATED = (
    f"/boot/vmlinuz-0-rescue-{MACHINE}",
    f"/boot/initramfs-0-rescue-{MACHINE}.img",
    f"/boot/loader/entries/{MACHINE}-0-rescue.conf",
    "/boot/grub2/device.map",
    "/boot/grub2/i386-pc/normal.mod",
    "/boot/grub2/i386-pc/core.img",
    "/boot/grub2/fonts/unicode.pf2",
    "/boot/efi/EFI/redhat/BOOTX64.CSV",
    "/boot/efi/EFI/BOOT/fbx64.efi",
)
#: Links to services, which systemctl made.
WANTS = (
    "/etc/systemd/system/multi-user.target.wants/kdump.service",
    "/etc/systemd/system/multi-user.target.wants/lsyncd.service",
    "/etc/systemd/system/sysinit.target.wants/microcode.service",
)
KEPT_WANTS = "/etc/systemd/system/multi-user.target.wants/own.service"
ADMINISTRATORS = (
    "/boot/grub2/custom.cfg",
    "/etc/grub.d/06_own",
    "/etc/dracut.conf.d/own.conf",
    "/etc/modprobe.d/own.conf",
    "/var/crash/127.0.0.1-2025-01-01-00:00:00/vmcore",
    f"/usr/lib/modules/{NEW}.x86_64/extra/own/akmod.ko.xz",
)


def build(work: Path, packages: Mapping[str, Iterable[str]], version: str) -> list[Path]:
    """The packages, by one run of the real rpmbuild."""
    spec = [
        "Name: source",
        "Version: " + version.partition("-")[0],
        "Release: " + version.partition("-")[2],
        "Summary: source\nLicense: none\nAutoReqProv: no",
        # As they are: no compression of manual pages, no stripping, no looking for build identifiers.
        "%global __os_install_post %{nil}\n%global debug_package %{nil}",
        "%description\nsource\n%install",
    ]
    files = []
    for name, recorded in packages.items():
        files.append(f"%package -n {name}\nSummary: {name}\n%description -n {name}\n{name}\n%files -n {name}")
        for entry in recorded:
            path, _, target = entry.lstrip("?").replace("%", "%%").partition(" -> ")
            make = "mkdir -p" if path.endswith("/") else f"ln -sfn '{target}'" if target else "install -D /dev/null"
            quoted = "'" + path.replace("'", "'\\''") + "'"
            spec.append(f"mkdir -p %{{buildroot}}$(dirname {quoted}); {make} %{{buildroot}}{quoted}")
            kind = ("%ghost " if entry[0] == "?" else "") + ("%dir " if path.endswith("/") else "")
            # Here macros are expanded three times; in quotes nothing else has a meaning.
            files.append(kind + '"' + path.replace("%", "%%%%") + '"')
    (work / "source.spec").write_text("\n".join(spec + files) + "\n")
    shutil.rmtree(work / "RPMS", ignore_errors=True)
    command = [
        "rpmbuild",
        "--quiet",
        "-bb",
        "--target",
        "x86_64",
        "--define",
        f"_topdir {work}",
        str(work / "source.spec"),
    ]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    return sorted((work / "RPMS/x86_64").iterdir())


def install(root: Path, packages: Iterable[Path]) -> None:
    root.mkdir(exist_ok=True)
    command = ["rpm", "--root", str(root), "--dbpath", "/var/lib/rpm", "--install", "--nodeps", "--ignorearch"]
    done = subprocess.run(
        [*command, "--force-debian", *map(str, packages)], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr.strip(), done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with two kernels, and all that their scripts would have made."""
    work = tmp_path_factory.mktemp("red-hat")
    root = work / "root"
    for number, (packages, version) in enumerate(((BASE, "1-1.el9"), (kernel(OLD), OLD), (kernel(NEW), NEW))):
        place = work / str(number)
        place.mkdir()
        install(root, build(place, packages, version))
    recorded = (entry for packages in (BASE, kernel(OLD), kernel(NEW)) for e in packages.values() for entry in e)
    ghosts = [entry[1:] for entry in recorded if entry[0] == "?"]
    for entry in (*ghosts, *GENERATED, *generated(OLD), *generated(NEW), *ADMINISTRATORS):
        path, _, target = entry.partition(" -> ")
        if target:
            make_link(root, os.fsencode(path), os.fsencode(target))
        else:
            make_file(root, os.fsencode(path))
    for path in (*WANTS, KEPT_WANTS):
        make_link(root, os.fsencode(path), b"/usr/lib/systemd/system/" + os.fsencode(path.rpartition("/")[2]))
    weak = f"/usr/lib/modules/{NEW}.x86_64/weak-updates/own.ko"
    make_link(root, os.fsencode(weak), os.fsencode(f"/lib/modules/{OLD}.x86_64/extra/own.ko"))
    return root


@pytest.fixture
def root(installed: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "root"
    shutil.copytree(installed, copy, symlinks=True)
    return copy


def contents(top: Path) -> dict[str, bool]:
    """Every path, and true for a directory; the package database apart."""
    found = {}
    for directory, below, files in os.walk(top):
        for name in below + files:
            path = os.path.join(directory, name)
            if "/var/lib/rpm" not in path:
                found[path[len(str(top)) :]] = os.path.isdir(path) and not os.path.islink(path)
    return found


def left_out(root: Path, target: Path, rules: bytes) -> set[str]:
    """The files that the real rsync does not transfer, and the directories with all of them."""
    (target.parent / "rules").write_bytes(rules)
    command = ["rsync", "-a", f"--exclude-from={target.parent}/rules", f"{root}/", f"{target}/"]
    subprocess.run(command, check=True, timeout=60)
    return set(contents(root)) - set(contents(target))


def usr(path: str) -> str:
    """The path on the file system, where /lib is a symlink."""
    return "/usr" + path if path.startswith("/lib/") else path


def files_of(packages: Mapping[str, Iterable[str]], names: Iterable[str]) -> set[str]:
    entries = {entry.lstrip("?").partition(" -> ")[0] for name in names for entry in packages[name]}
    return {usr(entry) for entry in entries if not entry.endswith("/")}


KEPT = ("filesystem", "setup", "bash", "systemd-udev", "kmod", "kmod-libs", "kernel-headers", "kernel-tools-libs")
KEPT_TOO = ("lsyncd", "tpm2-tools")


def test_the_profile_leaves_out_the_boot_and_nothing_else(root: Path, tmp_path: Path) -> None:
    excludes = exclude_list(root, [], profile="vm-to-container")
    kept = {*KEPT, *KEPT_TOO}
    assert {name.partition(":")[0] for name in excludes.packages} == (set(BASE) | set(kernel(NEW))) - kept
    expected = files_of(BASE, set(BASE) - kept) | set(GENERATED) | set(WANTS)
    for version in (OLD, NEW):
        expected |= files_of(kernel(version), kernel(version)) | set(generated(version))
    there = contents(root)
    gone = left_out(root, tmp_path / "out", render(excludes, "rsync"))
    assert {path for path in gone if not there[path]} == expected
    assert not gone & {*ADMINISTRATORS, KEPT_WANTS, f"/usr/lib/modules/{NEW}.x86_64/weak-updates/own.ko"}
    # A directory is left out only with all that is in it.
    assert not any(path.startswith(top + "/") for top in gone if there[top] for path in set(there) - gone)


def test_the_list_is_short(root: Path) -> None:
    new = f"/usr/lib/modules/{NEW}.x86_64"
    listed = [os.fsdecode(path) for path in exclude_list(root, [], profile="vm-to-container").paths]
    assert [path for path in listed if path.startswith(("/usr/lib/modules", "/usr/src"))] == [
        f"/usr/lib/modules/{OLD}.x86_64",
        *(f"{new}/{name}" for name in (".vmlinuz.hmac", "System.map", "build", "config", "extra/net", "kernel")),
        *(f"{new}/modules.{name}" for name in sorted((*DEPMOD, "builtin", "builtin.modinfo", "order", "weakdep"))),
        *(f"{new}/{name}" for name in ("source", "symvers.gz", "systemtap", "updates", "vmlinuz")),
        *(
            f"/usr/src/kernels/{version}.x86_64/{name}"
            for version in (OLD, NEW)
            for name in ("Makefile", *(f"include/{odd}" for odd in ODD))
        ),
    ]
    assert [path for path in listed if path.startswith("/boot/") and ".el9" not in path] == [
        "/boot/efi",
        "/boot/grub2/device.map",
        "/boot/grub2/fonts",
        "/boot/grub2/grub.cfg",
        "/boot/grub2/grubenv",
        "/boot/grub2/i386-pc",
        "/boot/grub2/themes",
        f"/boot/initramfs-0-rescue-{MACHINE}.img",
        "/boot/loader/entries",
        f"/boot/vmlinuz-0-rescue-{MACHINE}",
    ]
    assert [path for path in listed if path.startswith(("/etc/", "/var/"))] == [
        "/etc/default/grub",
        "/etc/dracut.conf",
        "/etc/grub.d/00_header",
        "/etc/grub.d/40_custom",
        "/etc/grub2.cfg",
        "/etc/kdump.conf",
        "/etc/modprobe.d/firewalld-sysctls.conf",
        "/etc/sysconfig/grub",
        *WANTS,
        "/var/lib/kdump",
        "/var/lib/os-prober",
    ]


def test_a_name_selects_every_version_of_it(root: Path, tmp_path: Path) -> None:
    excludes = exclude_list(root, ["kernel-core"])
    assert excludes.packages == ("kernel-core:x86_64", "kernel-core:x86_64")
    there = contents(root)
    gone = {path for path in left_out(root, tmp_path / "out", render(excludes, "rsync")) if not there[path]}
    expected = {path for path in GENERATED if "-0-rescue" in path}
    for version in (OLD, NEW):
        expected |= files_of(kernel(version), ["kernel-core"]) | set(generated(version)[:2])
    assert gone == expected


def test_a_ghost_is_its_packages_own_unless_another_package_records_it(root: Path) -> None:
    assert b"/boot/grub2/grub.cfg" in exclude_list(root, ["grub2-pc"], keep=[]).paths
    initramfs = f"/boot/initramfs-{NEW}.x86_64.img".encode()
    said = explain(root, initramfs, ["kernel-core"])
    assert said.endswith("is not synced: only the excluded package kernel-core:x86_64 owns it.")
    # What an administrator put in the place of a ghost that is not excluded stays.
    assert b"/etc/default/grub" not in exclude_list(root, ["grub2-pc"]).paths


def test_a_directory_of_two_packages_goes_with_both(root: Path) -> None:
    entries = b"/boot/loader/entries"
    assert entries not in exclude_list(root, ["kernel-core", "grub2-pc"]).paths
    assert entries in exclude_list(root, ["kernel-core", "grub2-pc", "grub2-efi-x64"]).paths


def test_keep_takes_a_package_out_of_the_profile(root: Path) -> None:
    paths = exclude_list(root, [], keep=["linux-firmware", "kernel*"], profile="vm-to-container").paths
    assert b"/usr/lib/firmware/intel-ucode/06-01-00" in paths
    assert not [path for path in paths if path.startswith((b"/usr/lib/modules", b"/usr/src", b"/boot/vmlinuz"))]


def test_a_debug_kernel_has_files_of_its_own(root: Path, tmp_path: Path) -> None:
    name = f"{NEW}.x86_64+debug"
    own = (f"?/boot/initramfs-{name}.img", f"/lib/modules/{name}/vmlinuz")
    install(root, build(tmp_path, {"kernel-debug-core": own}, NEW))
    entry = f"/boot/loader/entries/{MACHINE}-{name}.conf".encode()
    for path in (entry, f"/boot/initramfs-{name}.img".encode()):
        make_file(root, path)
    assert entry in exclude_list(root, ["kernel-*core"]).paths
    # A prefix of its name, but another kernel's.
    paths = exclude_list(root, ["kernel-core"]).paths
    assert entry not in paths
    assert f"/boot/initramfs-{NEW}.x86_64.img".encode() in paths


def test_what_the_query_leaves_behind(root: Path) -> None:
    database = root / "var/lib/rpm"
    for path in database.iterdir():
        if path.name != "rpmdb.sqlite":
            path.unlink()
    before = (database / "rpmdb.sqlite").read_bytes()
    known = contents(root)
    exclude_list(root, ["kernel-core"])
    assert contents(root) == known
    # SQLite's two, empty; no lock, and not a byte in the database.
    assert {path.name for path in database.iterdir()} == {"rpmdb.sqlite", "rpmdb.sqlite-shm", "rpmdb.sqlite-wal"}
    assert (database / "rpmdb.sqlite-wal").stat().st_size == 0
    assert (database / "rpmdb.sqlite").read_bytes() == before


def test_merged_sbin(tmp_path: Path) -> None:
    """Fedora 42: /usr/sbin -> bin, and packages that record either."""
    root = tmp_path / "root"
    install(root, build(tmp_path, {"filesystem": ("/sbin -> usr/bin", "/usr/bin/", "/usr/sbin -> bin")}, "1-1"))
    tools = {"kexec-tools": ("/sbin/kexec", "/usr/sbin/kdumpctl"), "other": ("/usr/bin/other",)}
    install(root, build(tmp_path, tools, "1-1"))
    assert exclude_list(root, ["kexec-tools"]).paths == (b"/usr/bin/kdumpctl", b"/usr/bin/kexec")
    assert json.loads(render(exclude_list(root, ["kexec-tools"]), "json"))[0]["directory"] is False
