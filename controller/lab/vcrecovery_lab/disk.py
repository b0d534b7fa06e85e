"""The disks of the lab's machines: copies of the image's, each with a name and an address of its own."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

from .run import LabError, run


def copy_disk(base: Path, disk: Path, files: Mapping[str, str]) -> None:
    """Copy a raw ext4 image, and replace files in the copy; `disk` exists only once it is whole."""
    unfinished = disk.with_name(f"{disk.name}.unfinished")
    run(["cp", "--sparse=auto", "--reflink=auto", base, unfinished], timeout=300)
    _replace_files(unfinished, files)
    unfinished.replace(disk)


def identity(name: str, uuid: str, address: str, prefix: int, gateway: str) -> dict[str, str]:
    """The files that tell one machine from another, by their paths in the guest."""
    interfaces = (
        "auto lo\niface lo inet loopback\n\n"
        f"auto eth0\niface eth0 inet static\n    address {address}/{prefix}\n    gateway {gateway}\n"
    )
    return {
        "/etc/hostname": f"{name}\n",
        "/etc/hosts": f"127.0.0.1 localhost\n::1 localhost\n{address} {name}\n",
        "/etc/machine-id": f"{hashlib.sha256(uuid.encode()).hexdigest()[:32]}\n",
        "/etc/network/interfaces": interfaces,
        "/var/www/html/index.html": f"<!DOCTYPE html>\n<title>{name}</title>\n<h1>{name}</h1>\n",
    }


def _replace_files(disk: Path, files: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory(prefix="vcrlab-disk-") as directory:
        commands = []
        for number, (path, text) in enumerate(files.items()):
            source = Path(directory) / str(number)
            source.write_text(text)
            source.chmod(0o644)
            commands += [f"rm {path}", f"write {source} {path}"]
        script = Path(directory) / "commands"
        script.write_text("\n".join([*commands, ""]))
        errors = run(["debugfs", "-w", "-f", script, disk], timeout=60).stderr.splitlines()
    # debugfs ends with status 0 whatever happens; the first line it writes there is its version.
    if len(errors) > 1:
        raise LabError(f"disk: debugfs: {errors[1]}")
