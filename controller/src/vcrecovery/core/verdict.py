"""From signals to a verdict: has it failed? Pure; the same for the controller's own watcher and for Zabbix's events.

The state counts, not the event that made us look: it can be read again after a restart, and libvirt keeps with it why
a VM is off, until its host reboots; then what was seen before decides (`recover.meaning` has both tables). A VM that an
operator shut down, destroyed or suspended has not failed; one whose QEMU died has. One that libvirt calls running has
failed only when two signals that do not depend on each other say so: its CPU and its ports.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from vcrecovery.core.cpu import SeenSymptom
from vcrecovery.core.episode import Symptom
from vcrecovery.core.health import Course, Health
from vcrecovery.core.meaning import End, Meaning, end_of, meaning_of
from vcrecovery.core.power import Power
from vcrecovery.core.sentences import listed
from vcrecovery.core.service_state import ServiceState, Side

#: Seconds for which nobody may have the VM in the middle of its migration, as far as is told.
MIGRATION_TAKES = 15.0


class Kind(StrEnum):
    HEALTHY = "healthy"
    #: Its machine is as it should be, and its ports do not answer.
    SERVICE_DOWN = "service down"
    FAILED = "failed"
    HUNG = "hung"
    OVERLOADED = "overloaded"
    HOST_SILENT = "host silent"
    COOLING = "cooling down"
    INTENDED = "intended"
    #: Its hypervisor is back, and starts it by itself in a moment.
    STARTING = "starting"
    #: A fault has paused it; it gets some time to be resumed.
    STALLED = "stalled"
    SUSPENDED = "suspended"
    UNKNOWN = "unknown"
    FAILED_OVER = "failed over"
    STALE_PRIMARY = "stale primary"


_NOT_OFF = frozenset({Power.RUNNING, Power.PAUSED, Power.UNREACHABLE})
#: These start a failover.
FAILURES = frozenset({Kind.FAILED, Kind.HUNG, Kind.HOST_SILENT})


@dataclass(frozen=True)
class Verdict:
    """`cause` is why a failover begins; it stays the same for as long as the reason does. One that is suspended has
    none, but a `symptom` all the same where it has failed.

    `began_at`: when the failure began, where that is known better than from its cause.
    """

    kind: Kind
    sentence: str
    cause: str = ""
    symptom: Symptom = Symptom.NONE
    began_at: float | None = None


@dataclass(frozen=True)
class Circumstances:
    """What else bears on a state. Times in seconds.

    `stalled`: for how long the VM has been paused by a fault. `starting`: how its hypervisor starts it by itself, while
    it has time for that. `maybe_on`: silent hypervisors to which it may have been moved unseen. `runs_on`: the
    hypervisors on which it runs, if there are several. `unwatched`: nobody has looked for long after it was seen last.
    `began_at`: when its failure began, if somebody has watched all the time.
    """

    seen_symptom: SeenSymptom | None = None
    stalled: float = 0.0
    stalled_for: float = 30.0
    starting: str = ""
    maybe_on: tuple[str, ...] = ()
    runs_on: tuple[str, ...] = ()
    unwatched: bool = False
    began_at: float | None = None


_NOTHING_ELSE = Circumstances()


def judge(
    state: ServiceState,
    power: Power,
    reason: str,
    now: float,
    *,
    cool_down: float = 0.0,
    also: Circumstances = _NOTHING_ELSE,
) -> Verdict:
    """What `power`, libvirt's `reason` and what `also` is known mean for a service in `state`. `cool_down` in s."""
    verdict = _late_fence(state, power, reason, now) or _of_signals(state, power, reason, now, also)
    name, said = state.service, _said(power, reason)
    off = state.side is Side.PRIMARY and power not in _NOT_OFF
    if not off and verdict.kind not in FAILURES:
        return verdict
    seen = f"{name}: the primary is {said}" if off else verdict.sentence
    if state.suspension_at(now):
        if verdict.kind in FAILURES:
            return Verdict(
                Kind.SUSPENDED, f"{seen}: down, and automatic failover is suspended", symptom=verdict.symptom
            )
        return Verdict(Kind.SUSPENDED, f"{seen}, and automatic failover is suspended: no failure")
    if state.seen_running_at is None:
        return Verdict(
            Kind.UNKNOWN, f"{seen}{' and' if off else '; the primary'} was never seen running: not a failure yet"
        )
    if verdict.kind in FAILURES and state.cools(cool_down, now):
        return Verdict(
            Kind.COOLING,
            f"{seen}, but it was failed over within the last {cool_down:.0f} s: find out why it fails again, then "
            f"`vcrecovery failover {name}`, or `vcrecovery acknowledge {name}` to fail over automatically",
        )
    return verdict


