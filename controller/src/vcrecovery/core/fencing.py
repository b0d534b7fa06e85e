"""When a primary may be fenced again, and when its hypervisor may be powered off. Pure.

The operator's fence command ends every VM on a hypervisor. By itself it is run only for a hypervisor that was silent
for long enough to have failed, never because of one VM whose hypervisor happens to be away; and never, failed or not,
while a primary on it still answers: then it is the way to the hypervisor that failed. Only an operator may weigh the
one against the other, with --force.

That is asked after each confirmation (`not_to_be_powered_off`, `not_again`), and once more right before the command
(`waited_for_libvirt`, `must_be_silent`): libvirt may have taken its whole time since the ports were asked, and a
network comes back piece by piece.
"""

from __future__ import annotations

from enum import Enum, auto

from vcrecovery.core.decisions import Blocked, Close
from vcrecovery.core.episode import Episode, Outcome, Request, Step, StepRecord, Symptom
from vcrecovery.core.evidence import Confirmation
from vcrecovery.core.policy import Policy
from vcrecovery.core.power import Power

#: Seconds for which the ports that a confirmation asked need not be asked again.
JUST_ASKED = 3.0


def served_just_now(request: Request, policy: Policy, now: float) -> bool:
    """Whether the standby served up to a moment ago, so that the fence of then still holds.

    A container that ends and starts again within seconds is no more of a second live copy than one that had gone on.
    Its end was seen, or this is not said of it.
    """
    return request.began_at is not None and 0 <= now - request.began_at <= policy.fence_valid_for


def operators_word(name: str) -> str:
    """The way out where nothing can be proved."""
    return f"if you know that the VM is down: `vcrecovery failover {name} --primary-is-down {name}`"


def _answers_without_libvirt(name: str, saw: Confirmation) -> str:
    return f"{name} still answers on {', '.join(saw.alive)}, although its hypervisor does not answer"


def not_to_be_powered_off(episode: Episode, saw: Confirmation) -> Close | Blocked | None:
    """Why the hypervisor, which does not answer, must not be powered off, or None. No fence was tried before."""
    request, name = episode.request, episode.service
    if not saw.fence_command or (request.automatic and request.symptom is not Symptom.HOST):
        # Of a hypervisor that has failed nothing but its return is news. Any other answered when the failure was seen.
        transient = request.automatic and request.symptom is not Symptom.HOST
        detail = saw.detail or "its hypervisor does not answer"
        return Close(
            Outcome.REFUSED, f"{name} cannot be fenced: {detail}", f"fix that, or, {operators_word(name)}", transient
        )
    if request.force:
        return None
    if saw.alive:
        sentence = _answers_without_libvirt(name, saw)
        if request.automatic:
            return Close(Outcome.FALSE_ALARM, f"{sentence}: no failure")
        return Close(
            Outcome.REFUSED, sentence, f"`vcrecovery failover {name} --force` powers the hypervisor off and fails over"
        )
    if saw.neighbours:
        sentence = (
            f"{name} cannot be fenced: its hypervisor does not answer, and powering it off would end what still "
            f"answers: {', '.join(saw.neighbours)}"
        )
        forced = f"`vcrecovery failover {name} --force` powers it off all the same"
        hint = f"fix libvirt there; {forced}; or, {operators_word(name)}"
        # A machine may fail piece by piece. Once they have ended too, nobody would ask for this one again.
        return Blocked(Step.CONFIRM, sentence, hint) if request.automatic else Close(Outcome.REFUSED, sentence, hint)
    return None


