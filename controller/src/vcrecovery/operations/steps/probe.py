"""Probe: every port of the standby answers, for as long as the plan wants."""

from __future__ import annotations

from vcrecovery.core.evidence import Answered
from vcrecovery.core.service_state import Side
from vcrecovery.errors import ExternalError
from vcrecovery.operations.serving import targets
from vcrecovery.operations.steps.subject import JUST_NOW, Subject


def probe(subject: Subject) -> Answered:
    env, name, service = subject.env, subject.name, subject.service
    started_at, subject.started_at = subject.started_at, None
    if started_at is None or env.clock.steady() - started_at > JUST_NOW:
        # It may have stopped since, or been frozen: such a one's ports go on accepting connections.
        subject.lxd.start(name, service.timeouts.start)
    timeouts = service.timeouts
    results = env.probes.wait_for_all(targets(service, Side.STANDBY), timeouts.ports, timeouts.stable_for)
    if closed := [str(result) for result in results if not result.ok]:
        raise ExternalError(
            f"the standby of {name} does not answer after {timeouts.ports:.0f} s: {'; '.join(closed)}; "
            "DNS was not changed",
            f"look inside with `lxc exec {name} -- systemctl --failed`, then run it again",
        )
    return Answered(", ".join(result.label for result in results), str(service.standby.address))
