"""The image that the lab's VMs are made of, built once and kept."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import initramfs, recipe, rootfs
from .progress import Progress
from .run import LabError, run

DEFAULT_CACHE = Path("/var/cache/vcrecovery-lab")
_UNFINISHED = ".unfinished-"
_PROGRAMS = tuple(Path(__file__).with_name(name) for name in ("image.py", "rootfs.py", "initramfs.py", "cpio.py"))


@dataclass(frozen=True)
class Image:
    """A whole image; nothing in it is ever changed."""

    rootfs: Path
    disk: Path
    kernel: Path
    initrd: Path
    ssh_key: Path


def ensure_image(cache: Path, progress: Progress, contents: recipe.Recipe | None = None) -> Image:
    """Return the image by a recipe (the lab's); build it if the cache does not hold it, and drop all others there."""
    cache.mkdir(parents=True, exist_ok=True)
    contents = contents or recipe.Recipe()
    directory = cache / contents.digest(*_PROGRAMS)[:12]
    with _locked(cache, progress):
        if not directory.exists():
            _remove_all(cache)
            build = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=cache))
            try:
                _build(_image(build), contents, progress)
            except BaseException:
                shutil.rmtree(build, ignore_errors=True)
                raise
            # The hypervisor runs as another user, and opens the kernel by its path.
            build.chmod(0o755)
            build.rename(directory)
    return _image(directory)


def _image(directory: Path) -> Image:
    return Image(
        rootfs=directory / "rootfs",
        disk=directory / "disk.img",
        kernel=directory / "vmlinuz",
        initrd=directory / "initrd.img",
        ssh_key=directory / "id_ed25519",
    )


def _build(image: Image, contents: recipe.Recipe, progress: Progress) -> None:
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "vcrecovery-lab", "-f", image.ssh_key], timeout=30)
    public_key = image.ssh_key.with_suffix(".pub").read_text()
    image.rootfs.mkdir()
    rootfs.build_rootfs(image.rootfs, contents, public_key, progress)
    kernels = list(image.rootfs.glob("boot/vmlinuz-*"))
    if len(kernels) != 1:
        raise LabError(f"image: {len(kernels)} kernels where one is expected")
    # Copies: libvirt gives the files that it boots from to the user of the hypervisor.
    shutil.copyfile(kernels[0], image.kernel)
    modules = image.rootfs / "lib/modules" / kernels[0].name.removeprefix("vmlinuz-")
    image.initrd.write_bytes(initramfs.boot_initramfs(modules))
    with progress("image: disk (about 5 s)"):
        make_disk(image.rootfs, image.disk, contents.disk_mib)


def make_disk(tree: Path, disk: Path, size_mib: int) -> None:
    """Make a sparse ext4 file system with the contents of a directory tree."""
    with disk.open("wb") as file:
        os.truncate(file.fileno(), size_mib << 20)
    # A new sparse file reads as zeros: the guest's kernel need not write the inode tables anew. Without checksums
    # over its metadata the file system costs an emulated CPU less.
    options = ("-m", "0", "-J", "size=16", "-O", "^metadata_csum", "-E", "assume_storage_prezeroed=1")
    run(["mkfs.ext4", "-q", "-F", "-L", "root", *options, "-d", tree, disk], timeout=300)


@contextmanager
def _locked(cache: Path, progress: Progress) -> Iterator[None]:
    with (cache / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress("image: waiting for another process that builds it"):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove_all(cache: Path) -> None:
    for path in cache.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
