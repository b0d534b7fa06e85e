"""Carries out what the core decides: journal, act, journal, until the episode is closed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from vcrecovery.core import failback, move, planned, waiting_move
from vcrecovery.core.decide import decide
from vcrecovery.core.decisions import GO, Blocked, Close, Readiness, Run, Wait
from vcrecovery.core.episode import Episode, Outcome, Request, Step
from vcrecovery.core.evidence import Failed, HookRun, Proof, Started
from vcrecovery.core.hooks import Moment, closed_gate, ran_in, why_closed
from vcrecovery.core.notice import same_refusal
from vcrecovery.core.policy import Policy
from vcrecovery.core.service_state import ServiceState
from vcrecovery.drivers.clock import Clock
from vcrecovery.errors import (
    CalledOffError,
    ExternalError,
    NotNowError,
    NotStartedError,
    ReachedError,
    RefusedError,
    TakenBackError,
    VCRecoveryError,
)
from vcrecovery.store.journal import Journal


class Actuator(Protocol):
    """Acts on the outside world for one service. Every step looks first, so that running it twice is harmless."""

    def epoch_elsewhere(self) -> int:
        """The highest epoch that LXD and DNS know of, as far as they answer."""

    def run_hooks(
        self, moment: Moment, episode: Episode, ran: Sequence[HookRun], reason: str = ""
    ) -> tuple[HookRun, ...]:
        """Runs the operator's commands for that moment which are not among `ran`. Raises nothing."""

    @property
    def secondary(self) -> str:
        """Where the standby is."""

    def restore_problem(self, episode: Episode) -> str:
        """Why the restore point that `episode` asks for cannot be had; empty when it can."""

    def carry_out(self, step: Step, episode: Episode) -> Proof:
        """Does `step` and returns what proves it. Raises ExternalError when it cannot be done now."""


class ProgressReporter(Protocol):
    """Shows a person how it goes."""

    def begun(self, episode: Episode, step: Step, sentence: str) -> None: ...

    def ended(self, episode: Episode, step: Step, at: float, evidence: Proof) -> None: ...

    def failed(self, episode: Episode, step: Step, at: float, error: str) -> None:
        """A switchover goes back after that."""

    def waiting(self, episode: Episode, at: float, sentence: str) -> None:
        """It waits for others now. Each reason is told once."""

    def further(self, episode: Episode, at: float, sentence: str) -> None:
        """How far a long step is."""


class Gate(Protocol):
    """Knows the other services that fail over at the same time. `operations.start_gate` has the real one."""

    def readiness(self, service: str) -> Readiness:
        """Whether the standby of `service` may start now. Go takes one of the places, until `left`."""

    def wait(self, service: str) -> None:
        """Returns when the last answer may not hold any more."""

    def left(self, service: str) -> None:
        """Its ports are open, or it has ended otherwise. Harmless without a place."""


class NoOthers:
    """The gate of a service that is failed over alone."""

    def readiness(self, _service: str) -> Readiness:
        return GO

    def wait(self, _service: str) -> None: ...

    def left(self, _service: str) -> None: ...


ALONE = NoOthers()


def fail_over(
    service: str,
    cause: str,
    request: Request,
    *,
    policy: Policy,
    actuator: Actuator,
    journal: Journal,
    clock: Clock,
    reporter: ProgressReporter,
    detected_at: float | None = None,
    gate: Gate = ALONE,
) -> Episode:
    """Opens an episode, or takes up the one that an earlier controller left, and brings it to its end.

    The caller holds the service's lock. Raises RefusedError when a promise forbids the failover, and ExternalError
    when a step cannot be done now; in that case the episode stays open, and the next call goes on from that step.
    The same for NotStartedError, when `gate` knows of a service that has to be up first, and is not. TakenBackError: a
    switchover has failed, and its primary serves again; the episode is closed.
    """
    state = journal.state(service)
    _refuse_a_late_restore(state.open_episode, request)
    _refuse_one_that_is_not_there(state.open_episode, request, actuator)
    _refuse_while_it_cools(state, request, policy, clock.now())
    opened_at = detected_at if detected_at is not None else clock.now()
    elsewhere = 0 if state.open_episode else actuator.epoch_elsewhere()
    episode = journal.open(service, cause, request, opened_at, elsewhere)
    try:
        closed = _to_its_end(episode, policy, actuator, journal, clock, reporter, gate)
    finally:
        gate.left(service)
    if closed.outcome is Outcome.GIVEN_UP and request.leaves is not None:
        raise CalledOffError(f"{service} is not moved: {closed.reason}", f"`vcrecovery status {service}`")
    if closed.outcome is Outcome.TAKEN_BACK and not request.automatic:
        raise TakenBackError(closed.reason, "fix that, then run it again")
    return closed


