"""From signals to a verdict: has it failed? Pure; the same for the controller's own watcher and for Zabbix's events.

The state counts, not the event that made us look: it can be read again after a restart, and libvirt keeps with it why
a VM is off. A VM that an operator shut down, destroyed or suspended has not failed; one whose QEMU died has. One that
libvirt calls running has failed only when two signals that do not depend on each other say so: its CPU and its ports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from vcrecovery.detect.cpu import Suspicion
from vcrecovery.recover.states import Doubt, Power, ServiceState, Side

#: libvirt's words for an end that nobody asked for. `daemon`: libvirtd came back and the QEMU process was gone.
UNASKED = frozenset({"crashed", "failed", "daemon"})


class Kind(StrEnum):
    HEALTHY = "healthy"
    FAILED = "failed"
    HUNG = "hung"
    OVERLOADED = "overloaded"
    HOST_SILENT = "host silent"
    COOLING = "cooling down"
    INTENDED = "intended"
    PAUSED = "paused"
    UNKNOWN = "unknown"
    FAILED_OVER = "failed over"
    STALE_PRIMARY = "stale primary"


_NOT_OFF = frozenset({Power.RUNNING, Power.PAUSED, Power.UNREACHABLE})
#: These start a failover.
FAILURES = frozenset({Kind.FAILED, Kind.HUNG, Kind.HOST_SILENT})


@dataclass(frozen=True)
class Verdict:
    """`cause` is why a failover begins; it stays the same for as long as the reason does."""

    kind: Kind
    sentence: str
    cause: str = ""
    doubt: Doubt = Doubt.NONE


def judge(
    state: ServiceState,
    power: Power,
    reason: str,
    now: float,
    *,
    suspicion: Suspicion | None = None,
    cool_down: float = 0.0,
) -> Verdict:
    """What `power`, libvirt's `reason` and a suspicion mean for a service in `state`. `cool_down` in seconds."""
    verdict = _late_fence(state, power, reason, now) or _of_signals(state, power, reason, suspicion)
    name, said = state.service, _said(power, reason)
    off = state.side is Side.PRIMARY and power not in _NOT_OFF
    if not off and verdict.kind not in FAILURES:
        return verdict
    seen = f"{name}: the primary is {said}" if off else verdict.sentence
    if state.pause_at(now):
        return Verdict(Kind.PAUSED, f"{seen}, and the service is paused: no failure")
    if state.seen_running_at is None:
        return Verdict(Kind.UNKNOWN, f"{seen} and was never seen running: not a failure yet")
    if verdict.kind in FAILURES and state.cools(cool_down, now):
        return Verdict(
            Kind.COOLING,
            f"{seen}, but it was failed over within the last {cool_down:.0f} s: find out why it fails again, then "
            f"`vcrecovery failover {name}`, or `vcrecovery acknowledge {name}` to have it done",
        )
    return verdict


def _said(power: Power, reason: str) -> str:
    return f"{power} ({reason})" if reason else str(power)


def _late_fence(state: ServiceState, power: Power, reason: str, now: float) -> Verdict | None:
    """That it is off as if somebody had asked for that, when it was us: libvirtd had our destroy in its queue."""
    if state.side is Side.STANDBY or power in _NOT_OFF or not state.may_be_our_doing(reason, now):
        return None
    cause = f"libvirt: {_said(power, reason)}, soon after a fence that was not proved: it may have acted late"
    return Verdict(Kind.FAILED, f"{state.service}: the primary is {_said(power, reason)}", cause, Doubt.LATE_FENCE)


def _of_signals(state: ServiceState, power: Power, reason: str, suspicion: Suspicion | None) -> Verdict:
    """What they say by themselves, before pauses and the like."""
    name, said = state.service, _said(power, reason)
    if state.side is Side.STANDBY:
        if power in (Power.RUNNING, Power.PAUSED):
            return Verdict(
                Kind.STALE_PRIMARY,
                f"{name}: the old primary is {said} although the standby serves: shut it down",
            )
        return Verdict(Kind.FAILED_OVER, f"{name}: the standby serves")
    if power is Power.UNREACHABLE:
        return _silent(name, suspicion)
    if power is Power.RUNNING and suspicion is not None and suspicion.doubt in (Doubt.CPU_ZERO, Doubt.CPU_HIGH):
        return _doubtful(name, suspicion)
    if power in (Power.RUNNING, Power.PAUSED):
        return Verdict(Kind.HEALTHY, f"{name}: the primary is {said}")
    if power is Power.ABSENT and reason not in UNASKED:
        return Verdict(Kind.UNKNOWN, f"{name}: its hypervisor does not know the VM: look at the plan")
    if power is Power.CRASHED or reason in UNASKED:
        return Verdict(Kind.FAILED, f"{name}: the primary is {said}", f"libvirt: {said}")
    return Verdict(Kind.INTENDED, f"{name}: the primary is {said}: somebody asked for that, no failure")


def _silent(name: str, suspicion: Suspicion | None) -> Verdict:
    if suspicion is None or suspicion.doubt is not Doubt.HOST or suspicion.answering is None:
        return Verdict(Kind.UNKNOWN, f"{name}: its hypervisor does not answer")
    if suspicion.answering:
        answers = ", ".join(suspicion.answering)
        return Verdict(Kind.UNKNOWN, f"{name}: {suspicion.sentence}, but {answers} answers: no failure")
    cause = f"{suspicion.sentence}, and no port of the primary answers"
    return Verdict(Kind.HOST_SILENT, f"{name}: {cause}", cause, suspicion.doubt)


def _doubtful(name: str, suspicion: Suspicion) -> Verdict:
    seen = f"{name}: the primary {suspicion.sentence}"
    if suspicion.answering is None:
        return Verdict(Kind.HEALTHY, f"{name}: the primary is running")
    if not suspicion.answering:
        what = "hangs: it uses no CPU" if suspicion.doubt is Doubt.CPU_ZERO else "hangs: it uses all its CPU"
        cause = f"the primary {what}, and no port answers"
        return Verdict(Kind.HUNG, f"{seen}, and no port answers: it hangs", cause, suspicion.doubt)
    answers = ", ".join(suspicion.answering)
    if suspicion.doubt is Doubt.CPU_HIGH:
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


def listed(names: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
