"""A real libvirtd of root's, beside the system's: its VMs may be on bridges of this machine, with disks in a pool."""

from __future__ import annotations

import shlex
from pathlib import Path

from .private_libvirt import PrivateLibvirt

POOL = "vms"
_PLACES = {"/run/libvirt": "run/libvirt", "/etc/libvirt": "etc"} | {
    f"/var/{name}/libvirt": name for name in ("lib", "cache", "log")
}
#: What is the system's, and not of one's own in a mount namespace. Root's QEMU may read whatever is in the folder.
_SETTINGS = """\
user = "root"
group = "root"
namespaces = []
cgroup_controllers = []
security_driver = "none"
stdio_handler = "file"
"""


class PrivateHypervisor(PrivateLibvirt):
    """With the pool POOL, once that was made."""

    @property
    def uri(self) -> str:
        return f"qemu:///system?socket={self.socket}"

    @property
    def pool(self) -> Path:
        return self.folder / "pool"

    @property
    def pid_files(self) -> Path:
        return self.folder / "run/libvirt/qemu"

    def lay_out(self) -> None:
        for place in (*_PLACES.values(), "pool"):
            (self.folder / place).mkdir(parents=True)
        (self.folder / "etc/qemu.conf").write_text(_SETTINGS)

    def command(self) -> list[str]:
        """Its places are fixed when libvirt is built: it finds its own there."""
        binds = [
            f"mkdir -p {there} && mount --bind {shlex.quote(str(self.folder / own))} {there} && "
            for there, own in _PLACES.items()
        ]
        script = f"{''.join(binds)} exec libvirtd --pid-file /run/libvirt/libvirtd.pid"
        return ["unshare", "--mount", "sh", "-c", script]

    def environment(self) -> dict[str, str]:
        return {}

    def make_pool(self) -> None:
        """It is active whenever libvirtd runs."""
        self.virsh("pool-define-as", POOL, "dir", "--target", str(self.pool))
        self.virsh("pool-autostart", POOL)
        self.virsh("pool-start", POOL)

    def volumes(self) -> set[str]:
        return {path.name for path in self.pool.iterdir()}
