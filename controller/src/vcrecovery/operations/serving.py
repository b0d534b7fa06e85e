"""Where whoever serves a service is to be asked, and what is seen from here of its two sides."""

from __future__ import annotations

from math import inf

from vcrecovery.core.service_state import Side
from vcrecovery.drivers.lxd.instances import ERROR
from vcrecovery.drivers.probe import Target
from vcrecovery.errors import ExternalError
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.policy import no_heartbeat_for
from vcrecovery.plan.model import Service
from vcrecovery.transfer.sessions import are_files_arriving

#: Seconds for the standby to answer, where it is to serve: it may be slow, and a packet may get lost.
ANSWERS_WITHIN = 3.0


def targets(service: Service, side: Side) -> list[Target]:
    """Every port, at each address of that side."""
    serving = service.primary if side is Side.PRIMARY else service.standby
    addresses = [str(address) for address in (serving.address, serving.address6) if address]
    return [(address, port) for address in addresses for port in service.ports]


def files_arrive(env: Environment, name: str) -> bool | None:
    """Whether its primary sends files now; None where that is not known. Raises ExternalError.

    It is not where the secondary is another machine; nor while the standby goes elsewhere, when nobody takes its files
    for some of the time, and until its primary must have found it there.
    """
    service = env.plan.services[name]
    if not env.lxd[service.standby.secondary].is_here:
        return None
    if are_files_arriving(env.plan.state_dir, name):
        return True
    ended = env.journal.waiting_move_ended(name)
    if ended is not None and (ended == inf or abs(env.clock.now() - ended) < no_heartbeat_for(service)):
        return None
    return False


def standby_runs(env: Environment, name: str) -> bool:
    """Whether its container does. Raises ExternalError when that cannot be told."""
    lxd = env.lxd[env.plan.services[name].standby.secondary]
    instance = lxd.get(name)
    if instance is not None and instance.status == ERROR:
        raise ExternalError(
            f"{lxd.flavour.product} cannot tell whether container {name} runs: its monitor does not answer",
            f"wait until `{lxd.client} info {name}` shows another status, then run it again",
        )
    return instance is not None and instance.running


def standby_serves(env: Environment, name: str) -> bool:
    """Whether its container runs, and every port answers. Raises ExternalError when neither can be told."""
    service = env.plan.services[name]
    found = env.probes.wait_for_all(targets(service, Side.STANDBY), ANSWERS_WITHIN, 0.0)
    answers = all(result.ok for result in found)
    try:
        # A frozen one's ports go on accepting connections.
        return standby_runs(env, name) and answers
    except ExternalError:
        if answers:
            return True
        raise


def failing_over(env: Environment) -> list[str]:
    """The services that are: what nobody waits for comes after them. Raises ExternalError.

    Nobody brings one to its end whose service has left the plan.
    """
    are = (one.service for one in env.journal.open_episodes() if one.request.verb == "failover")
    return sorted(name for name in are if name in env.plan.services)
