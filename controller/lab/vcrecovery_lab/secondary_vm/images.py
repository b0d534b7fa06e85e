"""The two images: what the services' VMs boot and their standbys hold, and the machine that runs LXD."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from vcrecovery_lab.image import DEFAULT_CACHE, Image, ensure_image, make_disk
from vcrecovery_lab.layout import CHECKOUT
from vcrecovery_lab.progress import Progress
from vcrecovery_lab.recipe import Recipe
from vcrecovery_lab.run import run

#: Which service a machine has is told by its name, so that all have the same files.
_BY_NAME = "[Unit]\nConditionHost=*{}*\n"
_BASE = Recipe()
#: What the lab's image leaves out is most of what a VM does at its boot and a container does not.
_LEFT_OUT = ("etc/systemd/system/systemd-udev-trigger.service.d/lab.conf", "etc/systemd/journald.conf.d/lab.conf")

SERVICES = replace(
    _BASE,
    disk_mib=2500,
    packages=(*_BASE.packages, "cron", "logrotate", "systemd-timesyncd", "mariadb-server"),
    files={
        **{path: text for path, text in _BASE.files.items() if path not in _LEFT_OUT},
        "etc/systemd/system/nginx.service.d/lab.conf": _BY_NAME.format("web"),
        "etc/systemd/system/mariadb.service.d/lab.conf": _BY_NAME.format("db"),
        # Nobody has to wait for a name server that is not there.
        "etc/mysql/mariadb.conf.d/90-lab.cnf": "[mysqld]\nbind-address = 0.0.0.0\nskip-name-resolve\n",
    },
    masked_units=(),
)

#: The machine's card is a port of the bridge that the standbys are on: they are in the same network as the VMs.
INTERFACES = """\
auto lo
iface lo inet loopback

auto eth0
iface eth0 inet manual
    pre-up ip link add br0 type bridge
    up ip link set eth0 master br0 up

auto br0
iface br0 inet static
    address {address}
"""
#: What the role `secondary` installs there.
_UDEV_RULES = "99-vcrecovery.rules"
SECONDARY = replace(
    _BASE,
    disk_mib=6000,
    # lxcfs, which LXD requires, is a file system of FUSE.
    files={**_BASE.files, "etc/modules-load.d/lab.conf": "button\nfuse\n"},
    packages=(*_BASE.packages, "lxd", "lxd-client"),
    disabled_services=("lsyncd", "nginx"),
)


def services_image(progress: Progress) -> Image:
    """Debian as installed, with nginx and MariaDB; `web` or `db` in a machine's name says which of them starts."""
    return ensure_image(DEFAULT_CACHE.with_name("vcrecovery-lab-services"), progress, SERVICES)


def secondary_image(progress: Progress) -> Image:
    """Debian's LXD on the lab's system."""
    return ensure_image(DEFAULT_CACHE.with_name("vcrecovery-lab-secondary"), progress, SECONDARY)


def disk_with_trees(
    image: Image, folder: Path, trees: Mapping[str, Path], finish: Callable[[str, Path], None]
) -> Image:
    """The image with a disk in `folder` that holds copies of `trees` in /srv, each finished by `finish(name, copy)`."""
    disk = folder / "with-trees.img"
    with tempfile.TemporaryDirectory(prefix="vcrlab-trees-", dir=folder) as scratch:
        whole = Path(scratch) / "root"
        run(["cp", "-a", image.rootfs, whole], timeout=300)
        shutil.copy(CHECKOUT / "roles/secondary/files" / _UDEV_RULES, whole / "etc/udev/rules.d")
        for name, tree in trees.items():
            copy = whole / "srv" / name
            run(["cp", "-a", tree, copy], timeout=300)
            shutil.rmtree(copy / "boot")
            shutil.rmtree(copy / "usr/lib/modules")
            finish(name, copy)
        make_disk(whole, disk, SECONDARY.disk_mib)
    return replace(image, disk=disk)
