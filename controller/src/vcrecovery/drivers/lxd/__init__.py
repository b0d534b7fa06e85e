"""One LXD or Incus server: read, create, configure and start instances.

pylxd connects over HTTPS, and sees who trusts whom. Its models are left alone: `start()` and `save()` there know
neither a timeout for an operation nor ETags, and `stop()` kills by default. Over a unix socket there is nothing left
for it to do, and it is not loaded (see `unix_socket`).
"""

from vcrecovery.drivers.lxd.connection import OverHttps, TryAgainError
from vcrecovery.drivers.lxd.instances import Instance
from vcrecovery.drivers.lxd.on_demand import OnDemandServer
from vcrecovery.drivers.lxd.server import LxdServer

__all__ = ["Instance", "LxdServer", "OnDemandServer", "OverHttps", "TryAgainError"]
