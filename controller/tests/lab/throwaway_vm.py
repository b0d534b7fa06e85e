"""A VM that shows this machine's files, read-only, runs one command and is gone: for what only its kernel can."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from vcrecovery_lab import cpio, initramfs
from vcrecovery_lab.image import Image

from .waiting import wait_for

_VIRTIOFSD = "/usr/lib/qemu/virtiofsd"
_INIT = """#!/bin/busybox sh
export PATH=/bin
busybox mount -t devtmpfs dev /dev
while read -r module; do busybox insmod "/modules/$module"; done </modules/order
busybox mount -t virtiofs -o ro host /root || busybox poweroff -f
busybox mount -o move /dev /root/dev
busybox mount -t proc proc /root/proc
busybox mount -t sysfs sys /root/sys
for place in tmp run var/tmp; do busybox mount -t tmpfs tmp /root/$place; done
busybox ip link set lo up
busybox chroot /root /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C.UTF-8 \\
  PYTHONDONTWRITEBYTECODE=1 sh -c {command}
echo "vcrt-status-$?-end"
busybox poweroff -f
"""


def run_in_vm(image: Image, command: str, modules: Sequence[str], folder: Path, timeout: float) -> tuple[int, str]:
    """The command's exit status (-1 if it has not ended in time) and what the VM printed."""
    initrd = folder / "initrd"
    initrd.write_bytes(_initramfs(image, command, ("virtio_pci", "virtiofs", *modules)))
    socket, files = folder / "files.sock", folder / "files"
    files.mkdir()
    console = folder / "console"
    # Read-only for the host too, whatever the VM tries; the mount ends with the server.
    script = 'mount --bind / "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    serve = [
        _VIRTIOFSD,
        f"--socket-path={socket}",
        "-o",
        f"source={files}",
        "-o",
        "cache=always",
        "-o",
        "sandbox=chroot",
    ]
    qemu = [
        "qemu-system-x86_64", "-accel", "tcg", "-cpu", "Nehalem,rdrand=on", "-smp", "2", "-m", "1024",
        "-object", "memory-backend-memfd,id=memory,size=1G,share=on", "-numa", "node,memdev=memory",
        "-chardev", f"socket,id=files,path={socket}", "-device", "vhost-user-fs-pci,chardev=files,tag=host",
        "-kernel", str(image.kernel), "-initrd", str(initrd),
        "-append", "console=ttyS0 loglevel=1 panic=-1 no_timer_check",
        "-nodefaults", "-display", "none", "-serial", f"file:{console}", "-no-reboot",
    ]  # fmt: skip
    log = (folder / "log").open("wb")
    with (
        log,
        subprocess.Popen(["unshare", "--mount", "sh", "-c", script, files, *serve], stdout=log, stderr=log) as server,
    ):
        try:
            wait_for(socket.exists, f"virtiofsd's socket (see {folder}/log)")
            subprocess.run(qemu, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            pass
        finally:
            server.kill()
    printed = console.read_text(errors="replace")
    status = re.search(r"vcrt-status-(\d+)-end", printed)
    return int(status[1]) if status else -1, printed


def _initramfs(image: Image, command: str, wanted: Sequence[str]) -> bytes:
    (modules,) = (image.rootfs / "lib/modules").iterdir()
    names = initramfs.load_order((modules / "modules.dep").read_text(), wanted)
    busybox = Path("/bin/busybox").read_bytes()
    return cpio.archive(
        [
            *(cpio.directory(name) for name in ("bin", "dev", "root", "modules")),
            cpio.file("bin/busybox", busybox, 0o755),
            cpio.character_device("dev/console", 5, 1),
            cpio.file("init", _INIT.format(command=shlex.quote(command)).encode(), 0o755),
            cpio.file("modules/order", "".join(f"{Path(name).name}\n" for name in names).encode()),
            *(cpio.file(f"modules/{Path(name).name}", (modules / name).read_bytes()) for name in names),
        ]
    )
