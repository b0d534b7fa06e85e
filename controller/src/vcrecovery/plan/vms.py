"""What is wrong with the VMs of secondaries, or may fail with what they stand in for, beyond what one field shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from vcrecovery.plan.on_demand import domain_of

if TYPE_CHECKING:
    from vcrecovery.plan.model import Plan

Key = tuple[str | int, ...]


def vm_problems(plan: Plan) -> Iterator[tuple[Key, str]]:
    domains: dict[tuple[str, str], str] = {}
    addresses: dict[str, str] = {}
    for name, secondary in plan.secondaries.items():
        vm = secondary.vm
        if vm is None:
            continue
        here: Key = ("secondaries", name, "vm")
        domain = domain_of(name, secondary)
        if (owner := domains.setdefault((vm.hypervisor, domain), name)) != name:
            yield (*here, "domain"), f"{domain} on {vm.hypervisor} is the VM of secondary {owner} already"
        if (owner := addresses.setdefault(str(vm.address.ip), name)) != name:
            yield (*here, "address"), f"{vm.address.ip} is the address of secondary {owner} already"
        if vm.gateway is not None and vm.gateway not in vm.address.network:
            yield (*here, "gateway"), f"{vm.gateway} is not in {vm.address.network}, the network of its address"
        its_own = (vm.address.ip, secondary.network.address.ip)
        # That of one on demand is its hypervisor's.
        if secondary.power == "always" and secondary.receiver.address not in its_own:
            shown = " and ".join(str(address) for address in its_own)
            key = ("secondaries", name, "receiver", "address")
            yield key, f"{secondary.receiver.address} is no address of its VM, which has {shown}"
        if secondary.network.address.network.overlaps(vm.address.network):
            # Two ways into one network: answers would leave by the wrong one.
            key = ("secondaries", name, "network", "address")
            yield (
                key,
                f"{secondary.network.address.network} overlaps {vm.address.network}, in which the VM has its address",
            )


def host_of(plan: Plan, secondary: str) -> str | None:
    """The hypervisor of its VM; None where the plan does not say that."""
    entry = plan.secondaries.get(secondary)
    return entry.vm.hypervisor if entry is not None and entry.vm is not None else None


def vm_warnings(plan: Plan) -> Iterator[tuple[Key, str]]:
    for name in plan.secondaries:
        if (host := host_of(plan, name)) is None:
            continue
        together = [
            service
            for service, entry in plan.services.items()
            if entry.standby.secondary == name and entry.primary.hypervisor == host
        ]
        if together:
            who = ", ".join(together)
            yield (
                ("secondaries", name, "vm", "hypervisor"),
                f"{host} also runs what stands by there ({who}): when it fails, both are gone",
            )
    for name, service in plan.services.items():
        home, spare = service.standby.secondary, service.standby.spare
        if spare is None or (host := host_of(plan, spare.secondary)) is None:
            continue
        here = ("services", name, "standby", "spare", "secondary")
        if host == host_of(plan, home):
            yield here, f"{host} runs the VMs of both {home} and {spare.secondary}: when it fails, both are gone"
        if host == service.primary.hypervisor:
            yield here, f"{host} also runs its primary: when it fails, that and its spare are gone"
