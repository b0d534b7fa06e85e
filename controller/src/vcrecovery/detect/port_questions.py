"""Asks the ports of a primary that is in doubt: without them, no symptom is a failure."""

from __future__ import annotations

import logging
from functools import partial

from vcrecovery.core.episode import Symptom
from vcrecovery.drivers.runtime import Task
from vcrecovery.errors import ExternalError
from vcrecovery.operations.environment import Environment

log = logging.getLogger("vcrecovery.watch")

#: Seconds between two questions.
EVERY = 5.0


class PortQuestions:
    """Of one service, in a task of its own: they may take their whole timeout."""

    def __init__(self, env: Environment, service: str) -> None:
        self._env = env
        self._name = service
        self._service = env.plan.services[service]
        self._monotonic = env.clock.steady
        self._task: Task | None = None
        self._said = ""
        #: For which symptom they were asked, when by the steady clock, and which of them answered.
        self._answer: tuple[Symptom, float, tuple[str, ...]] | None = None
        #: When one of them answered last, of those times when it was asked.
        self.answered_at = 0.0

    def about(self, symptom: Symptom) -> tuple[str, ...] | None:
        """Those that answer, None while it is not known. Has them asked when it is time."""
        answer = self._answer if self._answer is not None and self._answer[0] is symptom else None
        busy = self._task is not None and self._task.is_alive()
        if not busy and (answer is None or self._monotonic() - answer[1] >= EVERY):
            self._task = self._env.runtime.spawn(partial(self._ask, symptom), f"ports of {self._name}")
        return None if answer is None else answer[2]

    def forget(self) -> None:
        """What they said before counts no more."""
        self._answer = None

    def _ask(self, symptom: Symptom) -> None:
        timeout = self._service.timeouts.confirm
        try:
            found = self._env.probes.answering(str(self._service.primary.address), self._service.ports, timeout)
        except ExternalError as error:
            if self._said != str(error):
                log.error("%s: %s", self._name, error)
            self._said = str(error)
            return
        self._said = ""
        if found:
            self.answered_at = self._env.clock.now()
        self._answer = (symptom, self._monotonic(), tuple(found))
