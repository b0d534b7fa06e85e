"""What containers that stand for machines are made of: a system as it is installed, with systemd and Python."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import recipe
from .image import DEFAULT_CACHE
from .mirror import debian_mirror, proxy_environment
from .progress import Progress
from .recipe import Recipe

# Its bytes name the cache of the VMs' image, so its parts are taken as they are.
from .rootfs import _CONTAINED, _configure, _install, _tidy, _write
from .run import LabError, run
from .systems import System

CACHE = DEFAULT_CACHE.with_name("vcrecovery-lab-systems")
_KEY = CACHE / "id_ed25519"
_PROGRAMS = tuple(Path(__file__).with_name(name) for name in ("containers.py", "rootfs.py"))
_USUAL = recipe.Recipe()
_METADATA = "architecture: x86_64\ncreation_date: 1\nproperties: {description: a system with systemd and Python}\n"
_DEBOOTSTRAP = Path("/usr/share/debootstrap")
#: What debootstrap's script for all of Ubuntu checks the archive by.
_UBUNTU_KEYS = Path("/usr/share/keyrings/ubuntu-archive-keyring.gpg")


def machine(system: System) -> Recipe:
    """A machine whose card gets its address from LXD. Molecule says whom it asks for names."""
    return Recipe(
        suite=system.suite,
        packages=(
            *("systemd", "systemd-sysv", "dbus", "udev", "iproute2", "netbase", "procps", "openssh-server"),
            # Ansible's rehearsals need the second.
            *("python3", "python3-apt"),
        ),
        early_files={"etc/dpkg/dpkg.cfg.d/lab": _USUAL.early_files["etc/dpkg/dpkg.cfg.d/lab"]},
        files={
            "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
            "etc/machine-id": "uninitialized\n",
            "etc/resolv.conf": "",
            "etc/default/locale": "LANG=C.UTF-8\n",
            **recipe.KEEPS_BYTECODE,
            "etc/systemd/network/eth0.network": "[Match]\nName=eth0\n\n[Network]\nDHCP=ipv4\n",
            "etc/systemd/system-preset/00-lab.preset": "enable systemd-networkd.service\n",
        },
        removed=(),
        disabled_services=("e2scrub_reap",),
        # The first is the kernel's, of which containers have none of their own; the timers would work beside Ansible.
        masked_units=("systemd-binfmt.service", "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer"),
    )


@dataclass(frozen=True)
class MachineImage:
    """`archive` is what `lxc image import` takes; root of all containers, of whatever system, lets `ssh_key` in."""

    archive: Path
    ssh_key: Path


def ensure_machine_image(system: System, progress: Progress) -> MachineImage:
    """It is built if the cache does not hold it, and that system's others there go."""
    contents = machine(system)
    CACHE.mkdir(parents=True, exist_ok=True)
    kept = CACHE / f"{system.name}-{contents.digest(*_PROGRAMS)[:12]}"
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _KEY.exists():
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "vcrecovery-lab", "-f", _KEY], timeout=30)
        if not kept.exists():
            for old in CACHE.glob(f"{system.name}-*"):
                shutil.rmtree(old)
            scratch = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=CACHE))
            try:
                _build(_image(scratch), system, contents, progress)
                scratch.rename(kept)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return _image(kept)


def _image(folder: Path) -> MachineImage:
    return MachineImage(archive=folder / "image.tar", ssh_key=_KEY)


def _build(image: MachineImage, system: System, contents: Recipe, progress: Progress) -> None:
    folder = image.archive.parent
    root = folder / "rootfs"
    root.mkdir()
    _write(root, contents.early_files)
    with progress(f"image: {system.name} (about a minute)"):
        _debootstrap(root, system)
        _install(root, contents.packages, proxy_environment())
    _configure(root, contents, image.ssh_key.with_suffix(".pub").read_text())
    _tidy(root)
    run(["systemctl", "--quiet", f"--root={root}", "preset", "systemd-networkd.service"], timeout=60)
    (folder / "metadata.yaml").write_text(_METADATA)
    tar = ("tar", "--numeric-owner", "--xattrs", "--directory", folder, "--create", "--file", image.archive)
    run([*tar, "metadata.yaml", "rootfs"], timeout=300)
    shutil.rmtree(root)


def _debootstrap(root: Path, system: System) -> None:
    """Ubuntu with two components and its updates; Molecule gives Debian's machines the archives of this machine."""
    words = [*_CONTAINED, "debootstrap", "--variant=minbase"]
    if system.is_debian:
        run([*words, "--components=main", system.suite, root, debian_mirror()], timeout=1200, env=proxy_environment())
        return
    if not _UBUNTU_KEYS.exists():
        raise LabError(f"image: {_UBUNTU_KEYS} is not there; install Debian 13's package ubuntu-archive-keyring")
    # One script is for all of Ubuntu, and an old debootstrap does not know the new names.
    scripts = root.with_name("debootstrap")
    shutil.copytree(_DEBOOTSTRAP, scripts, symlinks=True)
    if not (script := scripts / "scripts" / system.suite).exists():
        script.symlink_to("gutsy")
    env = {**proxy_environment(), "DEBOOTSTRAP_DIR": str(scripts)}
    run([*words, "--components=main,universe", system.suite, root], timeout=1200, env=env)
    shutil.rmtree(scripts)
    sources = root / "etc/apt/sources.list"
    _, address, *_ = sources.read_text().split()
    suites = (system.suite, f"{system.suite}-updates", f"{system.suite}-security")
    _write(root, {"etc/apt/sources.list": "".join(f"deb {address} {suite} main universe\n" for suite in suites)})
    run([*_CONTAINED, "chroot", root, "apt-get", "-qq", "update"], timeout=300, env=proxy_environment())