def _to_its_end(
    episode: Episode,
    policy: Policy,
    actuator: Actuator,
    journal: Journal,
    clock: Clock,
    reporter: ProgressReporter,
    gate: Gate,
) -> Episode:
    service, said = episode.service, ""
    #: What ran before the start, once it has in this call; the journal gets it with the start.
    ran: tuple[HookRun, ...] | None = None
    while True:
        decision = decide(episode, policy, clock.now())
        if isinstance(decision, Run) and decision.step in (Step.RESTORE, Step.START):
            decision = decide(episode, policy, clock.now(), gate.readiness(service))
        if isinstance(decision, Wait):
            if decision.sentence != said:
                said = decision.sentence
                reporter.waiting(episode, clock.now(), said)
            gate.wait(service)
            continue
        if isinstance(decision, Blocked) and decision.for_good:
            raise RefusedError(f"{service}: {decision.reason}", decision.hint)
        if isinstance(decision, Blocked):
            error = NotStartedError(decision.reason, decision.hint, unmet=decision.unmet)
            row = journal.begin(episode, decision.step, clock.now(), decision.sentence)
            journal.end(row, clock.now(), ok=False, evidence=Failed(str(error)))
            raise error
        if isinstance(decision, Close):
            # Who serves has done so since: the operator's commands are no part of that time.
            at = clock.now()
            _run_hooks_at_the_end(decision, episode, actuator, journal)
            journal.close(episode, decision.outcome, decision.sentence, at)
            withdrawn = decision.outcome is Outcome.WITHDRAWN and not episode.request.automatic
            if decision.outcome is Outcome.REFUSED or withdrawn:
                refusal = NotNowError if decision.transient else RefusedError
                raise refusal(decision.sentence, decision.hint)
            closed = journal.episode(episode.id)
            assert closed is not None  # noqa: S101  it was closed a line ago
            return closed
        if decision.step is Step.START and not episode.request.back and ran is None:
            before = ran_in(episode, Moment.BEFORE_START)
            ran = actuator.run_hooks(Moment.BEFORE_START, episode, before)
            if (shut := closed_gate((*before, *ran), forced=episode.request.force)) is not None:
                _hold_back(shut, ran, decision, episode, journal, clock, reporter)
                episode = _read_again(episode, journal)
                continue
            if ran:
                # The fence may be too old by now.
                continue
        reporter.begun(episode, decision.step, decision.sentence)
        _run(decision, episode, actuator, journal, clock, reporter, ran or () if decision.step is Step.START else ())
        if decision.step is Step.PROBE:
            gate.left(service)
        episode = _read_again(episode, journal)
        if episode.closed_at is not None:
            # A move of one that waits lets others come first.
            return episode


def _read_again(episode: Episode, journal: Journal) -> Episode:
    current = journal.episode(episode.id)
    assert current is not None  # noqa: S101  episodes are never deleted
    return current


def _hold_back(
    shut: HookRun,
    ran: tuple[HookRun, ...],
    run: Run,
    episode: Episode,
    journal: Journal,
    clock: Clock,
    reporter: ProgressReporter,
) -> None:
    """The start has failed before it began. Raises ExternalError, unless the primary is to serve again."""
    hint = f"it is asked again; `vcrecovery {episode.request.typed(episode.service)} --force` starts it all the same"
    if episode.request.planned:
        # The primary serves again, and who asked for it is told what to do then.
        hint = ""
    error = ExternalError(why_closed(shut), hint)
    row = journal.begin(episode, run.step, clock.now(), run.sentence)
    journal.end(row, clock.now(), ok=False, evidence=Failed(str(error), hooks=ran))
    if not _goes_back_after(run.step, episode, refused=False):
        raise error
    reporter.failed(episode, run.step, clock.now(), str(error))


