"""Fence: the primary is off, or its hypervisor, and that is proved. The rules are in `core.fencing`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from vcrecovery.core.domain import Destroyed, DomainReading
from vcrecovery.core.episode import Episode, Step
from vcrecovery.core.evidence import Fenced, ProvedBy
from vcrecovery.core.fencing import (
    Silent,
    libvirt_was_away,
    must_be_silent,
    must_look_again,
    operators_word,
    ran_when_seen_last,
    served_just_now,
    waited_for_libvirt,
)
from vcrecovery.core.power import OFF, Power
from vcrecovery.core.sentences import listed
from vcrecovery.drivers.libvirt import LibvirtHost
from vcrecovery.errors import ExternalError
from vcrecovery.operations.host_fence import fence_host
from vcrecovery.operations.steps.moving import end_it_where_it_served
from vcrecovery.operations.steps.subject import Subject

#: Seconds between two looks whether a VM that was destroyed is gone.
LOOK_EVERY = 0.05
_LOOKED_AT_FIRST = "run it again: it is re-checked before any action"


def fence(subject: Subject, episode: Episode) -> Fenced:
    """Raises ExternalError when nothing is proved."""
    fenced = _fence_the_primary(subject, episode)
    if episode.request.to is None:
        return fenced
    return replace(fenced, summary=f"{fenced.summary}; {end_it_where_it_served(subject, episode)}")


def _fence_the_primary(subject: Subject, episode: Episode) -> Fenced:
    env = subject.env
    if episode.request.planned:
        return _keep_off(subject, episode)
    if episode.request.primary_is_down:
        return Fenced(f"on the word of {episode.request.by}", ProvedBy.OPERATOR)
    command = env.plan.hypervisors[subject.host.name].fence
    asks = command is not None or libvirt_was_away(episode)
    power = subject.find_primary().reading.power if asks else None
    if power is Power.RUNNING and must_look_again(episode):
        raise ExternalError(
            f"hypervisor {subject.host.name} answers again, and says that the primary is running", _LOOKED_AT_FIRST
        )
    if power is Power.UNREACHABLE and episode.request.keeps_up:
        return _still_fenced(subject, episode)
    if power is Power.UNREACHABLE:
        # Not always the one that it was on before.
        host = subject.host.name
        command = env.plan.hypervisors[host].fence
        if command is not None and waited_for_libvirt(episode, env.clock.now(), env.plan.detection.host_silent_for):
            silent = partial(_refuse_what_answers, subject, episode, host)
            still = partial(_still_answering, subject, episode, host)
            said = fence_host(env, host, command, episode.opened_at, silent, still)
            return Fenced("; ".join([said, *_destroy_copies(subject)[0]]), ProvedBy.FENCE_COMMAND)
    return _destroy(subject, episode)


def _keep_off(subject: Subject, episode: Episode) -> Fenced:
    """It has shut down by itself. One that runs again is not ended: it has written since."""
    place, shut = subject.find_primary(), episode.done(Step.SHUTDOWN)
    if place.reading.power is Power.UNREACHABLE:
        # Nobody can start it there now. The standby has everything, and would wait for a hypervisor that has failed.
        off_at = -math.inf if shut is None or shut.ended_at is None else shut.ended_at
        age = subject.env.clock.now() - off_at
        if 0 <= age <= subject.policy.fence_valid_for:
            said = f"{place.host} does not answer; {age:.0f} s ago the VM was off"
            return Fenced(said, ProvedBy.LIBVIRT, Power.SHUTOFF)
        raise ExternalError(place.reading.detail or f"{place.host} does not answer")
    ran_again = place.reading.reason not in ("shutdown", "")
    if place.reading.power not in OFF or ran_again or place.also_on or not subject.host.keep_off(subject.uuid):
        raise ExternalError(f"VM {subject.uuid} is {place.reading} on {place.host}: it ran again after its shutdown")
    return Fenced(f"{place.host}: {place.reading}, and stays so", ProvedBy.LIBVIRT, place.reading.power)


def _still_fenced(subject: Subject, episode: Episode) -> Fenced:
    """No hypervisor is powered off since a container has ended."""
    name, host = subject.name, subject.host.name
    if not served_just_now(episode.request, subject.policy, subject.env.clock.now()):
        raise ExternalError(
            f"{name} cannot be fenced again: hypervisor {host} does not answer",
            f"fix that, or, {operators_word(name)}",
        )
    return Fenced(f"{host} does not answer; fenced before, and its standby has served since", ProvedBy.STANDBY)


def _refuse_what_answers(subject: Subject, episode: Episode, host: str) -> None:
    asks = must_be_silent(episode, subject.env.clock.now())
    if asks is Silent.NOTHING:
        return
    besides = subject.name if asks is Silent.NEIGHBOURS else ""
    if answering := subject.env.neighbours.answering(host, besides=besides):
        raise ExternalError(
            f"hypervisor {host} does not answer, but powering it off would end what does: {', '.join(answering)}",
            _LOOKED_AT_FIRST,
        )


def _still_answering(subject: Subject, episode: Episode, host: str) -> Sequence[str]:
    """What of `host` accepts a connection right now."""
    env, service = subject.env, subject.service
    if episode.request.force:
        # Whatever answers besides may be another machine's: nobody has asked before.
        ports = env.probes.alive(str(service.primary.address), service.ports, service.timeouts.confirm)
        return [f"{subject.name} ({', '.join(ports)})"] if ports else []
    return env.neighbours.answering(host, besides=subject.name if episode.ever_fenced else "", anew=True)


def _destroy(subject: Subject, episode: Episode) -> Fenced:
    host = subject.host
    reading, destroyed = _destroy_on(subject, host)
    # Only now: nothing that another hypervisor said before proves that it has no copy.
    copies, ended = _destroy_copies(subject)
    if reading.power is Power.ABSENT or reading.reason == "migrated":
        _refuse_one_that_went_on(subject, must_be_ended=ran_when_seen_last(episode) and not (destroyed.ended or ended))
    words = "; ".join([f"{host.name}: {reading}", *copies])
    return Fenced(words, ProvedBy.LIBVIRT, reading.power, destroyed.starts_with_host)


def _destroy_copies(subject: Subject) -> tuple[list[str], bool]:
    """A migration that broke half-way may have left it on two hypervisors. In words, and whether one was ended."""
    hosts, silent = subject.env.whereabouts.copies(subject.name, subject.host.name)
    done = {host: _destroy_on(subject, subject.env.hosts[host]) for host in hosts}
    found = [f"{host}: {reading}" for host, (reading, _) in done.items()]
    unasked = [f"{listed(silent)} not asked: no answer"] if silent else []
    return [*found, *unasked], any(destroyed.ended for _, destroyed in done.values())


def _refuse_one_that_went_on(subject: Subject, *, must_be_ended: bool) -> None:
    """Its hypervisor has no VM that could be ended: it may have left between the look and the fence."""
    was_on, place = subject.host.name, subject.find_primary()
    if place.reading.power in (Power.RUNNING, Power.PAUSED):
        raise ExternalError(f"VM {subject.uuid} is on {place.host} now", "run it again: it is fenced there")
    if place.reading.reason == "migrated":
        raise ExternalError(
            f"VM {subject.uuid} was migrated from {was_on}: it may run elsewhere",
            "add the hypervisor that has it to the plan, then run it again",
        )
    if must_be_ended and place.reading.power is Power.ABSENT:
        raise ExternalError(
            f"VM {subject.uuid} ran when it was seen last, and no hypervisor of the plan has it now: it may run "
            "elsewhere",
            f"add the hypervisor that has it to the plan, then run it again; or, {operators_word(subject.name)}",
        )


def _destroy_on(subject: Subject, host: LibvirtHost) -> tuple[DomainReading, Destroyed]:
    """Also keeps it from starting with that host."""
    uuid, clock, timeout = subject.uuid, subject.env.clock, subject.service.timeouts.fence
    deadline = clock.steady() + timeout
    destroyed = host.destroy(uuid, timeout)
    while (reading := host.read(uuid)).power not in OFF | {Power.ABSENT}:
        if clock.steady() > deadline:
            raise ExternalError(
                f"VM {uuid} is still {reading} on {host.name} after its destroy",
                "power it off by hand, then run it again",
            )
        clock.sleep(LOOK_EVERY)
    return reading, destroyed
