"""How old a standby's files are: the primary stamps a marker file, and its newest copy here is read.

So the lag is measured over the whole way, whether anything else changed on the primary or not.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from vcrecovery.drivers.clock import Clock
from vcrecovery.drivers.lxd import LxdServer
from vcrecovery.errors import OutsideError
from vcrecovery.plan.model import Secondary
from vcrecovery.sync.rootfs import Rootfs

HEARTBEAT = "/var/lib/vcrecovery/heartbeat"


@dataclass(frozen=True)
class Freshness:
    """`stamped_at`: when the newest state that arrived was stamped, by the primary's clock; None when none has."""

    stamped_at: float | None
    detail: str = ""


def read_freshness(lxd: LxdServer, service: str, secondary: Secondary) -> Freshness:
    """Raises OutsideError when LXD has to be asked and does not answer."""
    rootfs = lxd.rootfs(secondary.storage_pool, service)
    here = os.access(rootfs, os.R_OK | os.X_OK)
    content = Rootfs(rootfs, []).read(HEARTBEAT) if here else lxd.file(service, HEARTBEAT)
    if content is None:
        return Freshness(None, f"no heartbeat has arrived in {service} yet")
    try:
        stamp = float(content.decode("ascii").strip())
        if not math.isfinite(stamp):
            raise ValueError(stamp)
    except (UnicodeDecodeError, ValueError):
        return Freshness(None, f"the heartbeat in {service} is no time")
    return Freshness(stamp)


def read_freshness_quietly(lxd: LxdServer, service: str, secondary: Secondary) -> Freshness:
    """The same, with a server that does not answer as the detail."""
    try:
        return read_freshness(lxd, service, secondary)
    except OutsideError as error:
        return Freshness(None, error.message)


def wait_for_sync(lxd: LxdServer, service: str, secondary: Secondary, clock: Clock, timeout: float) -> float:
    """Waits until two new stamps have arrived, one after the other; the newest one's age in seconds.

    The first can come in the middle of a full sync, before files that are sent later. lsyncd sends the second only
    when that full sync has ended. Raises OutsideError after `timeout` seconds.
    """
    deadline = clock.now() + timeout
    stamps: list[float | None] = [read_freshness(lxd, service, secondary).stamped_at]
    while len(stamps) < 3:
        if clock.now() > deadline:
            raise OutsideError(
                f"no sync of {service} has ended within {timeout:.0f} s",
                "look at `journalctl -u vcrecovery-sync` on the primary",
            )
        clock.sleep(0.2)
        stamp = read_freshness(lxd, service, secondary).stamped_at
        if stamp is not None and stamp != stamps[-1]:
            stamps.append(stamp)
    return max(0.0, clock.now() - (stamps[-1] or 0.0))
