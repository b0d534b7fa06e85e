"""A failover that nobody asked for: the same for every detector, tried until nothing outside stands in its way."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from vcrecovery.core.episode import Episode, Outcome, Request, Symptom
from vcrecovery.errors import ExternalError, NotNowError, RefusedError
from vcrecovery.logs import about
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover import ProgressReporter, automatic
from vcrecovery.operations.locked import fail_over_locked
from vcrecovery.operations.start_conditions import LiveConditions
from vcrecovery.operations.start_gate import StartGate, trouble_of
from vcrecovery.store.journal import Journal

log = logging.getLogger("vcrecovery.watch")


def until_it_ends(journal: Journal, service: str, attempt: Callable[[], Episode]) -> Callable[[], Episode]:
    """`attempt`, for as long as the failover is open that it left; after that, the failover.

    Between two tries another controller may end it: since its primary serves, or its operator has brought that back.
    Who went on would open another one for the same failure. One that was refused says nothing of it: an operator has
    asked for something else.
    """
    left: Episode | None = None

    def again() -> Episode:
        nonlocal left
        now = journal.episode(left.id) if left is not None else None
        if now is not None and now.outcome not in (None, Outcome.REFUSED):
            return now
        try:
            return attempt()
        except ExternalError:
            with contextlib.suppress(ExternalError):
                left = journal.state(service).open_episode or left
            raise

    return again


class Unattended:
    """Fails services of `env` over; `reporter` is told each step.

    Those that fail at the same time wait for what they need, and start no more at once than the secondary bears.
    """

    def __init__(self, env: Environment, reporter: ProgressReporter) -> None:
        self._env = env
        self._reporter = reporter
        self._gate = StartGate(LiveConditions(env), env.clock, env.runtime)

    def at_work(self, service: str) -> bool:
        """Whether this program is failing the service over."""
        return self._gate.is_at_work(service)

    @contextlib.contextmanager
    def working_on(self, service: str) -> Iterator[None]:
        """For what else this program does with it: nobody here takes that for another controller's work."""
        self._gate.begin([service])
        try:
            yield
        finally:
            self._gate.end(service)

    def __call__(
        self,
        service: str,
        cause: str,
        detected_at: float,
        symptom: Symptom = Symptom.NONE,
        *,
        began_at: float | None = None,
        to: str | None = None,
        by: str = "watch",
        on_trouble: Callable[[ExternalError], None] = lambda _error: None,
    ) -> Episode:
        """The failover that was done, now or before. `on_trouble` gets each error that it is tried again after.

        Raises RefusedError when a promise forbids it, and BusyError while another controller is at work.
        """

        def on_failure(error: ExternalError, delay: float) -> None:
            self._gate.failed(service, trouble_of(error))
            log.error("%s: %s; trying again in %.0f s", service, error, delay)
            on_trouble(error)

        about(service)
        request = Request(automatic=True, by=by, symptom=symptom, began_at=began_at, to=to)
        trouble = ""
        self._gate.begin([service])
        try:
            attempt = until_it_ends(
                self._env.journal, service, lambda: self._attempt(service, cause, detected_at, request)
            )
            episode = automatic(attempt, self._env.clock, on_failure)
        except RefusedError as error:
            trouble = trouble_of(error)
            raise
        finally:
            self._gate.end(service, trouble)
        # Of a fence that was tried in vain somebody should know: it may not work the next time either.
        undone = (Outcome.WITHDRAWN, Outcome.TAKEN_BACK, Outcome.GIVEN_UP)
        level = logging.WARNING if episode.outcome in undone else logging.INFO
        log.log(level, "%s: epoch %d: %s: %s", service, episode.epoch, episode.outcome, episode.reason)
        return episode

    def _refuse_while_suspended(self, service: str) -> None:
        """Between two attempts an operator may begin to work on the VM."""
        state = self._env.journal.state(service)
        begun = state.open_episode is not None and state.open_episode.has_acted
        if not begun and state.suspension_at(self._env.clock.now()) is not None:
            raise NotNowError(
                f"automatic failover of {service} is suspended", f"`vcrecovery resume {service}` when the work is over"
            )

    def _attempt(self, service: str, cause: str, detected_at: float, request: Request) -> Episode:
        env = self._env
        self._refuse_while_suspended(service)
        self._gate.try_again(service)
        # Between two attempts an operator may take over.
        episode = fail_over_locked(
            env, service, cause, request, reporter=self._reporter, gate=self._gate, detected_at=detected_at
        )
        return episode if episode is not None else env.journal.history(service, 1)[0]
