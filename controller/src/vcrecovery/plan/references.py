"""Whatever the plan refers to by name is defined."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vcrecovery.plan.problems import Key, suggest


def reference_problems(raw: Any) -> Iterator[tuple[Key, str]]:
    """Of a plan that may have other problems too."""
    for key, what, name, where in _references(raw):
        if isinstance(name, str) and _plain(name) not in map(_plain, where):
            yield key, f"no {what} is called {name!r} {suggest(name, list(where))}"


def _plain(name: Any) -> str:
    """As the plan has it, whatever its case."""
    return str(name).rstrip(".").lower()


def _references(raw: Any) -> Iterator[tuple[Key, str, Any, Any]]:
    """(key of the reference, what it names, the name, where the names are) for all that the plan refers to by name."""

    def table(*path: str) -> Any:
        here = raw
        for part in path:
            here = here.get(part) if isinstance(here, dict) else None
        return here if isinstance(here, dict) else {}

    for zone, entry in table("dns", "zones").items():
        if isinstance(entry, dict):
            here: Key = ("dns", "zones", str(zone))
            servers = entry.get("servers")
            for index, server in enumerate(servers if isinstance(servers, list) else []):
                yield (*here, "servers", index), "DNS server", server, table("dns", "servers")
            yield (*here, "key"), "TSIG key", entry.get("key"), table("dns", "keys")
    for name, hypervisor in table("hypervisors").items():
        agent = hypervisor.get("snmp") if isinstance(hypervisor, dict) else None
        if isinstance(agent, dict) and "user" in agent:
            yield ("hypervisors", name, "snmp", "user"), "SNMP user", agent["user"], table("snmp", "users")
    for name, secondary in table("secondaries").items():
        vm = secondary.get("vm") if isinstance(secondary, dict) else None
        if isinstance(vm, dict) and "hypervisor" in vm:
            yield ("secondaries", name, "vm", "hypervisor"), "hypervisor", vm["hypervisor"], table("hypervisors")
    for name, service in table("services").items():
        for part, field, what, where in (
            ("primary", "hypervisor", "hypervisor", table("hypervisors")),
            ("standby", "secondary", "secondary", table("secondaries")),
        ):
            section = service.get(part) if isinstance(service, dict) else None
            if isinstance(section, dict) and field in section:
                yield ("services", name, part, field), what, section[field], where
        standby = service.get("standby") if isinstance(service, dict) else None
        spare = standby.get("spare") if isinstance(standby, dict) else None
        if isinstance(spare, dict) and "secondary" in spare:
            key: Key = ("services", name, "standby", "spare", "secondary")
            yield key, "secondary", spare["secondary"], table("secondaries")
        needs = service.get("needs") if isinstance(service, dict) else None
        for index, need in enumerate(needs if isinstance(needs, list) else []):
            yield ("services", name, "needs", index), "service", need, table("services")
        records = service.get("dns") if isinstance(service, dict) else None
        for index, record in enumerate(records if isinstance(records, list) else []):
            if isinstance(record, dict) and "zone" in record:
                yield ("services", name, "dns", index, "zone"), "zone", record["zone"], table("dns", "zones")
    told = raw.get("notify") if isinstance(raw, dict) else None
    for number, destination in enumerate(told if isinstance(told, list) else []):
        whose = destination.get("services") if isinstance(destination, dict) else None
        for index, service in enumerate(whose if isinstance(whose, list) else []):
            yield ("notify", number, "services", index), "service", service, table("services")
    for name, group in table("groups").items():
        members = group.get("services") if isinstance(group, dict) else None
        for index, member in enumerate(members if isinstance(members, list) else []):
            yield ("groups", name, "services", index), "service", member, table("services")
    libvirt = table("balance", "elastic", "provisioner", "libvirt")
    if "hypervisor" in libvirt:
        here = ("balance", "elastic", "provisioner", "libvirt", "hypervisor")
        yield here, "hypervisor", libvirt["hypervisor"], table("hypervisors")
    balance = table("balance")
    pinned, apart = balance.get("pinned"), balance.get("apart")
    for index, service in enumerate(pinned if isinstance(pinned, list) else []):
        yield ("balance", "pinned", index), "service", service, table("services")
    for number, members in enumerate(apart if isinstance(apart, list) else []):
        for index, service in enumerate(members if isinstance(members, list) else []):
            yield ("balance", "apart", number, index), "service", service, table("services")
