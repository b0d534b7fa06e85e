"""The decision core: from what is known of one failover to its next step. Pure; no clock, no I/O.

The order of the steps is the order of the promises (README): nothing starts before the fence, nothing is switched to
a port that was not seen open at this epoch.
"""

from __future__ import annotations

from vcrecovery.core import planned
from vcrecovery.core.decisions import GO, Blocked, Close, Decision, Go, Readiness, Run, Unmet, Wait
from vcrecovery.core.episode import Episode, Outcome, Step, StepRecord, Symptom
from vcrecovery.core.evidence import Confirmation
from vcrecovery.core.failback import next_of_failback
from vcrecovery.core.fencing import not_again, not_to_be_powered_off, operators_word, served_just_now
from vcrecovery.core.meaning import Meaning, meaning_of
from vcrecovery.core.move import next_of_move
from vcrecovery.core.policy import Policy
from vcrecovery.core.power import ASKED, ENDED_BY_A_FENCE, OFF, Power
from vcrecovery.core.sentences import listed
from vcrecovery.core.service_down import FromTheVm
from vcrecovery.core.standby_end import TRIES
from vcrecovery.core.verification import next_of_verification
from vcrecovery.core.waiting_move import next_of_waiting_move


def decide(episode: Episode, policy: Policy, now: float, readiness: Readiness = GO) -> Decision:
    """The next thing to do for `episode`; one human sentence says why. `readiness` counts before the start only."""
    if episode.request.back:
        return next_of_failback(episode, policy, now)
    if episode.request.leaves is not None:
        return next_of_waiting_move(episode, policy, now)
    if episode.request.moves:
        return next_of_move(episode, policy, now, readiness)
    if (given_up := _given_up(episode)) is not None:
        return given_up
    if episode.request.planned and episode.has_acted:
        next_step = planned.up_to_the_start(episode, now, readiness)
        if next_step is not None:
            return next_step
    if not episode.tried(Step.FENCE):
        return _up_to_the_fence(episode, policy, now)
    fence = episode.fence
    if fence is None:
        return _until_it_is_proved(episode, policy, now)
    if episode.started is None:
        return _up_to_the_start(episode, fence, readiness, policy, now)
    switched = episode.done(Step.SWITCH)
    if switched is None:
        return _up_to_the_switch(episode, policy, now)
    if episode.done(Step.VERIFY) is None:
        return next_of_verification(episode, policy, now)
    where = f" on {episode.request.to}" if episode.request.to else ""
    return Close(Outcome.DONE, f"{episode.service} is served by its standby{where}")


def _given_up(episode: Episode) -> Blocked | None:
    """A standby that does not come up again is not tried for ever; an operator's call tries it once more."""
    if not episode.request.keeps_up:
        return None
    failed = [r for r in episode.steps if r.step in (Step.START, Step.PROBE) and r.error]
    if len(failed) < TRIES:
        return None
    name, last = episode.service, failed[-1]
    hint = f"find out why, then `vcrecovery failover {name}`"
    return Blocked(last.step, f"given up after {len(failed)} tries: {last.error}", hint, for_good=True)


def _up_to_the_fence(episode: Episode, policy: Policy, now: float) -> Decision:
    confirm = episode.done(Step.CONFIRM)
    if confirm is None:
        return Run(Step.CONFIRM, _why_confirm(episode))
    if not confirm.is_recent(policy.confirmation_valid_for, now):
        return Run(Step.CONFIRM, f"{_signals_of_then(confirm, now)}: asking again")
    if not _was_looked_at_now(episode, confirm, policy, now):
        return Run(Step.CONFIRM, f"to look took {now - confirm.begun_at:.0f} s: asking again")
    if confirm.saw.asked_for != episode.request.looks_for:
        return Run(Step.CONFIRM, f"{episode.cause}: checking for that what was not looked at")
    if confirm.saw.restore_asked != episode.request.restore_point:
        return Run(Step.CONFIRM, f"asking whether there is a restore point {episode.request.restore_point}")
    objection = _objection(episode, confirm.saw, policy, now)
    if isinstance(objection, Close) and episode.has_acted:
        # It was a switchover, and its VM is on its way down: nobody closes that.
        return Blocked(Step.CONFIRM, objection.sentence, objection.hint)
    if objection is None and episode.request.planned:
        return planned.shut_down(episode)
    return objection or Run(Step.FENCE, _why_fence(episode, confirm.saw))


