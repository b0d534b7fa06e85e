"""A failover that waits before its fence for what others do, maybe for days: what the journal then holds of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence_cases import proof
from vcrecovery.cli.timeline import NoTimeline
from vcrecovery.core.episode import Episode, Outcome, Request, Step, Symptom
from vcrecovery.core.evidence import Confirmation, HookRun, Proof
from vcrecovery.core.policy import Policy
from vcrecovery.core.power import Power
from vcrecovery.drivers.clock import SystemClock
from vcrecovery.errors import ExternalError
from vcrecovery.operations.failover import fail_over
from vcrecovery.store import journal as journal_module
from vcrecovery.store.journal import Journal


class Silent:
    """A hypervisor that does not answer, and a neighbour that does, for as long as `neighbours` says so."""

    neighbours: tuple[str, ...] = ("shop (10.0.0.2:443)",)

    secondary = "sec1"

    def epoch_elsewhere(self) -> int:
        return 0

    def run_hooks(self, *_said: object) -> tuple[HookRun, ...]:
        return ()

    def restore_problem(self, _episode: Episode) -> str:
        return ""

    def carry_out(self, step: Step, _episode: Episode) -> Proof:
        if step is not Step.CONFIRM:
            return proof(step, summary="done")
        return Confirmation(
            Power.UNREACHABLE,
            fence_command=True,
            freshness=1.0,
            neighbours=self.neighbours,
            summary="hv1: unreachable",
        )


def test_what_is_looked_at_again_and_again_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look reads the whole failover, so a weekend of them would keep the controller busy with nothing else."""
    monkeypatch.setattr(journal_module, "_FIRST_LOOKS", 4)
    monkeypatch.setattr(journal_module, "_LAST_LOOKS", 6)
    journal, actuator = Journal(tmp_path / "journal.db"), Silent()
    request = Request(automatic=True, symptom=Symptom.HOST)

    def attempt() -> Episode:
        words = ("web", "hypervisor hv1 does not answer", request)
        policy = Policy(has_dns=False)
        return fail_over(
            *words, policy=policy, actuator=actuator, journal=journal, clock=SystemClock(), reporter=NoTimeline()
        )

    for _ in range(20):
        with pytest.raises(ExternalError, match=r"what still answers: shop"):
            attempt()
    waiting = journal.state("web").open_episode
    assert waiting is not None
    assert len(waiting.steps) == 4 + 6 + 1
    # In their turns, as if nothing were missing.
    assert [step.ok for step in waiting.steps] == [True, False] * 2 + [False] + [True, False] * 3

    actuator.neighbours = ()
    done = attempt()
    assert done.outcome is Outcome.DONE
    assert [step.step for step in done.steps][-4:] == [Step.CONFIRM, Step.FENCE, Step.START, Step.PROBE]
    assert done.first_confirmed == done.steps[-4]
    assert [step.ok for step in done.steps] == [True, False] * 5 + [True] * 4
