"""What is wrong with the SNMP agents of a plan, or may raise false alarms, beyond what one field shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vcrecovery.plan.model import Plan

Key = tuple[str | int, ...]
#: So many polls may fail before a hypervisor counts as silent: a datagram is lost now and then.
POLLS = 3


def agent_problems(plan: Plan) -> Iterator[tuple[Key, str]]:
    owners: dict[str, str] = {}
    for name, hypervisor in plan.hypervisors.items():
        if hypervisor.snmp is None:
            continue
        address = str(hypervisor.snmp.address)
        if (owner := owners.setdefault(address, name)) != name:
            # Also with two ports: a notification shows the address only.
            shared = f"{address} is the address of hypervisor {owner} already"
            here = ("hypervisors", name, "snmp", "address")
            yield here, f"{shared}; notifications of the two could not be told apart"


def agent_warnings(plan: Plan) -> Iterator[tuple[Key, str]]:
    threshold, poll = plan.detection.host_silent_for, plan.snmp.poll
    agents = {name: hypervisor.snmp for name, hypervisor in plan.hypervisors.items() if hypervisor.snmp is not None}
    slowest = max(agents, key=lambda name: agents[name].pace(poll), default=None)
    if slowest is None or threshold >= POLLS * (pace := agents[slowest].pace(poll)):
        return
    what = "snmp.poll" if pace == poll else f"the {pace:g} s between two polls of libvirt-snmp"
    danger = f"one lost answer may look like a failed hypervisor; set that to at least {POLLS * pace:g} s"
    if "host_silent_for" in plan.detection.model_fields_set:
        yield ("detection", "host_silent_for"), f"is {threshold:g} s, less than three times {what}; {danger}"
        return
    place: Key = ("snmp", "poll") if pace == poll else ("hypervisors", slowest, "snmp", "agent")
    asked = "three times that" if pace == poll else f"is asked every {pace:g} s; three times that"
    yield place, f"{asked} is more than detection.host_silent_for ({threshold:g} s); {danger}"
