"""The failovers that the watcher begins of one service: one at a time, and none again that was refused."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from vcrecovery.core.episode import Episode, Outcome
from vcrecovery.drivers.runtime import Runtime, Task
from vcrecovery.errors import BusyError, NotNowError, RefusedError, VCRecoveryError
from vcrecovery.operations.failover import retry_delay

log = logging.getLogger("vcrecovery.watch")

#: Seconds after a false alarm before the next try.
FALSE_ALARM_DELAY = 30.0


class Attempts:
    """`on_outcome` is told how one ended, `on_not_now` why one could not begin yet; both in its task."""

    def __init__(
        self,
        service: str,
        runtime: Runtime,
        steady: Callable[[], float],
        on_outcome: Callable[[Outcome | None], None] = lambda _outcome: None,
        on_not_now: Callable[[str], None] = lambda _why: None,
    ) -> None:
        self._name = service
        self._runtime = runtime
        self._steady = steady
        self._on_outcome = on_outcome
        self._on_not_now = on_not_now
        self._task: Task | None = None
        #: The cause of the one that was refused.
        self._given_up = ""
        self._not_before = 0.0
        self._not_now = 0

    @property
    def busy(self) -> bool:
        return self._task is not None and self._task.is_alive()

    def no_cause(self, *, healthy: bool) -> None:
        """There is none to begin: what was refused is forgotten, and once all is well, how often it could not be."""
        self._given_up = ""
        if healthy:
            self._not_now = 0

    def is_due(self, cause: str) -> bool:
        return self._given_up != cause and self._steady() >= self._not_before

    def begin(self, cause: str, fail_over: Callable[[], Episode]) -> None:
        self._task = self._runtime.spawn(partial(self._work, cause, fail_over), f"failover of {self._name}")

    def _work(self, cause: str, fail_over: Callable[[], Episode]) -> None:
        try:
            outcome = fail_over().outcome
        except BusyError:
            pass  # the other controller does the work; the next tick looks again
        except NotNowError as error:
            self._on_not_now(error.message)
            # One that answers the watcher and not the failover would have another one begin with each answer.
            self._not_now += 1
            self._not_before = self._steady() + retry_delay(self._not_now)
            log.error("%s: no failover now: %s", self._name, error)
        except RefusedError as error:
            self._given_up = cause
            log.error("%s: no failover: %s", self._name, error)
        except VCRecoveryError as error:
            self._given_up = cause
            log.error("%s: %s", self._name, error)
        else:
            if outcome is Outcome.FALSE_ALARM:
                # The state may change, so it is not given up, but looked at again after a while.
                self._not_before = self._steady() + FALSE_ALARM_DELAY
            self._on_outcome(outcome)
