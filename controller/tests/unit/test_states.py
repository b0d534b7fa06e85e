"""The table of states: the core stays inside it, and the journal writes nothing outside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence_cases import proof
from vcrecovery.core.decide import decide
from vcrecovery.core.decisions import Blocked, Close, Wait
from vcrecovery.core.episode import Episode, Outcome, Request, Step, StepRecord, Symptom
from vcrecovery.core.evidence import Failed
from vcrecovery.core.phase import ALLOWED, ALLOWED_IN_A_FAILBACK, ALLOWED_IN_A_WAITING_MOVE, Phase, allowed, phase_of
from vcrecovery.core.policy import Policy
from vcrecovery.core.power import Power
from vcrecovery.errors import InternalError
from vcrecovery.store.journal import Journal

POINTS = st.sampled_from([None, "monday", "tuesday", "latest"])
SWITCHOVERS = st.just(Request(planned=True))
FAILOVERS = st.builds(
    Request,
    automatic=st.booleans(),
    force=st.booleans(),
    primary_is_down=st.booleans(),
    restore_point=POINTS,
    symptom=st.sampled_from(Symptom),
)
FAILBACKS = st.just(Request(back=True))
REQUESTS = st.one_of(FAILOVERS, FAILOVERS, SWITCHOVERS, FAILBACKS)
EVIDENCE = st.fixed_dictionaries(
    {
        "power": st.sampled_from([power.value for power in Power]),
        "reason": st.sampled_from(["", "crashed", "destroyed", "migrated"]),
        "open_ports": st.sampled_from([[], ["10.0.0.1:80"]]),
        "freshness": st.sampled_from([None, 1.0, 100.0]),
        "cpu": st.sampled_from([None, 0.0, 50.0, 100.0]),
        "fence_command": st.booleans(),
        "neighbours": st.sampled_from([[], ["mail"]]),
    }
)
#: Mostly nothing to object to, so that most get past the fence.
CRASHED: dict[str, Any] = {"power": "shutoff", "reason": "crashed", "open_ports": [], "freshness": 1.0}
RUNS: dict[str, Any] = {"power": "running", "open_ports": ["10.0.0.1:80"], "freshness": 1.0, "boot": "5f7b"}
POLICIES = st.builds(Policy, max_staleness=st.just(60.0), has_dns=st.booleans())


def asked_again(episode: Episode, request: Request) -> Episode:
    """As the journal takes an episode up."""
    if not episode.has_acted:
        # A failback is given up for a failover, which has an episode of its own.
        return episode if episode.request.back and not request.back else replace(episode, request=request)
    if request.automatic or episode.request.back:
        return episode
    request = replace(request, back=False)
    insists = request.force or request.primary_is_down or request.restore_point
    request = replace(request, planned=episode.request.planned and not insists)
    return replace(
        episode, request=replace(request, restore_point=request.restore_point or episode.request.restore_point)
    )


def tried(draw: Any, episode: Episode, step: Step, now: float) -> StepRecord:
    """One try of `step`: it goes well, fails, or its controller dies in it."""
    end = draw(st.sampled_from(["well", "well", "well", "badly", "killed"]))
    if end == "killed":
        return StepRecord(step, now)
    if end == "badly":
        return StepRecord(step, now, now, False, Failed("no", refused=draw(st.booleans())))
    evidence: dict[str, Any] = {}
    if step is Step.CONFIRM:
        good = RUNS if episode.request.planned else CRASHED
        evidence = draw(st.one_of(st.just(good), EVIDENCE)) | {"restore_asked": episode.request.restore_point}
    if step is Step.RESTORE:
        evidence = {"asked": episode.request.restore_point, "restore_point": episode.request.restore_point}
    return StepRecord(step, now, now, True, proof(step, **evidence))


@settings(max_examples=800, derandomize=True, deadline=None)
@given(st.data(), REQUESTS, POLICIES)
def test_the_core_stays_inside_the_table(data: st.DataObject, request: Request, policy: Policy) -> None:
    now = 10_000.0
    episode = Episode(1, "web", 1, "libvirt: crashed", request, now)
    half_restored = False
    for _ in range(30):
        decision = decide(episode, policy, now)
        assert not isinstance(decision, Wait)  # alone, a service waits for nobody
        what = decision.outcome if isinstance(decision, Close) else decision.step
        assert what in allowed(episode), (phase_of(episode), what)
        if isinstance(decision, Close):
            return
        assert not (decision.step is Step.START and half_restored)
        if isinstance(decision, Blocked):
            record = StepRecord(decision.step, now, now, False, Failed(decision.sentence))
        else:
            record = tried(data.draw, episode, decision.step, now)
        if decision.step is Step.RESTORE:
            half_restored = not record.ok
        episode = replace(episode, steps=(*episode.steps, record))
        started = record.ok and record.step in (Step.RESTORE, Step.START)
        assert not started or episode.ever_fenced or episode.request.back
        now += data.draw(st.sampled_from([0.0, 0.0, 1.0, 20.0, 100.0, 3600.0, -3600.0]))
        if data.draw(st.integers(0, 3)) == 0:
            episode = asked_again(episode, data.draw(REQUESTS))


CONFIRMS = (Step.CONFIRM, Phase.CONFIRMING, Phase.CONFIRMED)
FENCES = (Step.FENCE, Phase.FENCING, Phase.FENCED)
STARTS = (Step.START, Phase.STARTING, Phase.STARTED)
FROM_THE_PORTS_ON = (
    (Step.PROBE, Phase.PROBING, Phase.PROBED),
    (Step.SWITCH, Phase.SWITCHING, Phase.SWITCHED),
    (Step.VERIFY, Phase.VERIFYING, Phase.VERIFIED),
)
SHUTS_DOWN = (
    CONFIRMS,
    (Step.SHUTDOWN, Phase.SHUTTING_DOWN, Phase.SHUT_DOWN),
    (Step.LAST_FILES, Phase.COMPLETING, Phase.COMPLETE),
)
STOPS = (
    (Step.COPY, Phase.COPYING, Phase.COPIED),
    (Step.STOP, Phase.STOPPING, Phase.STOPPED),
    (Step.LAST_COPY, Phase.COPYING_LAST, Phase.ALL_COPIED),
)
TAKES_BACK = (Step.TAKE_BACK, Phase.TAKING_BACK, Phase.TAKEN_BACK)
BOOTS = (CONFIRMS, (Step.BOOT, Phase.BOOTING, Phase.UP), *STOPS)
MOVE = Request(planned=True, to="sec2")


@pytest.mark.parametrize(
    ("request_", "walk"),
    [
        (Request(), (CONFIRMS, FENCES, STARTS, *FROM_THE_PORTS_ON)),
        (Request(), (FENCES, (Step.FENCE, Phase.FENCED, Phase.FENCED))),
        (
            Request(restore_point="monday"),
            (
                CONFIRMS,
                (Step.FENCE, Phase.FENCING, Phase.RESTORING),
                (Step.RESTORE, Phase.RESTORING, Phase.RESTORED),
                STARTS,
            ),
        ),
        (Request(planned=True), (*SHUTS_DOWN, FENCES, STARTS, *FROM_THE_PORTS_ON)),
        (Request(planned=True), (*SHUTS_DOWN, TAKES_BACK)),
        # An operator has made a failover of it.
        (Request(force=True), (*SHUTS_DOWN, TAKES_BACK, FENCES, STARTS)),
        (
            Request(back=True),
            (
                *BOOTS,
                (Step.HAND_OVER, Phase.HANDING_OVER, Phase.HANDED_OVER),
                *FROM_THE_PORTS_ON,
                (Step.KEEP, Phase.KEEPING, Phase.KEPT),
            ),
        ),
        (Request(back=True), (*BOOTS, (Step.START, Phase.SERVING_AGAIN, Phase.SERVES_AGAIN))),
        (MOVE, (CONFIRMS, *STOPS, STARTS, *FROM_THE_PORTS_ON)),
        (MOVE, (CONFIRMS, *STOPS, TAKES_BACK)),
        (
            replace(MOVE, leaves="sec1"),
            (
                CONFIRMS,
                *STOPS,
                (Step.RECEIVE, Phase.RECEIVING, Phase.RECEIVES),
                (Step.SYNC, Phase.SYNCING, Phase.IN_SYNC),
            ),
        ),
        (replace(MOVE, leaves="sec1"), (CONFIRMS, *STOPS, TAKES_BACK)),
    ],
)
def test_each_step_has_its_phase(request_: Request, walk: Sequence[tuple[Step, Phase, Phase]]) -> None:
    """While it is done, also after a try that has failed, and once it is done."""
    episode = Episode(1, "web", 1, "a test", request_, 0.0)
    assert phase_of(episode) is Phase.OPENED
    for step, doing, done in walk:
        begun, failed = StepRecord(step, 1.0), StepRecord(step, 1.0, 2.0, False, Failed("no"))
        assert phase_of(replace(episode, steps=(*episode.steps, begun))) is doing
        again = Phase.FENCING_AGAIN if episode.ever_fenced and step is Step.FENCE else doing
        assert phase_of(replace(episode, steps=(*episode.steps, failed))) is again
        asked = {"asked": request_.restore_point} if step is Step.RESTORE else {}
        episode = replace(episode, steps=(*episode.steps, StepRecord(step, 1.0, 2.0, True, proof(step, **asked))))
        assert phase_of(episode) is done
    assert phase_of(replace(episode, closed_at=3.0)) is Phase.CLOSED


def test_every_phase_has_its_line_and_only_the_end_has_no_way_on() -> None:
    tables = (ALLOWED, ALLOWED_IN_A_FAILBACK, ALLOWED_IN_A_WAITING_MOVE)
    assert {phase for table in tables for phase in table} == set(Phase)
    for table in tables:
        assert [phase for phase, found in table.items() if not found] == [Phase.CLOSED]
    assert {what for table in tables for found in table.values() for what in found} == {*Step, *Outcome}


FAILOVER = (Step.CONFIRM, Step.FENCE, Step.START, Step.PROBE, Step.SWITCH, Step.VERIFY)
SWITCHOVER = (Step.CONFIRM, Step.SHUTDOWN, Step.LAST_FILES, *FAILOVER[1:])
TAKEN_BACK = (*SWITCHOVER[:4], Step.TAKE_BACK)
UP_TO_HAND_OVER = (Step.CONFIRM, Step.BOOT, Step.COPY, Step.STOP, Step.LAST_COPY, Step.HAND_OVER)
FAILBACK = (*UP_TO_HAND_OVER, *FAILOVER[3:], Step.KEEP)
SERVES_AGAIN = (*FAILBACK[:4], Step.START)
#: Each with every number of its steps that are done.
CHAINS = (FAILOVER, SWITCHOVER, TAKEN_BACK, FAILBACK, SERVES_AGAIN)
UP_TO = [(chain, done) for chain in CHAINS for done in range(len(chain) + 1)]


def up_to(journal: Journal, chain: Sequence[Step], steps: int) -> Episode:
    episode = journal.open(
        "web", "a test", Request(planned=chain in (SWITCHOVER, TAKEN_BACK), back=chain in (FAILBACK, SERVES_AGAIN)), 1.0
    )
    for step in chain[:steps]:
        journal.end(journal.begin(episode, step, 1.0), 1.0, ok=True, evidence=proof(step))
    return episode


ASKED, KEPT = StepRecord(Step.VERIFY, 1.0, 2.0, True, proof(Step.VERIFY)), {Outcome.DONE, Outcome.GIVEN_UP}
GOES_ON_ASKING = {Step.PROBE, Step.VERIFY, Step.KEEP, Outcome.GIVEN_UP}


@pytest.mark.parametrize(
    ("asked", "phase", "goes_on"),
    [
        ((ASKED,), Phase.KEPT, KEPT),
        ((StepRecord(Step.VERIFY, 1.0, 2.0, False, Failed("ns2 is away")),), Phase.VERIFYING, GOES_ON_ASKING),
        ((StepRecord(Step.VERIFY, 1.0),), Phase.VERIFYING, GOES_ON_ASKING),
        # No DNS name follows it.
        ((), Phase.KEPT, KEPT),
    ],
)
def test_a_failback_that_has_kept_its_standby_goes_on_asking_a_name_server_that_is_away(
    asked: tuple[StepRecord, ...], phase: Phase, goes_on: set[Step | Outcome]
) -> None:
    handed_over = (StepRecord(step, 1.0, 2.0, True, proof(step)) for step in (*UP_TO_HAND_OVER, Step.PROBE))
    keeps = StepRecord(Step.KEEP, 1.0, 2.0, True, proof(Step.KEEP))
    kept = Episode(1, "web", 1, "a test", Request(back=True), 0.0, (*handed_over, *asked, keeps))
    assert phase_of(kept) is phase
    assert allowed(kept) == goes_on


@pytest.mark.parametrize(("chain", "done"), UP_TO)
@pytest.mark.parametrize("step", Step)
def test_the_journal_begins_only_what_the_table_has(
    chain: Sequence[Step], done: int, step: Step, tmp_path: Path
) -> None:
    journal = Journal(tmp_path / "journal.db")
    episode = up_to(journal, chain, done)
    before = journal.episode(episode.id)
    assert before is not None
    if step in allowed(before):
        journal.begin(episode, step, 2.0)
        return
    epoch = journal.state("web").epoch
    with pytest.raises(InternalError, match="a bug of VCRecovery"):
        journal.begin(episode, step, 2.0)
    assert journal.episode(episode.id) == before
    assert journal.state("web").epoch == epoch


@pytest.mark.parametrize(("chain", "done"), UP_TO)
@pytest.mark.parametrize("outcome", Outcome)
def test_the_journal_ends_an_episode_only_as_the_table_has_it(
    chain: Sequence[Step], done: int, outcome: Outcome, tmp_path: Path
) -> None:
    journal = Journal(tmp_path / "journal.db")
    episode = up_to(journal, chain, done)
    before = journal.episode(episode.id)
    assert before is not None
    if outcome in allowed(before):
        journal.close(episode, outcome, "so it is", 2.0)
        assert journal.state("web").open_episode is None
    else:
        with pytest.raises(InternalError):
            journal.close(episode, outcome, "so it is", 2.0)
        assert journal.episode(episode.id) == before


def fence_that_failed(journal: Journal, episode: Episode) -> None:
    journal.end(journal.begin(episode, Step.FENCE, 2.0), 2.0, ok=False, evidence=Failed("no route to the BMC"))


def test_a_failover_is_withdrawn_only_while_its_fence_was_never_proved(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    episode = up_to(journal, FAILOVER, 1)
    with pytest.raises(InternalError):
        journal.close(episode, Outcome.WITHDRAWN, "it serves", 2.0)
    fence_that_failed(journal, episode)
    # That the look after it failed makes it no failover that was not begun.
    journal.end(journal.begin(episode, Step.CONFIRM, 3.0), 3.0, ok=False, evidence=Failed("the disk is full"))
    with pytest.raises(InternalError):
        journal.close(episode, Outcome.REFUSED, "no", 4.0)
    journal.close(episode, Outcome.WITHDRAWN, "it serves", 4.0)
    assert journal.state("web").withdrawn_at == 4.0
    assert journal.state("web").failed_over_at is None


def test_what_was_proved_off_once_is_neither_looked_at_again_nor_withdrawn(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    episode = up_to(journal, FAILOVER, 2)
    fence_that_failed(journal, episode)
    with pytest.raises(InternalError, match="fencing again"):
        journal.begin(episode, Step.CONFIRM, 3.0)
    with pytest.raises(InternalError, match="fencing again"):
        journal.close(episode, Outcome.WITHDRAWN, "it serves", 3.0)


def test_what_the_caller_believes_does_not_count(tmp_path: Path) -> None:
    """It may have an episode in its hands that another controller has closed or that never got so far."""
    journal = Journal(tmp_path / "journal.db")
    episode = up_to(journal, FAILOVER, 1)
    fenced = replace(episode, steps=tuple(StepRecord(step, 1.0, 1.0, True) for step in (Step.CONFIRM, Step.FENCE)))
    with pytest.raises(InternalError, match="'start' must not follow"):
        journal.begin(fenced, Step.START, 2.0)
    journal.close(episode, Outcome.REFUSED, "no", 2.0)
    with pytest.raises(InternalError, match="closed"):
        journal.begin(episode, Step.FENCE, 3.0)
    with pytest.raises(InternalError, match="closed"):
        journal.close(episode, Outcome.DONE, "yes", 3.0)


def test_a_failed_try_takes_the_episode_back(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    episode = up_to(journal, FAILOVER, 4)
    journal.end(journal.begin(episode, Step.PROBE, 2.0), 2.0, ok=False, evidence=Failed("closed"))
    with pytest.raises(InternalError):
        journal.begin(episode, Step.SWITCH, 2.0)


def test_what_cannot_be_finished_is_given_up_when_the_primary_serves_again(tmp_path: Path) -> None:
    """Or the next controller would go on with it, and start a standby beside its primary."""
    journal = Journal(tmp_path / "journal.db")
    episode = up_to(journal, FAILOVER, 3)
    journal.serve_from_primary("web", 5.0)
    closed = journal.episode(episode.id)
    assert closed is not None
    assert (closed.outcome, closed.closed_at) == (Outcome.GIVEN_UP, 5.0)
    assert journal.state("web").open_episode is None
    with pytest.raises(InternalError):
        journal.begin(episode, Step.PROBE, 6.0)


@pytest.mark.parametrize("steps", [0, 1])
def test_one_that_was_not_fenced_yet_is_given_up_too(steps: int, tmp_path: Path) -> None:
    """Or the watcher would go on with it, and take the service from its primary again."""
    journal = Journal(tmp_path / "journal.db")
    up_to(journal, FAILOVER, steps)
    journal.serve_from_primary("web", 5.0)
    assert journal.state("web").open_episode is None