def not_again(episode: Episode, saw: Confirmation, policy: Policy) -> Close | Blocked | None:
    """Why a primary whose fence was tried and not proved is left alone, for good or for now.

    For good only when libvirt and the ports both say that it serves: then the fence has done nothing, or will be seen
    to act later, which is another failure. Where the two contradict each other, nobody knows what lives where. A
    network comes back piece by piece, so after libvirt the ports get as long as the hypervisor was silent.
    """
    if saw.power is Power.RUNNING:
        return _not_while_it_runs(episode, saw, policy)
    request, name = episode.request, episode.service
    if request.primary_is_down:
        return None
    if saw.power is not Power.UNREACHABLE:
        if not saw.alive and saw.reason != "migrated":
            return None
        where = f"{', '.join(saw.alive)} answers" if saw.alive else "it was migrated"
        said = f"the primary of {name} is {saw.power} on its hypervisor but {where}: it may run elsewhere"
        return Blocked(Step.FENCE, said, f"find out who has its address, or, {operators_word(name)}")
    if request.force:
        return None
    powers_off = f"fix libvirt there; `vcrecovery failover {name} --force` powers the hypervisor off and fails over"
    if saw.alive:
        hint = powers_off if saw.fence_command else "fix libvirt there"
        return Blocked(Step.FENCE, _answers_without_libvirt(name, saw), hint)
    if saw.neighbours and not request.keeps_up:
        said = (
            f"{name} is not fenced now: powering its hypervisor off would end what still answers: "
            f"{', '.join(saw.neighbours)}"
        )
        return Blocked(Step.FENCE, said, f"{powers_off} all the same; or, {operators_word(name)}")
    return None


def _not_while_it_runs(episode: Episode, saw: Confirmation, policy: Policy) -> Close | Blocked | None:
    request, name = episode.request, episode.service
    destroys = f"`vcrecovery failover {name} --force` destroys it and fails over"
    if request.primary_is_down:
        said = f"you say that the primary of {name} is down, but its hypervisor says that it is running"
        return Close(Outcome.WITHDRAWN, said, destroys)
    if request.force:
        return None
    if saw.open_ports:
        said = f"the primary of {name} serves ({saw.summary or saw.power}); its fence was never proved"
        mend = "see why the fence did not work, and that the VM still starts with its host (`virsh autostart`)"
        return Close(Outcome.WITHDRAWN, said, mend if request.automatic else destroys)
    patience = policy.host_silent_for
    if _was_away(episode.first_confirmed) and abs(episode.seen_running_for) < patience:
        said = f"the hypervisor of {name} is back and says that the primary runs, but no port answers yet"
        return Blocked(Step.FENCE, f"{said}; it is fenced when none has for {patience:.0f} s", destroys)
    return None


def _was_away(look: StepRecord | None) -> bool:
    return look is not None and look.saw.was_away


def libvirt_was_away(episode: Episode) -> bool:
    """Whether libvirt did not answer at the newest look. At the fence it may, and say something else."""
    return _was_away(episode.done(Step.CONFIRM))


def must_look_again(episode: Episode) -> bool:
    """Whether a primary that turns out to run, now that its hypervisor is back, is looked at before it is destroyed.

    One that was proved off before is not: nobody lets it live any more.
    """
    return libvirt_was_away(episode) and not (episode.request.force or episode.ever_fenced)


def ran_when_seen_last(episode: Episode) -> bool:
    """Whether it was active at the newest look at which a hypervisor had it: then somebody must have ended it."""
    looks = (record.saw.power for record in reversed(episode.steps) if record.step is Step.CONFIRM and record.was_done)
    newest = next((power for power in looks if power not in (Power.ABSENT, Power.UNREACHABLE)), None)
    return newest in (Power.RUNNING, Power.PAUSED)


def waited_for_libvirt(episode: Episode, now: float, silent_for: float) -> bool:
    """Whether libvirt, which does not answer at the fence, has had its time.

    Where it was away when the fence was decided, the decision has counted it. Where it went away only then, its
    libvirtd may restart: that gets `silent_for` seconds from the first try on.
    """
    begun = min((record.begun_at for record in episode.steps if record.step is Step.FENCE), default=now)
    return _was_away(episode.first_confirmed) or now - begun >= silent_for


class Silent(Enum):
    """What must not answer right before a hypervisor is powered off, or it is not."""

    NOTHING = auto()
    NEIGHBOURS = auto()
    PRIMARY_TOO = auto()


def must_be_silent(episode: Episode, now: float) -> Silent:
    """The other primaries always, but for an operator who knew that libvirt was away, and what was just asked.

    The primary itself not any more once it was proved off, and not by force.
    """
    confirm, force = episode.done(Step.CONFIRM), episode.request.force
    if force and _was_away(episode.first_confirmed):
        return Silent.NOTHING
    if force or episode.ever_fenced:
        return Silent.NEIGHBOURS
    if confirm is not None and confirm.saw.was_away and 0 <= now - confirm.begun_at <= JUST_ASKED:
        return Silent.NOTHING
    return Silent.PRIMARY_TOO