def _run_hooks_at_the_end(decision: Close, episode: Episode, actuator: Actuator, journal: Journal) -> None:
    """Before it is closed: a controller that is killed meanwhile is followed by one that runs them again."""
    if decision.outcome is Outcome.DONE and episode.done(Step.VERIFY) is not None:
        moment, step = Moment.AFTER_SWITCH, Step.VERIFY
    elif decision.outcome is Outcome.REFUSED:
        refused = replace(episode, outcome=decision.outcome, reason=decision.sentence)
        before = next((one for one in journal.history(episode.service, 2) if one.id != episode.id), None)
        if same_refusal(refused, before):
            return
        moment, step = Moment.ON_REFUSED, Step.CONFIRM
    else:
        return
    if ran := actuator.run_hooks(moment, episode, ran_in(episode, moment), decision.sentence):
        journal.note_hooks(episode, step, ran)


def _refuse_a_late_restore(episode: Episode | None, request: Request) -> None:
    if episode is None or episode.done(Step.START) is None:
        return
    if replace(episode, request=request).to_restore is not None:
        raise RefusedError(
            f"the standby of {episode.service} was started already, at epoch {episode.epoch}; "
            "a restore point comes before the start",
            f"`vcrecovery failover {episode.service}` continues without",
        )


def _refuse_one_that_is_not_there(episode: Episode | None, request: Request, actuator: Actuator) -> None:
    """Past the fence nothing is confirmed again, and what is taken up there stays: nobody could get on after a typo."""
    if episode is None or not episode.tried(Step.FENCE):
        return
    asked = replace(episode, request=request)
    if asked.to_restore is not None and (problem := actuator.restore_problem(asked)):
        raise RefusedError(problem, f"`vcrecovery standby snapshots {episode.service}` lists them")


def _refuse_while_it_cools(state: ServiceState, request: Request, policy: Policy, now: float) -> None:
    """Whoever found the failure: two in a row by themselves would go on for ever."""
    if request.automatic and not request.keeps_up and state.open_episode is None and state.cools(policy.cool_down, now):
        raise RefusedError(
            f"{state.service} was failed over within the last {policy.cool_down:.0f} s",
            f"find out why it fails again, then `vcrecovery failover {state.service}`, or "
            f"`vcrecovery acknowledge {state.service}` to fail over automatically",
        )


def _run(
    run: Run,
    episode: Episode,
    actuator: Actuator,
    journal: Journal,
    clock: Clock,
    reporter: ProgressReporter,
    ran: tuple[HookRun, ...] = (),
) -> None:
    """`ran`: what was run before it, for its evidence."""
    step = run.step
    row = journal.begin(episode, step, clock.now(), run.sentence, on=actuator.secondary)
    try:
        evidence = actuator.carry_out(step, episode)
    except VCRecoveryError as error:
        at = clock.now()
        refused = isinstance(error, RefusedError)
        journal.end(row, at, ok=False, evidence=Failed(str(error), refused, ran, isinstance(error, ReachedError)))
        ended = _read_again(episode, journal)
        if _goes_back_after(step, ended, refused=refused) and isinstance(error, (ExternalError, RefusedError)):
            reporter.failed(episode, step, at, str(error))
            return
        raise
    at = clock.now()
    if ran and isinstance(evidence, Started):
        evidence = replace(evidence, hooks=ran)
    journal.end(row, at, ok=True, evidence=evidence)
    reporter.ended(episode, step, at, evidence)


def _goes_back_after(step: Step, episode: Episode, *, refused: bool) -> bool:
    """Whether a failure of `step` is no end: who served before has to serve again."""
    if episode.request.back:
        return failback.goes_back_after(step, refused=refused)
    if episode.request.leaves is not None:
        return waiting_move.goes_back_after(step)
    if episode.request.moves:
        return move.goes_back_after(step, episode)
    return planned.goes_back_after(step, episode)


def retry_delay(failures: int) -> float:
    """Seconds before an automatic failover tries a failed step again: 1, 2, 4, ... 30."""
    return float(min(30, 2 ** max(0, failures - 1)))


def automatic(
    attempt: Callable[[], Episode], clock: Clock, on_failure: Callable[[ExternalError, float], None]
) -> Episode:
    """Runs `attempt` until nothing outside stands in its way any more.

    Raises RefusedError at once: a refusal does not go away by itself.
    """
    failures = 0
    while True:
        try:
            return attempt()
        except ExternalError as error:
            failures += 1
            delay = retry_delay(failures)
            on_failure(error, delay)
            clock.sleep(delay)
