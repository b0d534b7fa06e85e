"""Whether a service that does not answer is failed over although its VM runs, where the plan wants that. Pure.

A closed port may be a firewall, a restart, or the controller's own network. So it takes a second signal from the VM
itself that it is unwell, and nothing that speaks for the network. Times in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vcrecovery.core.sentences import listed
from vcrecovery.core.text import span

#: systemd's words for a unit that does not do what it is to do. One that somebody has stopped is inactive.
FAILED = frozenset({"failed", "activating"})
#: Services that cease to answer so soon after each other have one reason.
TOGETHER = 60.0


@dataclass(frozen=True)
class FromTheVm:
    """What its newest heartbeat says. `heard`: its age in seconds when the service was looked at; None if not known.

    `units`: those behind the ports that are not active, with their states; None where the VM does not say. `sends`:
    its files arrive now, before which no heartbeat comes; None where that is not seen from here.
    """

    heard: float | None
    units: Mapping[str, str] | None = None
    sends: bool | None = False

    def unwell(self, silent_for: float) -> str:
        """Why the VM is unwell; empty when it is not, or that is not known. No heartbeat counts after so long."""
        if self.heard is None:
            return ""
        if self.heard >= silent_for:
            return "" if self.sends is not False else f"it has sent nothing for {span(silent_for)}"
        return listed([f"{unit} is {state}" for unit, state in sorted((self.units or {}).items()) if state in FAILED])

    def well(self) -> str:
        """What speaks for it."""
        if self.heard is None:
            return "its heartbeat cannot be read"
        stopped = [f"{unit} is {state}" for unit, state in sorted((self.units or {}).items()) if state not in FAILED]
        if self.sends:
            return "its files arrive"
        return "; ".join(["its heartbeats come", *([listed(stopped)] if stopped else [])])


def same_reason(name: str, since: Mapping[str, float | None], site: Sequence[str]) -> list[str]:
    """The others at its site that ceased to answer at about the same time, if they are too many for chance.

    `since`: from when each service that is down has been so; `site`: all services whose primaries serve there.
    """
    began = since.get(name)
    if began is None:
        return []
    others = [
        other
        for other in site
        if other != name and (at := since.get(other)) is not None and abs(at - began) <= TOGETHER
    ]
    return others if 2 * (len(others) + 1) > len(site) else []
