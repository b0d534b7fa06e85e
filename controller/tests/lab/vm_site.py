"""What the tests of sites with a secondary in a VM have in common."""

from __future__ import annotations

import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vcrecovery_lab import libvirt, machine
from vcrecovery_lab.secondary_vm.site import uuid_of

from .conftest import Lab


@contextmanager
def folder_for_vms(lab: Lab) -> Iterator[Path]:
    """Not below pytest's folders, which QEMU's user cannot enter."""
    with tempfile.TemporaryDirectory(dir=lab.layout.machines, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@contextmanager
def vm_that_is_off(domain: str, name: str) -> Iterator[None]:
    """The primary of `name`: known to libvirt, and off."""
    machine.create_blank(domain, uuid_of(name))
    libvirt.destroy(domain)
    yield
    machine.destroy_and_undefine_blank(domain)


def page_of(address: str) -> bytes:
    """Of the standby with that address, whatever proxy this machine has."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{address}/", timeout=60) as answer:
        return bytes(answer.read())