def _until_it_is_proved(episode: Episode, policy: Policy, now: float) -> Decision:
    """The fence was tried, and nobody knows what came of it.

    The primary may have served all the time, behind a network that the fence did not cross either. So before each try
    somebody looks again. Once it was proved off, the only way is forward.
    """
    if episode.ever_fenced:
        return Run(Step.FENCE, "the primary was fenced before, and may be back: fencing it again")
    seen = episode.looked_since_the_fence
    if (
        seen is None
        or not seen.is_recent(policy.confirmation_valid_for, now)
        or not _was_looked_at_now(episode, seen, policy, now)
    ):
        return Run(Step.CONFIRM, "the fence is not proved yet: checking first whether the primary serves")
    if where := seen.saw.serves_on:
        # What it writes there would be lost, by a fence that was tried when it did not answer.
        name, to = episode.service, episode.request.to
        said = f"{name} serves on {where} after all, and its fence was not proved"
        return Close(Outcome.WITHDRAWN, said, f"`vcrecovery move {name} --to {to}` moves it, and loses nothing")
    return not_again(episode, seen.saw, policy) or Run(Step.FENCE, _why_fence_again(episode, seen.saw))


def _up_to_the_start(episode: Episode, fence: StepRecord, readiness: Readiness, policy: Policy, now: float) -> Decision:
    if policy.on_demand and not episode.is_powered_on:
        return Run(Step.POWER_ON, "the primary is fenced: powering its secondary on")
    step = Step.START if episode.to_restore is None else Step.RESTORE
    match readiness:
        case Wait(reason):
            return Wait(f"the primary is fenced; {reason}")
        case Unmet(reason, hint):
            return Blocked(step, reason, hint, unmet=True)
        case Go():
            pass
    if not fence.is_recent(policy.fence_valid_for, now):
        return Run(Step.FENCE, f"{_fenced_then(fence, now)}, and may be back: fencing it again")
    if step is Step.RESTORE:
        return Run(step, f"the standby goes back to restore point {episode.to_restore}")
    return Run(step, "the primary is fenced: starting the standby")


def _up_to_the_switch(episode: Episode, policy: Policy, now: float) -> Decision:
    probe = episode.done(Step.PROBE)
    if probe is None:
        return Run(Step.PROBE, "the standby runs: waiting for its ports")
    if not policy.has_dns:
        return Close(Outcome.DONE, f"{episode.service} is served by its standby; no DNS name follows it")
    if not episode.ports_seen_open(policy.probe_valid_for, now):
        return Run(Step.PROBE, f"{_seen_open(probe, now)}: looking again")
    return Run(Step.SWITCH, "every port answers: switching DNS")


def _ago(record: StepRecord, now: float) -> float:
    """Seconds; below zero when the clock was set back since."""
    assert record.ended_at is not None  # noqa: S101  `done` returns ended records only
    return now - record.ended_at


def _was_looked_at_now(episode: Episode, confirm: StepRecord, policy: Policy, now: float) -> bool:
    """Whether what was seen first is not old by now, as when the machine of the controller stood still meanwhile.

    Where answers are that slow every time, to ask again makes nothing better.
    """
    if now - confirm.begun_at <= policy.confirmation_valid_for + policy.look_takes:
        return True
    looks = [r for r in episode.steps if r.step is Step.CONFIRM and r.was_done and r.begun_at < confirm.begun_at]
    return bool(looks) and _took(confirm) <= 2 * _took(looks[-1])


def _took(look: StepRecord) -> float:
    return 0.0 if look.ended_at is None else look.ended_at - look.begun_at


def _signals_of_then(confirm: StepRecord, now: float) -> str:
    ago = _ago(confirm, now)
    return f"the signals are {ago:.0f} s old" if ago >= 0 else "the clock was set back since the signals came"


def _fenced_then(fence: StepRecord, now: float) -> str:
    if _ago(fence, now) >= 0:
        return "the primary was fenced a while ago"
    return "the primary was fenced before the clock was set back"


def _seen_open(probe: StepRecord, now: float) -> str:
    ago = _ago(probe, now)
    return f"the ports were seen open {ago:.0f} s ago" if ago >= 0 else "the clock was set back since the ports opened"


def _why_confirm(episode: Episode) -> str:
    if episode.request.automatic:
        return f"asking for a second signal: {episode.cause}"
    return f"{episode.cause}: checking the primary first"


def _why_fence(episode: Episode, saw: Confirmation) -> str:
    if episode.request.to is not None:
        return f"it goes on on {episode.request.to} ({saw.summary}): fencing where it served, and the old primary again"
    if episode.request.again and not episode.request.primary_is_down:
        what = "has ended" if episode.request.automatic else "does not answer"
        return f"its standby {what} ({saw.summary}): fencing the old primary again"
    if episode.request.primary_is_down:
        return "the operator says that the primary is down"
    if episode.request.force:
        return f"forced ({saw.summary}): fencing the primary"
    return f"failure confirmed ({saw.summary}): fencing the primary"