def with_health(verdict: Verdict, state: ServiceState, course: Course) -> Verdict:
    """A machine that is well serves nobody whose ports do not answer."""
    if course.health is not Health.DOWN or verdict.kind not in (Kind.HEALTHY, Kind.FAILED_OVER):
        return verdict
    return Verdict(Kind.SERVICE_DOWN, f"{state.service}: the {state.side} does not answer: {course.why}")


def _said(power: Power, reason: str) -> str:
    return f"{power} ({reason})" if reason else str(power)


def _late_fence(state: ServiceState, power: Power, reason: str, now: float) -> Verdict | None:
    """That it is off as if somebody had asked for that, when it was us: libvirtd had our destroy in its queue."""
    if state.side is Side.STANDBY or power in _NOT_OFF or not state.may_be_our_doing(reason, now):
        return None
    cause = f"libvirt: {_said(power, reason)}, soon after a fence that was not proved: it may have acted late"
    return Verdict(Kind.FAILED, f"{state.service}: the primary is {_said(power, reason)}", cause, Symptom.LATE_FENCE)


def _of_signals(state: ServiceState, power: Power, reason: str, now: float, also: Circumstances) -> Verdict:
    """What they say by themselves, before suspensions and the like."""
    name, said = state.service, _said(power, reason)
    if state.side is Side.STANDBY:
        episode = state.open_episode
        if episode is not None and episode.request.back:
            return Verdict(Kind.FAILED_OVER, f"{name}: the standby serves, and its VM is {said}, to go back to it")
        if power in (Power.RUNNING, Power.PAUSED):
            what = "beside the standby, as suspended" if state.suspension_at(now) else "although the standby serves"
            return Verdict(Kind.STALE_PRIMARY, f"{name}: the old primary is {said} {what}")
        return Verdict(Kind.FAILED_OVER, f"{name}: the standby serves")
    seen, last = meaning_of(power, reason), state.seen
    end, why = end_of(last.meaning if last is not None else None, seen)
    match end:
        case End.SILENT:
            return _silent(name, also.seen_symptom)
        case End.ALIVE if also.runs_on:
            return Verdict(
                Kind.UNKNOWN,
                f"{name}: the primary runs on {listed(also.runs_on)} at the same time: destroy one of them",
            )
        case End.ALIVE:
            return _alive(name, power, said, also.seen_symptom)
        case End.PAUSED:
            return Verdict(Kind.HEALTHY, f"{name}: the primary is {said}")
        case End.STALLED:
            return _stalled(name, said, now, also)
        case End.FAILED if seen is Meaning.GONE:
            return _gone(state, also)
        case End.FAILED:
            return _failed(state, seen, said, also)
        case End.INTENDED if also.unwatched and seen in (Meaning.SILENT, Meaning.LOST):
            what = "its hypervisor does not answer" if seen is Meaning.SILENT else f"the primary is {said}"
            return Verdict(
                Kind.UNKNOWN,
                f"{name}: {what}; {why}, but it was not watched since, so it may have been started and failed; if "
                f"it is to serve: `vcrecovery failover {name}`",
            )
        case End.INTENDED if seen is Meaning.SILENT:
            return Verdict(Kind.INTENDED, f"{name}: its hypervisor does not answer; {why}, no failure")
        case End.INTENDED:
            before = "requested shutdown" if seen is Meaning.STOPPED else why
            return Verdict(Kind.INTENDED, f"{name}: the primary is {said}: {before}, no failure")
        case End.ELSEWHERE:
            if last is not None and last.meaning is Meaning.MIGRATED and 0 <= now - last.since < MIGRATION_TAKES:
                return Verdict(Kind.HEALTHY, f"{name}: the primary is being migrated")
            return Verdict(
                Kind.UNKNOWN,
                f"{name}: the primary was migrated, and no hypervisor of the plan has it: it is not protected; add the "
                "one that has it to the plan",
            )
        case End.UNKNOWN if seen is Meaning.GONE:
            return Verdict(Kind.UNKNOWN, f"{name}: its hypervisor does not know the VM: check the plan")
        case End.UNKNOWN:
            return Verdict(Kind.UNKNOWN, f"{name}: the primary is {said}: {why}")


def _failed(state: ServiceState, seen: Meaning, said: str, also: Circumstances) -> Verdict:
    name = state.service
    if seen is not Meaning.LOST:
        return Verdict(Kind.FAILED, f"{name}: the primary is {said}", f"libvirt: {said}", Symptom.ENDED)
    if also.starting:
        return Verdict(
            Kind.STARTING, f"{name}: the primary is {said}; its hypervisor is back and starts it ({also.starting})"
        )
    if also.maybe_on:
        return Verdict(
            Kind.UNKNOWN,
            f"{name}: the primary is {said}, and may have been moved to {listed(also.maybe_on)} unseen, which does not "
            f"answer; if it does not run there: `vcrecovery failover {name}`",
        )
    cause = f"libvirt: {said}, and no shutdown was seen"
    return Verdict(Kind.FAILED, f"{name}: the primary is {said}", cause, Symptom.LOST, also.began_at)


