"""What a failover would find, and what would follow of it. Nothing is touched, and nothing journalled."""

from __future__ import annotations

from dataclasses import replace

from vcrecovery.core.decide import decide
from vcrecovery.core.decisions import Decision
from vcrecovery.core.episode import Episode, Request, Step, StepRecord
from vcrecovery.core.evidence import Proof
from vcrecovery.core.service_state import ServiceState
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover_steps import FailoverSteps
from vcrecovery.operations.policy import policy_for


def first_look(env: Environment, state: ServiceState, cause: str, request: Request) -> tuple[Proof, Decision]:
    """As if nothing were under way. Raises ExternalError when the primary or its standby cannot be looked at."""
    actuator, now = FailoverSteps(env, state.service), env.clock.now()
    epoch = max(state.epoch, actuator.epoch_elsewhere()) + 1
    episode = Episode(0, state.service, epoch, cause, request, now)
    proof = actuator.carry_out(Step.CONFIRM, episode)
    looked = StepRecord(Step.CONFIRM, now, env.clock.now(), ok=True, evidence=proof)
    return proof, decide(replace(episode, steps=(looked,)), policy_for(env, state.service), env.clock.now())
