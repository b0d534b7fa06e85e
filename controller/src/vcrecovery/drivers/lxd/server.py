"""The LXD of one secondary, with all that is asked of it."""

from __future__ import annotations

from vcrecovery.drivers.lxd.copies import Copies
from vcrecovery.drivers.lxd.last_words import LastWords
from vcrecovery.drivers.lxd.lifecycle import Lifecycle
from vcrecovery.drivers.lxd.load import Loads
from vcrecovery.drivers.lxd.resources import Resources


class LxdServer(Copies, Loads, Resources, Lifecycle, LastWords):
    """Made from the secondary's name, its socket or address, and a clock."""
