"""What of the plan decisions depend on. Values."""

from __future__ import annotations

from dataclasses import dataclass

from vcrecovery.core.episode import Symptom


@dataclass(frozen=True)
class Policy:
    """The part of the plan that decisions depend on. Seconds."""

    max_staleness: float = 900.0
    confirmation_valid_for: float = 15.0
    #: Seconds that it takes to look at everything, where nothing stands still.
    look_takes: float = 10.0
    #: After that a standby that could not be started since is not started without another fence.
    fence_valid_for: float = 60.0
    probe_valid_for: float = 15.0
    has_dns: bool = True
    #: The secondary is off until a failover needs it.
    on_demand: bool = False
    cpu_high: float = 95.0
    cpu_high_for: float = 60.0
    cpu_zero_for: float = 60.0
    host_silent_for: float = 15.0
    cool_down: float = 3600.0
    stalled_for: float = 30.0
    service_down_for: float = 60.0
    #: A VM from which nothing has come for so long is unwell.
    no_heartbeat_for: float = 60.0

    def noticed_after(self, symptom: Symptom) -> float:
        """For how long a failure lasts before such a doubt arises: so long before, it still worked."""
        after = {
            Symptom.CPU_ZERO: self.cpu_zero_for,
            Symptom.CPU_HIGH: self.cpu_high_for,
            Symptom.HOST: self.host_silent_for,
            Symptom.SERVICE_DOWN: self.service_down_for,
        }
        return after.get(symptom, 0.0)
