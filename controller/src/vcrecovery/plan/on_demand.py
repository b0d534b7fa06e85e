"""Secondaries that are off until a failover needs them: what of the plan cannot be had with them."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from vcrecovery.plan.model import LxdOverHttps, Plan, Secondary, Service
from vcrecovery.plan.modes import Mode
from vcrecovery.plan.problems import Key

ON_DEMAND = "on-demand"


def is_on_demand(secondary: Secondary) -> bool:
    return secondary.power == ON_DEMAND


def domain_of(name: str, secondary: Secondary) -> str:
    """The name of its VM in libvirt."""
    return (secondary.vm.domain if secondary.vm is not None else None) or name


def on_demand_problems(plan: Plan) -> Iterator[tuple[Key, str]]:
    for name, secondary in plan.secondaries.items():
        if is_on_demand(secondary):
            yield from _of_secondary(plan, secondary, ("secondaries", name))
    for name, service in plan.services.items():
        yield from _of_service(plan, service, ("services", name))


def _of_secondary(plan: Plan, secondary: Secondary, here: Key) -> Iterator[tuple[Key, str]]:
    vm = secondary.vm
    if vm is None or vm.standbys_disk is None:
        yield (
            (*here, "power"),
            "is on-demand, which needs `vm`, with a `standbys_disk`: files arrive there while it is off",
        )
    if vm is not None and (host := plan.hypervisors.get(vm.hypervisor)) is not None and urlsplit(host.uri).hostname:
        said = "the disk of a secondary that is off is mounted on that hypervisor: have the controller run there"
        yield (*here, "vm", "hypervisor"), f"is another machine ({host.uri}); {said}, and name it by a local URI"
    if vm is not None and secondary.receiver.address in (vm.address.ip, secondary.network.address.ip):
        yield (*here, "receiver", "address"), "is the VM's, which is off when files arrive; name its hypervisor's"
    if not isinstance(secondary.lxd, LxdOverHttps):
        yield (*here, "lxd"), "is a socket, which is not there while the secondary is off; name its URL"
    if secondary.fence is not None:
        yield (*here, "fence"), "is for a secondary that has a spare, which one on demand is not"


def _of_service(plan: Plan, service: Service, here: Key) -> Iterator[tuple[Key, str]]:
    secondary, spare = plan.secondaries.get(service.standby.secondary), service.standby.spare
    if spare is not None and any(
        place is not None and is_on_demand(place) for place in (secondary, plan.secondaries.get(spare.secondary))
    ):
        yield (*here, "standby", "spare"), "is refused with a secondary on demand, which may be off"
    if secondary is None or not is_on_demand(secondary):
        return
    off = f"secondary {service.standby.secondary} is off until a failover (power: on-demand)"
    if service.mode is not Mode.COLD:
        yield (*here, "mode"), f"is {service.mode}, and {off}; its standbys are cold"
    if service.restore_points.keep:
        yield (*here, "restore_points", "keep"), f"is refused: {off}, and makes no snapshots"
    if service.drill.every is not None:
        yield (
            (*here, "drill", "every"),
            f"is refused: {off}, and no drill is possible there; a switchover shows as much",
        )
