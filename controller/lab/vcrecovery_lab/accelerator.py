"""Finds out whether the lab's machines can run with KVM here."""

from __future__ import annotations

import hashlib
import json
import os
import selectors
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Literal

from .domain import Accelerator
from .image import Image
from .initramfs import TRIAL_MARKER, trial_initramfs
from .run import LabError

_TRIAL_SECONDS = 15.0
_CPU = {"kvm": "host", "tcg": "max"}


def accelerator(image: Image, cache: Path) -> Accelerator:
    """Say "kvm" only if the image's kernel has come up under it since this machine was started."""
    if not Path("/dev/kvm").exists():
        return "qemu"
    key = {
        "kernel": hashlib.sha256(image.kernel.read_bytes()).hexdigest(),
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
    }
    verdict = cache / "accelerator.json"
    try:
        known = json.loads(verdict.read_text())
    except (OSError, ValueError):
        known = {}
    if {name: known.get(name) for name in key} != key:
        known = {**key, "kvm": trial_boot(image.kernel, "kvm", _TRIAL_SECONDS)}
        temporary = verdict.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(known))
        temporary.replace(verdict)
    return "kvm" if known["kvm"] else "qemu"


def trial_boot(kernel: Path, accel: Literal["kvm", "tcg"], seconds: float) -> bool:
    """Boot the kernel with an initramfs that only prints a marker, and say whether it came in time."""
    with tempfile.TemporaryDirectory(prefix="vcrlab-trial-") as directory:
        initrd = Path(directory) / "initrd.img"
        initrd.write_bytes(trial_initramfs())
        # Where KVM does not work, QEMU may well abort.
        command = ["prlimit", "--core=0", "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none"]
        command += ["-machine", f"q35,accel={accel}", "-cpu", _CPU[accel], "-smp", "2", "-m", "256"]
        command += ["-no-reboot", "-serial", "stdio", "-kernel", str(kernel), "-initrd", str(initrd)]
        command += ["-append", "console=ttyS0 panic=-1 mitigations=off no_timer_check quiet"]
        return _prints(command, TRIAL_MARKER.encode(), seconds)


def _prints(command: list[str], marker: bytes, seconds: float) -> bool:
    """Run a command until it prints the marker, ends, or its time is up; then it is killed."""
    null = subprocess.DEVNULL
    try:
        process = subprocess.Popen(command, stdin=null, stdout=subprocess.PIPE, stderr=null, bufsize=0)
    except OSError as error:
        raise LabError(f"{command[0]}: {error.strerror}") from error
    with process, selectors.DefaultSelector() as selector:
        assert process.stdout is not None
        selector.register(process.stdout, selectors.EVENT_READ)
        output, deadline = b"", time.monotonic() + seconds
        try:
            while marker not in output and (left := deadline - time.monotonic()) > 0:
                if selector.select(left):
                    chunk = process.stdout.read(4096)
                    if not chunk:
                        break
                    output += chunk
        finally:
            process.kill()
    return marker in output
