"""What virtual addresses leave in netfilter."""

from __future__ import annotations

from vcrecovery.drivers.virtual_ip import CHAIN
from vcrecovery_lab.run import run


def forget_the_chain() -> None:
    """What of it is there for all virtual addresses, and would stay."""
    for words in (("-D", "PREROUTING", "-j"), ("-D", "OUTPUT", "-j"), ("-F",), ("-X",)):
        run(["iptables", "-w", "5", "-t", "nat", *words, CHAIN], timeout=30, check=False)
