"""The LXD of one secondary, with all that is asked of it."""

from __future__ import annotations

from vcrecovery.drivers.lxd.instances import Instances
from vcrecovery.drivers.lxd.resources import Resources
from vcrecovery.drivers.lxd.storage import Storage


class LxdServer(Instances, Storage, Resources):
    """Made from the secondary's name, its socket or address, and a clock."""
