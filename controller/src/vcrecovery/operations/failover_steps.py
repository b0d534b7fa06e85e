"""The steps of a failover on the real world, for one service: which of `steps` does what the core has decided."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from vcrecovery.core.episode import Episode, Step
from vcrecovery.core.evidence import HookRun, Proof
from vcrecovery.core.hooks import Moment
from vcrecovery.errors import ExternalError, InternalError
from vcrecovery.operations import records
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.hooks import OperatorsHooks
from vcrecovery.operations.secondary_power import be_asked
from vcrecovery.operations.steps import moving, waiting
from vcrecovery.operations.steps.confirm import PortsAskedAhead, confirm
from vcrecovery.operations.steps.fence import fence
from vcrecovery.operations.steps.last_files import last_files
from vcrecovery.operations.steps.power_on import power_on
from vcrecovery.operations.steps.probe import probe
from vcrecovery.operations.steps.restore import find_restore_point, restore
from vcrecovery.operations.steps.shut_down import shut_down
from vcrecovery.operations.steps.start import start
from vcrecovery.operations.steps.subject import Subject
from vcrecovery.operations.steps.switch import switch
from vcrecovery.operations.steps.take_back import take_back
from vcrecovery.operations.steps.verify import verify
from vcrecovery.standby.container import epoch_of
from vcrecovery.store.lock import after_acts


class FailoverSteps:
    """Acts for service `name` of the plan. `tell`: how far a long step is; `let_go` of the service, within it."""

    def __init__(
        self,
        env: Environment,
        name: str,
        tell: Callable[[Episode, str], None] = lambda _episode, _text: None,
        let_go: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        self._subject = Subject(env, name)
        self._tell = tell
        self._let_go = let_go
        self._ports = PortsAskedAhead(self._subject)
        self._hooks = OperatorsHooks(env, name, tell)

    def epoch_elsewhere(self) -> int:
        with contextlib.suppress(ExternalError):  # the confirmation says it
            be_asked(self._subject.env, self._subject.name)
        # The confirmation comes next.
        self._ports.ask()
        # A standby that does not answer is reported by the step that needs it.
        found = [0]
        with contextlib.suppress(ExternalError):
            instance = self._subject.read_standby()
            found.append(epoch_of(instance) if instance else 0)
        return max(*found, records.newest_epoch(self._subject.names))

    def run_hooks(
        self, moment: Moment, episode: Episode, ran: Sequence[HookRun], reason: str = ""
    ) -> tuple[HookRun, ...]:
        return self._hooks.run(moment, episode, ran, reason)

    @property
    def secondary(self) -> str:
        return self._subject.service.standby.secondary

    def restore_problem(self, episode: Episode) -> str:
        return find_restore_point(self._subject, episode)[1]

    def carry_out(self, step: Step, episode: Episode) -> Proof:
        subject = self._subject
        if episode.request.back and step is not Step.CONFIRM:
            return self._of_a_failback(step, episode)
        if episode.request.leaves is not None and step is not Step.CONFIRM:
            return self._of_a_waiting_move(step, episode)
        if episode.request.moves and step in (Step.COPY, Step.STOP, Step.LAST_COPY, Step.TAKE_BACK):
            with self._container(episode):
                return self._of_a_move(step, episode)
        match step:
            case Step.CONFIRM:
                be_asked(subject.env, subject.name, lambda text: self._tell(episode, text))
                return confirm(subject, episode, self._ports.take())
            case Step.SHUTDOWN:
                return shut_down(subject)
            case Step.LAST_FILES:
                return last_files(subject, episode)
            case Step.TAKE_BACK:
                with self._container(episode):
                    return take_back(subject, episode)
            case Step.FENCE:
                return fence(subject, episode)
            case Step.POWER_ON:
                return power_on(subject, episode, lambda text: self._tell(episode, text))
            case Step.RESTORE:
                with self._container(episode):
                    return restore(subject, episode)
            case Step.START:
                with self._container(episode):
                    return start(subject, episode)
            case Step.PROBE:
                return probe(subject, episode)
            case Step.SWITCH:
                return switch(subject, episode)
            case Step.VERIFY:
                return verify(subject, episode)
            case _:
                raise InternalError(f"{step} is no step of a {episode.request.verb}")

    def _of_a_failback(self, step: Step, episode: Episode) -> Proof:
        # Loaded for those that need it: a failover does without.
        from vcrecovery.operations.steps.back import boot, copy, hand_over, keep

        subject = self._subject

        def tell(text: str) -> None:
            self._tell(episode, text)

        match step:
            case Step.BOOT:
                return boot.boot(subject, episode)
            case Step.COPY:
                return copy.copy(subject, episode, tell)
            case Step.STOP:
                with self._container(episode):
                    return hand_over.stop(subject, episode)
            case Step.LAST_COPY:
                return copy.last_copy(subject, episode)
            case Step.HAND_OVER:
                with self._container(episode):
                    return hand_over.hand_over(subject, episode)
            case Step.START:
                subject.env.vm_orders.withdraw(subject.name)
                with self._container(episode):
                    return start(subject, episode)
            case Step.PROBE:
                return hand_over.probe_vm(subject, episode)
            case Step.SWITCH:
                return switch(subject, episode)
            case Step.VERIFY:
                return verify(subject, episode)
            case Step.KEEP:
                return keep.keep(subject, episode)
            case _:
                raise InternalError(f"{step} is no step of a failback")

    def _of_a_move(self, step: Step, episode: Episode) -> Proof:
        subject = self._subject
        match step:
            case Step.COPY:
                return moving.copy(subject, episode, lambda text: self._tell(episode, text))
            case Step.STOP:
                return moving.stop(subject, episode)
            case Step.LAST_COPY:
                return moving.last_copy(subject, episode)
            case _:
                return moving.take_back(subject, episode)

    def _of_a_waiting_move(self, step: Step, episode: Episode) -> Proof:
        subject = self._subject
        if step in (Step.COPY, Step.SYNC):
            # Both may take long: a failover comes first.
            act = waiting.copy if step is Step.COPY else waiting.sync
            with self._let_go():
                evidence: Proof = act(subject, episode, lambda text: self._tell(episode, text))
            waiting.refuse_one_that_is_over(subject, episode)
            return evidence
        with self._container(episode):
            match step:
                case Step.STOP:
                    return waiting.stop(subject, episode)
                case Step.LAST_COPY:
                    return waiting.last_copy(subject, episode)
                case Step.RECEIVE:
                    return waiting.receive(subject, episode)
                case Step.TAKE_BACK:
                    return waiting.take_back(subject, episode)
                case _:
                    raise InternalError(f"{step} is no step of a move of a standby that waits")

    def _container(self, episode: Episode) -> contextlib.AbstractContextManager[None]:
        """Its keeper is waited for, but not for longer than the fence counts."""
        subject, clock = self._subject, self._subject.env.clock
        patience, proof = subject.service.timeouts.start, episode.fence
        if proof is not None and proof.ended_at is not None:
            age = max(0.0, clock.now() - proof.ended_at)
            patience = max(0.0, min(patience, subject.policy.fence_valid_for - age))
        return after_acts(subject.env.plan.state_dir, subject.name, patience, clock)
