"""The part of the plan that decisions about a service depend on."""

from __future__ import annotations

from vcrecovery.core.policy import Policy
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.model import Service
from vcrecovery.plan.on_demand import is_on_demand


def no_heartbeat_for(service: Service) -> float:
    """Seconds without a heartbeat after which that means something."""
    sync = service.sync
    # Of a periodic sync each brings one.
    several = 2 * sync.reconcile if sync.engine == "periodic" else 3 * sync.heartbeat
    return max(service.on_service_down.after, several)


def policy_for(env: Environment, name: str) -> Policy:
    service = env.plan.services[name]
    detection = env.plan.detection
    return Policy(
        max_staleness=service.max_staleness,
        on_demand=is_on_demand(env.plan.secondaries[service.standby.secondary]),
        has_dns=bool(service.dns or service.virtual_ip),
        cpu_high=detection.cpu_high,
        cpu_high_for=detection.cpu_high_for,
        cpu_zero_for=detection.cpu_zero_for,
        host_silent_for=detection.host_silent_for,
        cool_down=detection.cool_down,
        stalled_for=detection.stalled_for,
        service_down_for=service.on_service_down.after,
        no_heartbeat_for=no_heartbeat_for(service),
    )