def _why_fence_again(episode: Episode, saw: Confirmation) -> str:
    summary = saw.summary
    if episode.request.to is not None:
        return f"not proved yet ({summary}): fencing where it served again"
    if episode.request.primary_is_down:
        return "the operator says that the primary is down"
    if episode.request.force and saw.power is Power.RUNNING and saw.open_ports:
        return f"the primary serves ({summary}), but this failover is forced: fencing it"
    return f"not proved yet ({summary}): fencing the primary again"


def _objection(episode: Episode, saw: Confirmation, policy: Policy, now: float) -> Close | Blocked | None:
    """Why this failover must not happen, or not now, or None."""
    if episode.request.planned:
        return planned.objection(episode, saw, policy)
    if saw.serves_on and episode.request.automatic:
        return Close(Outcome.FALSE_ALARM, f"{episode.service} answers on {saw.serves_on}: no failure")
    if problem := saw.standby_problem:
        # Not even by force: the primary would be destroyed with nothing to start in its place.
        return Close(Outcome.REFUSED, f"{episode.service} has no standby to start: {problem}", "fix that first")
    if problem := saw.restore_problem:
        return Close(Outcome.REFUSED, problem, f"`vcrecovery standby snapshots {episode.service}` lists them")
    if episode.request.keeps_up:
        return _not_brought_up(episode, saw, policy, now)
    return _not_failed(episode, saw, policy) or _too_stale(episode, saw, policy)


def _not_failed(episode: Episode, saw: Confirmation, policy: Policy) -> Close | Blocked | None:
    request, name = episode.request, episode.service
    power, reason, alive = saw.power, saw.reason, saw.alive
    may_be_elsewhere = power is Power.ABSENT and not saw.vanished and not request.again
    if request.primary_is_down:
        if power is Power.RUNNING:
            return Close(
                Outcome.REFUSED,
                f"you say that the primary of {name} is down, but its hypervisor says that it is running",
                f"`vcrecovery failover {name} --force` destroys it and fails over",
            )
        if request.of_several and may_be_elsewhere:
            # Whoever says that a host is down does not mean a VM that has left it.
            return Close(
                Outcome.REFUSED,
                f"you say that the primary of {name} is down, but its hypervisor answers, and does not know the VM",
                f"find out where it is; {operators_word(name)}",
            )
        return None
    if power is Power.UNREACHABLE:
        return not_to_be_powered_off(episode, saw)
    if request.again and power is Power.RUNNING and not request.force:
        return Close(
            Outcome.REFUSED,
            f"the standby of {name} is to serve and does not answer, but its old primary runs ({saw.summary})",
            f"`vcrecovery standby reset {name}` has that one serve; `vcrecovery failover {name} --force` destroys it",
        )
    word = operators_word(name)
    if may_be_elsewhere:
        return Close(
            Outcome.REFUSED,
            f"{name}: {saw.detail or 'its hypervisor does not know the VM'}",
            f"correct the plan, or, {word}",
        )
    lost_on_the_way = (
        request.automatic and request.symptom is Symptom.HOST and meaning_of(power, reason) is Meaning.LOST
    )
    if saw.silent and (power is Power.ABSENT or reason == "migrated" or lost_on_the_way):
        # Nobody knows whether one of the silent hypervisors has it, so none of them can be fenced for it.
        return Close(
            Outcome.REFUSED,
            f"{name}: the VM may have left its hypervisor for {listed(saw.silent)}, which does not answer",
            f"look there, or, {word}",
            transient=request.automatic,
        )
    if power in OFF and (alive or reason == "migrated"):
        # Its hypervisor has nothing to destroy, so a fence would prove nothing.
        where = f"{', '.join(alive)} answers" if alive else "it was migrated"
        return Close(
            Outcome.FALSE_ALARM if request.automatic else Outcome.REFUSED,
            f"the primary of {name} is off on its hypervisor but {where}: it may run elsewhere",
            f"add the hypervisor that has it to the plan, or, {word}",
        )
    ours = request.symptom is Symptom.LATE_FENCE and reason in ENDED_BY_A_FENCE
    if request.automatic and reason in ASKED and not ours:
        return Close(Outcome.FALSE_ALARM, f"the primary of {name} is off on request ({reason})")
    if request.automatic and request.symptom is Symptom.HOST and (how := saw.starts_by_itself):
        # The detector counts the time that its hypervisor gets for that.
        return Close(Outcome.FALSE_ALARM, f"the hypervisor of {name} is back, and starts the VM automatically ({how})")
    if request.force:
        return None
    if request.symptom is Symptom.SERVICE_DOWN and request.automatic:
        return _is_not_down(episode, saw, policy)
    if saw.open_ports:
        said = saw.summary or power.value
        if request.automatic:
            return Close(Outcome.FALSE_ALARM, f"{name} still answers ({said}): no failure")
        return Close(
            Outcome.REFUSED,
            f"{name} still answers on {', '.join(saw.open_ports)} ({said})",
            f"`vcrecovery failover {name} --force` destroys the VM and fails over",
        )
    if request.automatic and power not in OFF and power is not Power.ABSENT:
        return _does_not_hang(episode, saw, policy)
    return None


