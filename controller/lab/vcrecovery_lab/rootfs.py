"""Builds the directory tree of a Debian system by a recipe."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from .mirror import debian_mirror, proxy_environment
from .progress import Progress
from .recipe import Recipe
from .run import LabError, run

# debootstrap mounts /proc: in a namespace of its own the mount, and all processes, go with it however it ends.
_CONTAINED = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child")
_LEFTOVERS = ("var/cache/apt", "var/lib/apt/lists", "var/log", "usr/share/man", "usr/share/info", "usr/share/locale")


def build_rootfs(root: Path, recipe: Recipe, public_key: str, progress: Progress) -> None:
    """Install the recipe's packages and files into the new directory `root`."""
    mirror, env = debian_mirror(), proxy_environment()
    _write(root, {name: text for name, text in recipe.early_files.items() if name.startswith("etc/dpkg/")})
    with progress("image: debootstrap (about 30 s)"):
        options = ("--variant=minbase", "--components=main")
        run([*_CONTAINED, "debootstrap", *options, recipe.suite, root, mirror], timeout=1200, env=env)
    _write(root, recipe.early_files)
    with progress("image: packages (about 15 s)"):
        _install(root, recipe.packages, env)
    _configure(root, recipe, public_key)
    _tidy(root)


def _install(root: Path, packages: tuple[str, ...], env: dict[str, str]) -> None:
    """Install with the new system's own apt: it resolves dependencies far quicker than debootstrap."""
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    apt = ("apt-get", "-qq", "--yes", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold")
    env = {**env, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    run([*_CONTAINED, "chroot", root, *apt, "install", *packages], timeout=1200, env=env)
    policy.unlink()


def _configure(root: Path, recipe: Recipe, public_key: str) -> None:
    _write(root, recipe.files)
    for name in recipe.removed:
        (root / name).unlink()
    run([*_CONTAINED, "chroot", root, "systemctl", "--quiet", "disable", *recipe.disabled_services], timeout=60)
    if recipe.masked_units:
        run(["systemctl", "--quiet", f"--root={root}", "mask", *recipe.masked_units], timeout=60)
    _write(root, {"root/.ssh/authorized_keys": public_key})
    (root / "root/.ssh").chmod(0o700)
    if not list((root / "etc/ssh").glob("ssh_host_*_key")):
        raise LabError("image: openssh-server came without host keys")


def _tidy(root: Path) -> None:
    """Remove what only the installation needed, and give all files mtimes that an ext4 image can repeat."""
    for name in _LEFTOVERS:
        for directory, _, files in os.walk(root / name):
            for file in files:
                (Path(directory) / file).unlink()
    for directory in ("usr/share/locale", "usr/share/man", "usr/share/info"):
        shutil.rmtree(root / directory)
        (root / directory).mkdir()
    # mke2fs -d copies whole seconds only.
    for directory, directories, files in os.walk(root, topdown=False):
        for name in (*directories, *files):
            _drop_nanoseconds(Path(directory) / name)
    _drop_nanoseconds(root)


def _drop_nanoseconds(path: Path) -> None:
    status = path.lstat()
    times = (status.st_atime_ns // 10**9 * 10**9, status.st_mtime_ns // 10**9 * 10**9)
    os.utime(path, ns=times, follow_symlinks=False)


def _write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # A new file: the old one can be a link, or have another mode.
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(0o644)
