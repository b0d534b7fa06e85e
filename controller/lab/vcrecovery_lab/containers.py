"""What containers that stand for machines are made of: Debian as it is installed, with systemd and Python."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import recipe, rootfs
from .image import DEFAULT_CACHE
from .progress import Progress
from .recipe import Recipe
from .run import run

CACHE = DEFAULT_CACHE.with_name("vcrecovery-lab-machines")
_PROGRAMS = tuple(Path(__file__).with_name(name) for name in ("containers.py", "rootfs.py"))
_USUAL = recipe.Recipe()
_METADATA = "architecture: x86_64\ncreation_date: 1\nproperties: {description: Debian with systemd and Python}\n"


def machine(name_server: str) -> Recipe:
    """A machine whose card gets its address from LXD, and that asks `name_server` for names."""
    return Recipe(
        packages=(
            *("systemd", "systemd-sysv", "dbus", "udev", "iproute2", "netbase", "procps", "openssh-server"),
            # Ansible's rehearsals need the second.
            *("python3", "python3-apt"),
        ),
        early_files={"etc/dpkg/dpkg.cfg.d/lab": _USUAL.early_files["etc/dpkg/dpkg.cfg.d/lab"]},
        files={
            "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
            "etc/machine-id": "uninitialized\n",
            "etc/resolv.conf": f"nameserver {name_server}\n",
            "etc/default/locale": "LANG=C.UTF-8\n",
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
    """`archive` is what `lxc image import` takes; root of all its containers lets `ssh_key` in."""

    archive: Path
    ssh_key: Path


def ensure_machine_image(name_server: str, progress: Progress) -> MachineImage:
    """It is built if the cache does not hold it, and others there go."""
    contents = machine(name_server)
    CACHE.mkdir(parents=True, exist_ok=True)
    kept = CACHE / contents.digest(*_PROGRAMS)[:12]
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            for old in CACHE.iterdir():
                if old.is_dir():
                    shutil.rmtree(old)
            scratch = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=CACHE))
            try:
                _build(_image(scratch), contents, progress)
                scratch.rename(kept)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return _image(kept)


def _image(folder: Path) -> MachineImage:
    return MachineImage(archive=folder / "image.tar", ssh_key=folder / "id_ed25519")


def _build(image: MachineImage, contents: Recipe, progress: Progress) -> None:
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "vcrecovery-lab", "-f", image.ssh_key], timeout=30)
    folder = image.archive.parent
    root = folder / "rootfs"
    root.mkdir()
    rootfs.build_rootfs(root, contents, image.ssh_key.with_suffix(".pub").read_text(), progress)
    run(["systemctl", "--quiet", f"--root={root}", "preset", "systemd-networkd.service"], timeout=60)
    (folder / "metadata.yaml").write_text(_METADATA)
    tar = ("tar", "--numeric-owner", "--xattrs", "--directory", folder, "--create", "--file", image.archive)
    run([*tar, "metadata.yaml", "rootfs"], timeout=300)
    shutil.rmtree(root)
