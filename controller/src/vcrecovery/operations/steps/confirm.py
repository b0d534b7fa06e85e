"""Confirm: signals that do not depend on each other, asked at the same time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from vcrecovery.core.cpu import CpuSample, utilisation
from vcrecovery.core.episode import SEEN_TO_END, Episode, Step, Symptom
from vcrecovery.core.evidence import Confirmation
from vcrecovery.core.power import Power
from vcrecovery.core.service_down import FromTheVm
from vcrecovery.core.sighting import Place
from vcrecovery.drivers.probe import Result
from vcrecovery.drivers.runtime import ask
from vcrecovery.errors import ExternalError
from vcrecovery.operations.room import keeping_problem
from vcrecovery.operations.serving import files_arrive
from vcrecovery.operations.steps.against import against
from vcrecovery.operations.steps.ages import Ages, ages_of
from vcrecovery.operations.steps.moving import problem_of_the_copy, serves_on
from vcrecovery.operations.steps.restore import find_restore_point
from vcrecovery.operations.steps.subject import Subject
from vcrecovery.operations.written_off import was_given_up
from vcrecovery.standby.container import EPOCH_KEY, READY_KEY, epoch_of
from vcrecovery.transfer.freshness import Freshness, read_age

if TYPE_CHECKING:
    from concurrent.futures import Future

#: Seconds between the two readings that say how much CPU a VM uses now.
USED_OVER = 1.0
#: Seconds by which its primary's ports may have been asked before the confirmation.
ASKED_AHEAD = 1.5
_BY_CPU = (Symptom.CPU_ZERO, Symptom.CPU_HIGH)

Ports = Callable[[], list[Result]]


def ask_ports(subject: Subject) -> Ports:
    """Whether the primary's ports answer; asked in a thread of its own."""
    primary, timeout = str(subject.service.primary.address), subject.service.timeouts.confirm
    targets = [(primary, port) for port in subject.service.ports]
    probes = subject.env.probes
    return ask(subject.env.runtime, lambda: probes.ask_all(targets, timeout), f"ports of {subject.name}").result


class PortsAskedAhead:
    """A dead primary's ports take their whole timeout, and LXD's first answer as long: both are waited for at once."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._asked: tuple[float, Ports] | None = None

    def ask(self) -> None:
        self._asked = (self._subject.env.clock.steady(), ask_ports(self._subject))

    def take(self) -> Ports:
        """What was asked just now, once; else they are asked."""
        asked, self._asked = self._asked, None
        if asked is not None and self._subject.env.clock.steady() - asked[0] <= ASKED_AHEAD:
            return asked[1]
        return ask_ports(self._subject)


def confirm(subject: Subject, episode: Episode, ports: Ports) -> Confirmation:
    """What libvirt says now, whether the `ports` answer, and, where the CPU made us look, whether it still does what
    it did. Raises ExternalError when LXD does not answer and the same failover can be tried again.
    """
    runtime, name = subject.env.runtime, subject.name
    standby = ask(runtime, lambda: _look_at_standby(subject, episode), f"standby of {name}")
    cpu_asked: Future[float | None] | None = None
    if episode.request.symptom in _BY_CPU:
        cpu_asked = ask(runtime, lambda: _cpu_used_now(subject), f"CPU of {name}")
    place = subject.find_primary()
    reading = place.reading
    found, (trouble, fresh) = ports(), standby.result()
    cpu = cpu_asked.result() if cpu_asked is not None else None
    ages = _ages(subject, episode, fresh)
    point, problem = find_restore_point(subject, episode)
    no_way_back = _no_way_back(subject, episode)
    sends, unwell = None, ""
    if episode.request.symptom is Symptom.SERVICE_DOWN:
        sends = files_arrive(subject.env, name)
        unwell = FromTheVm(ages.heard, fresh.units, sends).unwell(subject.policy.no_heartbeat_for)
    fence_command = subject.env.plan.hypervisors[subject.host.name].fence is not None
    neighbours: tuple[str, ...] = ()
    if fence_command and reading.power is Power.UNREACHABLE:
        neighbours = subject.env.neighbours.answering(subject.host.name, besides=name)
    return Confirmation(
        asked_for=episode.request.looks_for,
        serves_on=_serves_on(subject, episode),
        restore_asked=episode.request.restore_point,
        restore_problem=problem,
        restore_age=None if point is None else subject.env.clock.now() - point.taken_at,
        host=place.host,
        power=reading.power,
        reason=reading.reason,
        detail=reading.detail,
        starts_by_itself=reading.starts_by_itself,
        also_on=tuple(place.also_on),
        silent=tuple(place.silent),
        vanished=reading.power is Power.ABSENT and episode.request.symptom in SEEN_TO_END,
        cpu=cpu,
        heard=ages.heard,
        fence_command=fence_command,
        neighbours=neighbours,
        open_ports=tuple(result.label for result in found if result.ok),
        reached=tuple(result.label for result in found if result.reached),
        closed_ports=tuple(result.label for result in found if not result.ok),
        units=fresh.units,
        sends=sends,
        boot=fresh.boot,
        final=fresh.final,
        problems=against(subject, episode),
        standby_problem=trouble,
        freshness=ages.files,
        freshness_detail=ages.detail,
        summary=_summary(place, str(subject.service.primary.address), found, cpu, unwell, no_way_back),
    )


def _summary(place: Place, primary: str, found: list[Result], cpu: float | None, *more: str) -> str:
    answering = [result.label for result in found if result.ok]
    unwell = [str(result) for result in found if result.reached and not result.ok]
    on_ports = f"{', '.join(answering)} answers" if answering else f"no port of {primary} answers"
    on_cpu = [] if cpu is None else [f"{cpu:.1f} % CPU"]
    words = [f"{place.host}: {place.reading}", on_ports, *unwell, *on_cpu, *more]
    return "; ".join(word for word in words if word)


def _cpu_used_now(subject: Subject) -> float | None:
    """Per cent of the primary's CPUs, over a second; only asked for when the CPU is why we look."""

    def sample() -> CpuSample | None:
        usage = subject.host.usage([subject.uuid]).get(subject.uuid)
        return None if usage is None else CpuSample(subject.env.clock.steady(), usage.cpu_time, usage.vcpus)

    try:
        before = sample()
        subject.env.clock.sleep(USED_OVER)
        after = sample()
    except ExternalError:
        return None
    return None if before is None or after is None else utilisation(before, after)