def _not_brought_up(episode: Episode, saw: Confirmation, policy: Policy, now: float) -> Close | None:
    """Why a standby that served, and has ended, is not brought up by itself: its old primary may live."""
    name, power, seconds = episode.service, saw.power, policy.fence_valid_for
    said = f"the standby of {name} is to serve and has ended"
    word = operators_word(name)
    why = hint = ""
    if power is Power.RUNNING:
        why = f"but its old primary runs ({saw.summary})"
        hint = f"`vcrecovery standby reset {name}` has that one serve; `vcrecovery failover {name} --force` destroys it"
    elif saw.alive:
        why = f"but {', '.join(saw.alive)} answers: its old primary may run elsewhere"
        hint = f"find out who has its address, or, {word}"
    elif power is Power.UNREACHABLE and not served_just_now(episode.request, policy, now):
        why = (
            f"unseen or more than {seconds:.0f} s ago, and the hypervisor of its old primary does not answer: nobody "
            "knows whether that is still off"
        )
        hint = f"fix that, or, {word}"
    elif saw.silent and (power is Power.ABSENT or saw.reason == "migrated"):
        why = f"and its old primary may be on {listed(saw.silent)}, which does not answer"
        hint = f"look there, or, {word}"
    return Close(Outcome.REFUSED, f"{said}, {why}", hint) if why else None


def _is_not_down(episode: Episode, saw: Confirmation, policy: Policy) -> Close | None:
    """Why a VM that runs, and of which a port does not answer, is left alone all the same."""
    name, from_the_vm = episode.service, FromTheVm(saw.heard, saw.units, saw.sends)
    if saw.power is not Power.RUNNING:
        return Close(Outcome.FALSE_ALARM, f"libvirt says that the primary of {name} is {saw.power}: something else")
    if not saw.closed_ports:
        return Close(Outcome.FALSE_ALARM, f"{name} answers again ({saw.summary})")
    if not from_the_vm.unwell(policy.no_heartbeat_for):
        return Close(Outcome.FALSE_ALARM, f"the VM of {name} works: {from_the_vm.well()}")
    return None


def _does_not_hang(episode: Episode, saw: Confirmation, policy: Policy) -> Close | None:
    """Why a primary that libvirt calls running, and of which no port answers, is left alone all the same.

    Closed ports alone may be a firewall. That the guest hangs wants its CPU as a second signal, and as a third that no
    heartbeat of it has come since.
    """
    name, symptom, power, used, heard = episode.service, episode.request.symptom, saw.power, saw.cpu, saw.heard
    if symptom is Symptom.STALLED and meaning_of(power, saw.reason) is Meaning.STALLED:
        return None
    if power is not Power.RUNNING or symptom not in (Symptom.CPU_ZERO, Symptom.CPU_HIGH):
        return Close(Outcome.FALSE_ALARM, f"libvirt says that the primary of {name} is {power}: no failure")
    if used is None:
        return Close(Outcome.FALSE_ALARM, f"how much CPU the primary of {name} uses cannot be read: no failure")
    if symptom is Symptom.CPU_ZERO and used > 0:
        return Close(Outcome.FALSE_ALARM, f"the primary of {name} uses its CPU again ({used:.1f} %): no failure")
    if symptom is Symptom.CPU_HIGH and used < policy.cpu_high:
        return Close(Outcome.FALSE_ALARM, f"the primary of {name} uses only {used:.1f} % of its CPUs: no failure")
    if heard is not None and heard < policy.noticed_after(symptom):
        return Close(Outcome.FALSE_ALARM, f"a heartbeat of {name} arrived after its CPU looked suspicious: no failure")
    return None


def _too_stale(episode: Episode, saw: Confirmation, policy: Policy) -> Close | None:
    # Who names a restore point wants an older state; what has served since has the newest one.
    if episode.request.again or episode.request.force or episode.request.restore_point is not None:
        return None
    name, age = episode.service, saw.freshness
    if age is None:
        return Close(
            Outcome.REFUSED,
            f"the age of the standby of {name} is not known: {saw.freshness_detail}",
            f"`vcrecovery failover {name} --force` starts it as it is",
        )
    if age > policy.max_staleness:
        return Close(
            Outcome.REFUSED,
            f"the standby of {name} is {age:.0f} s old, more than its max_staleness of {policy.max_staleness:.0f} s",
            f"`vcrecovery failover {name} --force` starts it as it is",
        )
    return None
