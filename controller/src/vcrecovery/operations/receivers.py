"""The receiver beside a secondary's LXD: whether it tells VMs what a controller on another machine wants of them."""

from __future__ import annotations

from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.drivers.lxd.resources import TELLS_ORDERS


def deaf_receiver(lxd: LxdServer) -> str:
    """Why it does not; empty when it does, as each of this machine. Raises ExternalError when LXD does not answer."""
    if lxd.is_here or lxd.receiver_can(TELLS_ORDERS):
        return ""
    return (
        f"the receiver on secondary {lxd.name} is of an older version, and VMs cannot fetch from it at the word of a "
        "controller on another machine: run `playbooks/standby.yml`"
    )