def _look_at_standby(subject: Subject, episode: Episode) -> tuple[str, Freshness]:
    """What is wrong with it, and how old it is; one after the other, since each connection costs a handshake."""
    problem = _standby_problem(subject, episode)
    enough = partial(_is_enough, subject, episode)
    if episode.request.to is not None:
        # How old a copy is, was seen above.
        return problem, Freshness(None)
    try:
        if why := _given_up(subject):
            return problem, Freshness(None, why)
        return problem, read_age(subject.lxd, subject.name, subject.secondary, enough)
    except ExternalError as error:
        if not problem and _is_tried_again(episode):
            raise
        return problem, Freshness(None, error.message)


def _standby_problem(subject: Subject, episode: Episode) -> str:
    """Why there is nothing to fail over to; empty when there is. Asked before the primary is touched."""
    name = subject.name
    try:
        if episode.request.to is not None and (why := problem_of_the_copy(subject, episode)):
            return why
        instance = subject.standby_just_read() or subject.read_standby()
    except ExternalError as error:
        if _is_tried_again(episode):
            raise
        return str(error)
    if instance is None and episode.request.moves:
        return ""
    if instance is None:
        return f"secondary {subject.lxd.name} has no container {name}; the role `secondary` makes it"
    if instance.config.get(READY_KEY) != "true":
        return f"the standby of {name} was never made ready; run the role `secondary`"
    if epoch_of(instance) > episode.epoch:
        return f"container {name} belongs to epoch {instance.config[EPOCH_KEY]}; see `vcrecovery history`"
    return ""


def _given_up(subject: Subject) -> str:
    """Why its age says nothing: its secondary was lost while it served, and its VM has written since then."""
    up_to = subject.env.journal.written_off(subject.name)
    found = None if up_to is None else subject.read_standby()
    if found is None or not was_given_up(found, up_to):
        return ""
    return (
        f"its container holds what it had when {subject.lxd.name} was lost; `vcrecovery standby reset "
        f"{subject.name}` has it stand by again"
    )


def _serves_on(subject: Subject, episode: Episode) -> str:
    if episode.request.to is None or episode.request.moves:
        return ""
    return serves_on(subject, episode)


def _is_tried_again(episode: Episode) -> bool:
    """Whether a confirmation that LXD does not answer fails, and is not refused.

    LXD may just be restarted, and nobody would call again: the primary is not touched, the step is tried again.
    One that is refused is given up.
    """
    return episode.request.automatic and not episode.tried(Step.FENCE)


def _no_way_back(subject: Subject, episode: Episode) -> str:
    """Why no rollback of a failback will be possible; that forbids nothing."""
    if not episode.request.back:
        return ""
    why = keeping_problem(subject.lxd, subject.secondary.storage_pool, subject.name)
    return f"no rollback will be possible: {why}" if why else ""


def _is_enough(subject: Subject, episode: Episode, fresh: Freshness) -> bool:
    """Whether nothing newer could change the decision. That a guest hangs, a heartbeat of just now refutes."""
    if episode.request.planned or episode.request.back or episode.request.symptom in (*_BY_CPU, Symptom.SERVICE_DOWN):
        return False
    age = _ages(subject, episode, fresh).files
    return age is not None and age <= subject.policy.max_staleness


def _ages(subject: Subject, episode: Episode, fresh: Freshness) -> Ages:
    began_at, now = episode.request.began_at, subject.env.clock.now()
    if began_at is None:
        began_at = episode.opened_at - subject.policy.noticed_after(episode.request.symptom)
    off = subject.env.journal.off_times(subject.name)
    return ages_of(fresh, began_at=began_at, noticed_at=episode.opened_at, now=now, off=off)
