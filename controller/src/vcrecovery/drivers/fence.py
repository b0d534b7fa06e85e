"""The operator's own command that ends a hypervisor: IPMI, a PDU, a cloud's API."""

from __future__ import annotations

from collections.abc import Sequence

from vcrecovery.drivers.process import run
from vcrecovery.errors import ExternalError


def power_off(host: str, command: Sequence[str], timeout: float) -> str:
    """Runs the command; the last line that it printed. Only its status 0 means that the machine is off.

    Raises ExternalError, which says what to do, when it fails or takes longer than `timeout` seconds.
    """
    by_hand = "`vcrecovery failover SERVICE --primary-is-down SERVICE`"
    hint = f"see that it works, or power {host} off by hand and say so: {by_hand}"
    try:
        printed = run(command, timeout=timeout)
    except ExternalError as error:
        raise ExternalError(f"hypervisor {host} was not fenced: {error.message}", hint) from error
    lines = [line.strip() for line in printed.decode(errors="replace").splitlines() if line.strip()]
    # It will be shown on a terminal.
    return "".join(c if c.isprintable() else "?" for c in lines[-1])[:300] if lines else "it printed nothing"
