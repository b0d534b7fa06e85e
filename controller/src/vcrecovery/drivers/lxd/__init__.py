"""One LXD or Incus server: read, create, configure and start instances.

pylxd does the connection and the routes. Its models are left alone: `start()` and `save()` there know neither a
timeout for an operation nor ETags, and `stop()` kills by default.
"""

from vcrecovery.drivers.lxd.connection import OverHttps, TryAgainError
from vcrecovery.drivers.lxd.instances import Instance
from vcrecovery.drivers.lxd.server import LxdServer

__all__ = ["Instance", "LxdServer", "OverHttps", "TryAgainError"]
