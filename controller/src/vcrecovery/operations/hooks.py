"""Runs the operator's own commands beside a step. Whatever becomes of them; a gate is the core's to judge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vcrecovery.core.episode import Episode, Step
from vcrecovery.core.evidence import HookRun
from vcrecovery.core.hooks import Moment, is_due, said
from vcrecovery.errors import in_words
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.hooks import HookCommand
from vcrecovery.plan.model import Service

#: The step beside which each runs.
BESIDE = {Moment.BEFORE_START: Step.START, Moment.AFTER_SWITCH: Step.VERIFY, Moment.ON_REFUSED: Step.CONFIRM}
#: Of the facts, so that a command can tell what it was written for.
VERSION = 1


class OperatorsHooks:
    """Of one service."""

    def __init__(self, env: Environment, name: str, tell: Callable[[Episode, str], None]) -> None:
        self._env, self._name, self._tell = env, name, tell

    def run(self, moment: Moment, episode: Episode, ran: Sequence[HookRun], reason: str = "") -> tuple[HookRun, ...]:
        """Those that are due, one after the other. `ran`: those of this episode that are known to have run."""
        found: list[HookRun] = []
        for hook in self._of(moment):
            gate = bool(getattr(hook, "gate", False))
            if is_due(hook.command, [*ran, *found], gate=gate):
                found.append(self._run(moment, hook, episode, gate=gate, reason=reason))
                self._tell(episode, said(found[-1]))
        return tuple(found)

    def in_words(self, moments: Sequence[Moment]) -> list[str]:
        """What would run, each with its moment; a gate is marked."""
        return [
            f"{moment.value}: {' '.join(hook.command)}{' (gate)' if getattr(hook, 'gate', False) else ''}"
            for moment in moments
            for hook in self._of(moment)
        ]

    def _of(self, moment: Moment) -> list[HookCommand]:
        sections = (self._env.plan.hooks, self._env.plan.services[self._name].hooks)
        return [hook for section in sections for hook in getattr(section, moment.value)]

    def _run(self, moment: Moment, hook: HookCommand, episode: Episode, *, gate: bool, reason: str) -> HookRun:
        clock, service = self._env.clock, self._env.plan.services[self._name]
        begun = clock.steady()
        try:
            facts = facts_of(moment, episode, service, clock.now(), reason)
            failure = self._env.run_hook(hook.command, facts, hook.timeout)
        except Exception as error:  # noqa: BLE001  whatever it is, the service has to come up
            failure = in_words(error)
        seconds = clock.steady() - begun
        return HookRun(moment.value, tuple(hook.command), not failure, seconds, failure, gate)


def facts_of(moment: Moment, episode: Episode, service: Service, now: float, reason: str) -> dict[str, Any]:
    """What a command is told."""
    request, standby, primary = episode.request, service.standby, service.primary
    return {
        "version": VERSION,
        "hook": moment.value,
        "service": episode.service,
        "episode": episode.id,
        "epoch": episode.epoch,
        "verb": request.verb,
        "step": BESIDE[moment].value,
        "cause": episode.cause,
        "reason": reason,
        "automatic": request.automatic,
        "forced": request.force,
        "by": request.by,
        "primary": {"hypervisor": primary.hypervisor, "uuid": str(primary.uuid), "address": str(primary.address)},
        "standby": {"secondary": standby.secondary, "container": episode.service, "address": str(standby.address)},
        "names": [str(record.name) for record in service.dns],
        "virtual_ip": str(service.virtual_ip.address.ip) if service.virtual_ip is not None else None,
        "opened_at": episode.opened_at,
        "at": now,
    }