def _gone(state: ServiceState, also: Circumstances) -> Verdict:
    name, answering = state.service, also.seen_symptom.answering if also.seen_symptom is not None else None
    seen = f"{name}: no hypervisor of the plan knows the VM any more"
    if also.maybe_on:
        return Verdict(Kind.UNKNOWN, f"{seen}, and {listed(also.maybe_on)} does not answer")
    if answering is None:
        return Verdict(Kind.UNKNOWN, seen)
    if answering:
        return Verdict(Kind.UNKNOWN, f"{seen}, but {', '.join(answering)} answers: add the one that has it to the plan")
    cause = "no hypervisor of the plan knows the VM any more, no shutdown was seen, and no port answers"
    return Verdict(Kind.FAILED, seen, cause, Symptom.LOST, also.began_at)


def _stalled(name: str, said: str, now: float, also: Circumstances) -> Verdict:
    patience = f"{also.stalled_for:g} s"
    if also.stalled < also.stalled_for:
        return Verdict(
            Kind.STALLED, f"{name}: the primary is {said}: it has failed unless it is resumed within {patience}"
        )
    cause = f"libvirt: {said} for {patience}, and it was not resumed"
    return Verdict(Kind.FAILED, f"{name}: the primary is {said}", cause, Symptom.STALLED, now - also.stalled)


def _alive(name: str, power: Power, said: str, seen_symptom: SeenSymptom | None) -> Verdict:
    if (
        power is Power.RUNNING
        and seen_symptom is not None
        and seen_symptom.symptom in (Symptom.CPU_ZERO, Symptom.CPU_HIGH)
    ):
        return _with_symptom(name, seen_symptom)
    return Verdict(Kind.HEALTHY, f"{name}: the primary is {said}")


def _silent(name: str, seen_symptom: SeenSymptom | None) -> Verdict:
    if seen_symptom is None or seen_symptom.symptom is not Symptom.HOST or seen_symptom.answering is None:
        return Verdict(Kind.UNKNOWN, f"{name}: its hypervisor does not answer")
    if seen_symptom.answering:
        answers = ", ".join(seen_symptom.answering)
        return Verdict(Kind.UNKNOWN, f"{name}: {seen_symptom.sentence}, but {answers} answers: no failure")
    cause = f"{seen_symptom.sentence}, and no port of the primary answers"
    return Verdict(Kind.HOST_SILENT, f"{name}: {cause}", cause, seen_symptom.symptom)


def _with_symptom(name: str, seen_symptom: SeenSymptom) -> Verdict:
    seen = f"{name}: the primary {seen_symptom.sentence}"
    if seen_symptom.answering is None:
        return Verdict(Kind.HEALTHY, f"{name}: the primary is running")
    if not seen_symptom.answering:
        what = "hangs: it uses no CPU" if seen_symptom.symptom is Symptom.CPU_ZERO else "hangs: it uses all its CPU"
        cause = f"the primary {what}, and no port answers"
        return Verdict(Kind.HUNG, f"{seen}, and no port answers: it hangs", cause, seen_symptom.symptom)
    answers = ", ".join(seen_symptom.answering)
    if seen_symptom.symptom is Symptom.CPU_HIGH:
        return Verdict(Kind.OVERLOADED, f"{seen}, but {answers} answers: overloaded, nothing is moved")
    return Verdict(Kind.HEALTHY, f"{seen}, but {answers} answers: no failure")


def failed_hosts(silent: Mapping[str, float], sites: Mapping[str, str], threshold: float, now: float) -> dict[str, str]:
    """The hypervisors that have failed, each with the sentence that says so.

    `silent`: hypervisor -> since when every question to it has failed. `sites`: hypervisor -> site, for all of them.
    When all hypervisors of a site are silent, the site has failed: one sentence for all of them.
    """
    failed: dict[str, str] = {}
    for site in dict.fromkeys(sites.values()):
        members = [host for host, where in sites.items() if where == site]
        quiet = [host for host in members if host in silent]
        over = [host for host in quiet if now - silent[host] >= threshold]
        if len(over) < len(quiet):
            continue  # some may follow in a moment: then it is the site, and is said once
        if len(members) > 1 and len(over) == len(members):
            said = f"site {site} has failed: its hypervisors {listed(sorted(over))} do not answer"
            failed.update(dict.fromkeys(over, said))
        else:
            failed.update({host: f"hypervisor {host} does not answer" for host in over})
    return failed
