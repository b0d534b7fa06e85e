"""One libvirt host: states, lifecycle events, destroy, suspend, resume."""

from vcrecovery.drivers.libvirt.connection import MOST_AT_ONCE, MOST_SLOW
from vcrecovery.drivers.libvirt.host import LibvirtHost
from vcrecovery.drivers.libvirt.readings import Guest, words_of

__all__ = [
    "MOST_AT_ONCE",
    "MOST_SLOW",
    "Guest",
    "LibvirtHost",
    "words_of",
]
