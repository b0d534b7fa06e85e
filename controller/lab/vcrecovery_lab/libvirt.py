"""The few things that the lab asks of libvirt, by virsh."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from .domain import METADATA_NAMESPACE
from .run import LabError, run

_URI = "qemu:///system"
_PID_DIRECTORIES = (Path("/run/libvirt/qemu"), Path("/var/run/libvirt/qemu"))

State = Literal["absent", "off", "running"]


def state(name: str) -> State:
    """Whether a domain is defined, and whether it has a hypervisor process."""
    if name not in _virsh("list", "--all", "--name").split():
        return "absent"
    return "off" if _virsh("domstate", name).strip() == "shut off" else "running"


def signature(name: str) -> str:
    """The hash that the lab put into the domain's definition; a domain without one is not the lab's."""
    tree = ElementTree.fromstring(_virsh("dumpxml", "--inactive", name))  # noqa: S314 -- libvirt's own output
    element = tree.find(f"metadata/{{{METADATA_NAMESPACE}}}domain")
    if element is None:
        raise LabError(f"libvirt: the domain {name} exists, and was not made by the lab")
    return element.get("sha256", "")


def define(xml: str) -> None:
    """Define a domain, or change its definition."""
    with tempfile.NamedTemporaryFile("w", suffix=".xml", prefix="vcrlab-") as file:
        file.write(xml)
        file.flush()
        _virsh("define", file.name)


def start(name: str) -> None:
    """Start a defined domain."""
    _virsh("start", name)


def suspend(name: str) -> None:
    """Stop its CPUs; its memory stays."""
    _virsh("suspend", name)


def resume(name: str) -> None:
    """Let the CPUs of a suspended domain go on."""
    _virsh("resume", name)


def managed_save(name: str) -> None:
    """Put its memory on disk and end it; its next start goes on from there."""
    _virsh("managedsave", name)


def destroy(name: str) -> None:
    """Stop the domain at once; one that is off is no error."""
    if state(name) == "running":
        _virsh("destroy", name)


def remove(name: str) -> None:
    """Stop the domain at once and forget it; one that is not there is no error."""
    present = state(name)
    if present != "absent":
        signature(name)
        if present == "running":
            # It may have ended by itself meanwhile; if it has not, to undefine it would leave it without a definition.
            failure = _virsh("destroy", name, check=False)
            if state(name) == "running":
                raise LabError(f"libvirt: the domain {name} does not stop: {failure.strip()}")
        # With what a managed save left on disk, without which libvirt would refuse.
        _virsh("undefine", "--managed-save", name)


def pid(name: str, uuid: str) -> int | None:
    """The process id of the domain's hypervisor if it lives."""
    for directory in _PID_DIRECTORIES:
        try:
            number = int((directory / f"{name}.pid").read_text())
            command = Path(f"/proc/{number}/cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if uuid.encode() in command:
            return number
    return None


def _virsh(*words: str, check: bool = True) -> str:
    # The first definition after an installation waits for libvirt to find out what QEMU can do.
    done = run(["virsh", "--quiet", "-c", _URI, *words], timeout=180, env={"LC_ALL": "C"}, check=check)
    return done.stderr if done.returncode else done.stdout
