"""After the switch: every name server is asked, for as long as who serves does so. Pure."""

from __future__ import annotations

from vcrecovery.core.decisions import Run
from vcrecovery.core.episode import Episode, Step
from vcrecovery.core.policy import Policy


def next_of_verification(episode: Episode, policy: Policy, now: float) -> Run:
    """Before each further try somebody looks at the ports: a name server may be away for days."""
    if episode.last(Step.VERIFY) is not None and not episode.ports_seen_open(policy.probe_valid_for, now):
        return Run(Step.PROBE, "not every DNS server has it yet: looking whether the ports still answer")
    return Run(Step.VERIFY, "DNS has changed: asking every authoritative server")
