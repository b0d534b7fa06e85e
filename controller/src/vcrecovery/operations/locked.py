"""One failover of one service of the plan, for whoever asked for it: under its lock, and only if there is one to do."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import replace

from vcrecovery.core.decisions import Close
from vcrecovery.core.episode import Episode, Outcome, Request, Step, Symptom
from vcrecovery.core.power import Power
from vcrecovery.core.service_state import ServiceState, Side
from vcrecovery.errors import ExternalError, RefusedError
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.failover import Gate, ProgressReporter, fail_over
from vcrecovery.operations.failover_steps import FailoverSteps
from vcrecovery.operations.first_look import first_look
from vcrecovery.operations.places import aimed, on_its_way
from vcrecovery.operations.policy import policy_for
from vcrecovery.operations.secondary_power import be_asked
from vcrecovery.operations.serving import standby_runs, standby_serves
from vcrecovery.operations.steps.moving import problem_of_the_copy
from vcrecovery.operations.steps.subject import Subject
from vcrecovery.operations.waiting_move import end_waiting_move
from vcrecovery.plan.places import put
from vcrecovery.standby.container import has_gone_back, let_files_in
from vcrecovery.store.lock import WORD_PATIENCE, HeldService, one_mover


def fail_over_locked(
    env: Environment,
    service: str,
    cause: str,
    request: Request,
    *,
    reporter: ProgressReporter,
    gate: Gate,
    detected_at: float | None = None,
) -> Episode | None:
    """The closed episode; None when its standby serves already. Raises as `fail_over` does, and BusyError.

    `request.planned`: a switchover, `request.back`: a failback. Otherwise a standby that is to serve and does not
    answer is brought up again; automatically, if its container has ended. Who gives their word waits for a controller
    that tries it without.
    """
    state_dir, clock = env.plan.state_dir, env.clock
    waits = WORD_PATIENCE if _insists(request) else 0.0
    with (
        one_mover(state_dir, service, clock) if request.moves else nullcontext(),
        HeldService(state_dir, service, clock, waits) as held,
    ):
        moves = request.moves
        end_waiting_move(env, service, request)
        if _gives_up_what_failed_since_its_switch(env, service, request) and request.automatic:
            # The watcher sees who serves, and does what is to be done about that.
            return None
        request = aimed(env, _without_one_to_elsewhere(env, env.journal.state(service), request), request)
        if moves and request.to is None:
            # It is there.
            if env.journal.state(service).side is Side.PRIMARY:
                return None
            _refuse_one_that_is_there_and_down(env, service)
            return None
        state = _without_a_failback(env, env.journal.state(service), request)
        if state.open_episode is None:
            if not _is_to_be_done(env, state, request):
                return None
            if state.side is Side.STANDBY and not request.automatic and not request.back and request.to is None:
                cause = f"{cause}: its standby does not answer"
        _refuse_beside_another(state, request)
        request = _as_begun(state, replace(request, again=_is_again(state) and not request.back))
        _refuse_to_restore_one_that_has_served(state, request)

        def tell(episode: Episode, text: str) -> None:
            reporter.further(episode, env.clock.now(), text)

        try:
            with on_its_way(env, request, service):
                return fail_over(
                    service,
                    cause,
                    request,
                    policy=policy_for(env, service),
                    actuator=FailoverSteps(env, service, tell, held.let_go),
                    journal=env.journal,
                    clock=env.clock,
                    reporter=reporter,
                    detected_at=detected_at,
                    gate=gate,
                )
        finally:
            if request.back and env.journal.state(service).open_episode is None:
                _withdraw_orders(env, service)


def _refuse_to_restore_one_that_has_served(state: ServiceState, request: Request) -> None:
    if request.again and request.restore_point is not None:
        raise RefusedError(
            f"the standby of {state.service} has served since epoch {state.epoch}: a restore point would throw away "
            "what it has written",
            f"`vcrecovery failover {state.service}` brings it up as it is",
        )


def _gives_up_what_failed_since_its_switch(env: Environment, service: str, request: Request) -> bool:
    """What waits for nothing but a name server ends once who serves has failed: that comes first, under a new epoch."""
    state = env.journal.state(service)
    episode = state.open_episode
    if episode is None or request.back or not (failed := episode.ports_failed_since_the_switch):
        return False
    put(env.plan, service, state.placed_on)
    if episode.request.back:
        # Its names lead to the VM, whose ports were seen open: its end is a failure.
        env.journal.saw_running(service, env.clock.now())
    _given_up(env, state, episode, f"not every DNS server had it when what serves failed: {failed}")
    return True


def _without_a_failback(env: Environment, state: ServiceState, request: Request) -> ServiceState:
    """A failback that is open goes on, unless a failover is to be made and nothing forbids to give it up for that."""
    episode = state.open_episode
    if episode is None or not episode.request.back or request.back:
        return state
    if not episode.has_acted:
        # The standby serves, or did: who has nothing to do about that leaves the failback alone.
        if not request.planned and _is_to_be_done(env, replace(state, open_episode=None), request):
            _refuse_what_would_be_refused(env, state, episode, request)
            return _given_up(env, state, episode)
        return replace(state, open_episode=None)
    if _insists(request) and episode.done(Step.HAND_OVER) is not None:
        _refuse_what_would_be_refused(env, state, episode, request)
        return _given_up(env, state, episode)
    return state


def _refuse_what_would_be_refused(env: Environment, state: ServiceState, episode: Episode, request: Request) -> None:
    """Before what is open is given up for it: nobody would be left to bring that to its end.

    What the watcher finds is journalled, and told to people, also where it comes to nothing.
    """
    if request.automatic:
        return
    request = replace(request, again=state.side is Side.STANDBY)
    _refuse_to_restore_one_that_has_served(state, request)
    if _was_booted_to_fetch(episode):
        # It runs now, and will have ended by then.
        return
    with on_its_way(env, request, state.service):
        _, decision = first_look(env, state, "", request)
    if isinstance(decision, Close):
        raise RefusedError(decision.sentence, decision.hint)


def _given_up(
    env: Environment, state: ServiceState, episode: Episode, why: str = "given up for a failover"
) -> ServiceState:
    """A VM that was booted to fetch holds nothing of its own, and ends: nobody is to take it for one that serves.

    Raises ExternalError when its hypervisor, or LXD, does not do it.
    """
    subject = Subject(env, state.service)
    _withdraw_orders(env, state.service)
    if episode.done(Step.HAND_OVER) is not None:
        # Also where the failover is refused afterwards.
        let_files_in(subject.lxd, lambda: subject.startable(episode))
    if _was_booted_to_fetch(episode) and subject.find_primary().reading.power in (Power.RUNNING, Power.PAUSED):
        subject.host.destroy(subject.uuid, subject.service.timeouts.fence)
    env.journal.close(episode, Outcome.GIVEN_UP, why, env.clock.now())
    return env.journal.state(state.service)


def _was_booted_to_fetch(episode: Episode) -> bool:
    return episode.tried(Step.BOOT) and not episode.has_acted


def _withdraw_orders(env: Environment, service: str) -> None:
    """One that stays, since LXD is away, is none once a later epoch has claimed the container."""
    with suppress(ExternalError):
        env.vm_orders.withdraw(service)


def _without_one_to_elsewhere(env: Environment, state: ServiceState, request: Request) -> ServiceState:
    """Who names another secondary than the one on which a failover cannot be brought to its end gives that up."""
    episode = state.open_episode
    if request.to is None or request.moves or episode is None or not episode.has_acted:
        return state
    if episode.request.moves and not _insists(request):
        return state
    put(env.plan, state.service, state.placed_on)
    is_there = env.plan.services[state.service].standby.secondary == request.to
    if episode.request.back or is_there or state.side is Side.PRIMARY:
        return state
    with on_its_way(env, request, state.service):
        # What would be refused then leaves nobody to bring the other one to its end.
        if problem := problem_of_the_copy(Subject(env, state.service), replace(episode, request=request)):
            raise RefusedError(f"{state.service} does not go on on {request.to}: {problem}", "fix that first")
    # From where it may have been started it is fenced first.
    env.journal.close(episode, Outcome.GIVEN_UP, f"given up for a failover to {request.to}", env.clock.now())
    return env.journal.state(state.service)


def _refuse_one_that_is_there_and_down(env: Environment, name: str) -> None:
    if not standby_serves(env, name):
        raise RefusedError(
            f"{name} is to serve there already, and does not answer", f"`vcrecovery failover {name}` brings it up"
        )


def _is_to_be_done(env: Environment, state: ServiceState, request: Request) -> bool:
    """Where none is open."""
    if request.to is not None:
        return True
    if request.back:
        return state.side is Side.STANDBY
    ended = request.symptom in (Symptom.STANDBY_ENDED, Symptom.SECONDARY)
    if request.automatic and request.symptom is Symptom.NONE:
        # It was to go on with one that another controller has brought to its end.
        return False
    if state.side is Side.PRIMARY:
        # The operator may have brought the primary back meanwhile.
        return not ended
    if request.planned:
        if not standby_serves(env, state.service):
            raise RefusedError(
                f"{state.service} cannot be switched over: its standby is to serve and does not answer",
                f"`vcrecovery failover {state.service}` brings it up",
            )
        return False
    if not request.automatic:
        be_asked(env, state.service)
        if standby_serves(env, state.service):
            return False
        _refuse_one_that_stands_by(env, state, request)
        return True
    return ended and not standby_runs(env, state.service)


def _refuse_one_that_stands_by(env: Environment, state: ServiceState, request: Request) -> None:
    """Its VM serves, and would be fenced without another word: nothing asks how old a standby is that served."""
    found = env.lxd[env.plan.services[state.service].standby.secondary].get(state.service)
    if not _insists(request) and has_gone_back(found, state.epoch):
        raise RefusedError(
            f"by the journal the standby of {state.service} serves since epoch {state.epoch}, and its container stands "
            "by: another controller has gone back to its VM, or this journal is an older one",
            f"`vcrecovery standby reset {state.service}` has this one know; `vcrecovery failover {state.service} "
            "--force` fails over all the same",
        )


def _as_begun(state: ServiceState, request: Request) -> Request:
    """What an earlier watcher saw of the end of a standby goes with it: nobody sees that a second time.

    A planned move under way stays one, unless the operator insists on a failover.
    """
    episode = state.open_episode
    if episode is None:
        return request
    if episode.request.keeps_up and request.automatic:
        return episode.request
    if episode.request.back and episode.has_acted:
        # Neither side serves, or the VM has begun to: a failback goes on, or back, whoever has come.
        before = episode.request
        after = before.commit_after if request.commit_after is None else request.commit_after
        return Request(request.automatic, by=request.by, back=True, rebuilt=before.rebuilt, commit_after=after)
    if episode.request.planned and episode.has_acted and not _insists(request):
        return replace(request, planned=True, how=episode.request.how)
    return request


def _insists(request: Request) -> bool:
    """On a failover, by an operator."""
    asked = request.force or request.primary_is_down or request.secondary_is_down
    return asked or request.restore_point is not None


def _refuse_beside_another(state: ServiceState, request: Request) -> None:
    """Who has asked for a planned move gets that one, or nothing."""
    episode = state.open_episode
    if episode is None or not episode.has_acted or not (request.planned or request.back):
        return
    if episode.request.verb != request.verb:
        raise RefusedError(*episode.goes_on_first)


def _is_again(state: ServiceState) -> bool:
    """Whether the standby was the one that serves before this failover, or the one that is open, began."""
    return state.side is Side.STANDBY if state.open_episode is None else state.open_episode.request.again
