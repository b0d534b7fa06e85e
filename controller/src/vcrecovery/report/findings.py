"""What a person has to do something about. Pure.

ATTENTION is for now, at 3 a.m. too: somebody has no service, or would have none if the primary failed now. WARNING can
wait for the morning. Each finding is one sentence and a way out.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from vcrecovery.core.drill import DrillOutcome, overdue_sentence
from vcrecovery.core.episode import Episode, Outcome, Symptom
from vcrecovery.core.health import Health
from vcrecovery.core.notice import TAKES_LONG, Topic
from vcrecovery.core.power import Power
from vcrecovery.core.text import day_and_time, plain, span
from vcrecovery.core.verdict import Kind
from vcrecovery.errors import ExitCode
from vcrecovery.report.view import OFF_ON_DEMAND, RUNS, NameView, ServiceView
from vcrecovery.store.notices import Unreached

#: Of a pool: what may be free before it is nearly full, and before next to nothing more arrives.
_LITTLE_FREE, _NOTHING_FREE = 0.10, 0.03
#: The state of a container that waits in each mode.
_WAITS = {"hot": "running", "warm": "running", "frozen": "frozen", "cold": "stopped"}


class Level(StrEnum):
    ATTENTION = "attention"
    WARNING = "warning"


@dataclass(frozen=True)
class Finding:
    """One thing about one service, or about a secondary's pool.

    `topic`: as what it is told to people who do not look; None for what they wish or are told by the operation itself.
    """

    level: Level
    service: str
    sentence: str
    hint: str = ""
    topic: Topic | None = None

    def __str__(self) -> str:
        return plain(f"{self.service}: {self.sentence}" + (f"; {self.hint}" if self.hint else ""))


def findings(view: ServiceView) -> list[Finding]:
    """What is to be done about one service, the most urgent first."""
    if view.serves_unknown_at is not None:
        # Whatever else is seen is taken for a primary's that serves: to act on it would lead away from who does.
        return [_behind(view, view.serves_unknown_at)]
    if view.goes_on_in_its_vm:
        return [_behind_its_vm(view)]
    found = [*_verdict(view), *_episode(view)]
    if view.no_place:
        # What is seen where the plan has it says nothing.
        sentence, hint = view.no_place
        said = f"{sentence}: nothing is done to it, also when it fails"
        found.append(Finding(Level.ATTENTION, view.name, said, hint, Topic.UNPROTECTED))
    else:
        found += [*_answers(view), *_standby(view), *_names(view), *_address(view)]
        found += [*_mode(view), *_spare(view), *_sync(view), *_never_sent(view), *_drills(view)]
    return sorted(found, key=lambda finding: finding.level is not Level.ATTENTION)


def _behind(view: ServiceView, epoch: int) -> Finding:
    """The journal of another controller has it, or that of before this one was put back to a backup."""
    name, on = view.name, view.plan.secondary
    does = "serves" if view.standby.state in RUNS else f"is to serve, and is {view.standby.state}"
    return Finding(
        Level.ATTENTION,
        name,
        f"its standby on {on} {does}, at epoch {epoch}, and the journal of this controller, at epoch "
        f"{view.state.epoch}, does not know that: another controller has failed over since, or this journal is an "
        "older one",
        "start no VM and leave DNS as it is; where no other controller is at work: "
        f"`vcrecovery failover {name} --force` has this one know",
        Topic.UNPROTECTED,
    )


def _behind_its_vm(view: ServiceView) -> Finding:
    name, epoch = view.name, view.state.epoch
    return Finding(
        Level.ATTENTION,
        name,
        f"by the journal of this controller its standby serves since epoch {epoch}, and its container on "
        f"{view.plan.secondary} stands by: another controller has gone back to its VM, or this journal is an older one",
        f"leave its VM and DNS as they are; `vcrecovery standby reset {name}` has this one know",
        Topic.UNPROTECTED,
    )


def all_findings(views: Sequence[ServiceView], more: Sequence[Finding] = ()) -> list[Finding]:
    """`more`: what is about no service."""
    found = [*(finding for view in views for finding in findings(view)), *pool_findings(views), *more]
    return sorted(found, key=lambda finding: finding.level is not Level.ATTENTION)


def exit_code(found: Sequence[Finding]) -> ExitCode:
    """Of `status --check`."""
    if any(finding.level is Level.ATTENTION for finding in found):
        return ExitCode.ATTENTION
    return ExitCode.WARNING if found else ExitCode.DONE


def _verdict(view: ServiceView) -> Iterator[Finding]:
    name, kind = view.name, view.verdict.kind
    sentence = view.verdict.sentence.removeprefix(f"{name}: ")

    def now(sentence: str, hint: str = "", topic: Topic = Topic.DOWN) -> Finding:
        return Finding(Level.ATTENTION, name, sentence, hint, topic)

    def later(sentence: str, hint: str = "", topic: Topic | None = None) -> Finding:
        return Finding(Level.WARNING, name, sentence, hint, topic)

    suspension = view.suspension
    until = "until further notice"
    if suspension is not None:
        if suspension.until is not None:
            until = f"until {day_and_time(suspension.until)}"
        yield later(f"automatic failover suspended {until} ({suspension.reason})", f"`vcrecovery resume {name}`")
    if (cools := view.cools_until) is not None and view.protected:
        yield later(
            f"no automatic failover until {day_and_time(cools)}", f"`vcrecovery acknowledge {name}` re-enables it"
        )
    match kind:
        case Kind.STALE_PRIMARY | Kind.HEALTHY if view.held_since is not None:
            since = day_and_time(view.held_since)
            yield later(
                f"the old primary came back after its failover: quarantined (paused) since {since}",
                f"{_shut_down(view)}; to work in it `vcrecovery suspend {name} --for forever`, then `virsh resume`; "
                f"`vcrecovery failback {name}` returns to it",
                Topic.UNPROTECTED,
            )
        case Kind.STALE_PRIMARY if suspension is not None:
            what = "is paused" if view.reading.power is Power.PAUSED else "runs"
            yield later(
                f"its VM {what} beside the standby, as you have allowed {until}",
                f"`vcrecovery failback {name}` returns to it",
            )
        case Kind.STALE_PRIMARY:
            yield now(sentence, f"{_shut_down(view)}; to work in it `vcrecovery suspend {name} --for forever`")
        case Kind.HEALTHY if view.reading.power is Power.PAUSED:
            hint = f"`virsh resume {view.plan.uuid}` on {view.plan.hypervisor}"
            yield later("the primary is paused", hint, Topic.DOWN)
        case Kind.SUSPENDED if view.verdict.symptom is not Symptom.NONE and view.state.open_episode is None:
            yield now(sentence, f"start it, or `vcrecovery resume {name}`, or `vcrecovery failover {name}`")
        case Kind.HEALTHY | Kind.SUSPENDED:
            pass
        case Kind.FAILED_OVER | Kind.SERVICE_DOWN if not view.protected:
            since = f" since {day_and_time(view.done.closed_at)}" if view.done and view.done.closed_at else ""
            repair = "" if view.done and view.done.request.planned else "repair the VM, then "
            protects, what = of_the_spare(view)
            protection = what if protects else f"unprotected: {what}".removesuffix(": ")
            yield later(
                f"serving from the standby{since}; {protection}",
                f"{repair}`vcrecovery failback {name}` returns to it",
                None if protects else Topic.UNPROTECTED,
            )
        case Kind.SERVICE_DOWN:
            pass
        case Kind.FAILED:
            # While a failover is in progress, that is what there is to say.
            if view.state.open_episode is None:
                yield now(sentence, f"the watcher fails it over; if none runs: `vcrecovery failover {name}`")
        case Kind.INTENDED:
            yield now(
                f"not served: {sentence}",
                f"start it, or `vcrecovery suspend {name}` while it is to be off, or `vcrecovery failover {name}`",
            )
        case Kind.STARTING:
            yield now(sentence, "wait: after detection.autostart_within the watcher fails it over")
        case Kind.STALLED:
            yield now(sentence, f"clear the fault, then `virsh resume {view.plan.uuid}` on {view.plan.hypervisor}")
        case Kind.UNKNOWN if view.reading.power is Power.UNREACHABLE:
            detail = view.reading.detail or f"hypervisor {view.plan.hypervisor} does not answer"
            hint = f"fix that: until it answers, a failure of {name} may go unnoticed"
            yield now(detail, hint, Topic.UNPROTECTED)
        case _:
            yield now(sentence)


def _shut_down(view: ServiceView) -> str:
    return f"`virsh destroy {view.plan.uuid}` on {view.plan.hypervisor} shuts it down"


def of_the_spare(view: ServiceView) -> tuple[bool, str]:
    """Whether a copy stands in for the standby while that serves, and which, or why not; empty without a spare."""
    spare = view.spare
    if spare is None:
        return False, ""
    if _runs_by_hand(view):
        return False, f"its copy on {spare.secondary}: it runs"
    age = spare.age(view.at)
    if spare.protects(view.at, view.plan.max_staleness):
        return True, f"its copy on {spare.secondary} is {span(age or 0.0)} old"
    why = spare.detail or (f"{span(age)} old" if age is not None else f"not whole yet ({spare.state})")
    return False, f"its copy on {spare.secondary}: {why}"


def _answers(view: ServiceView) -> Iterator[Finding]:
    """That whoever serves does not answer, where its machine is not what is to be said."""
    course, down = view.course, (Kind.SERVICE_DOWN, Kind.STALE_PRIMARY)
    if course.health is not Health.DOWN or view.verdict.kind not in down or view.state.open_episode is not None:
        return
    since = f" since {day_and_time(course.since)}" if course.since is not None else ""
    if not view.protected:
        if view.standby.state not in RUNS:
            return
        inside = f"`{view.standby.client} exec {view.name} -- systemctl --failed`"
        hint = f"`vcrecovery failover {view.name}` brings it up; inside: {inside}"
    elif view.reading.power is Power.PAUSED:
        hint = f"`virsh resume {view.plan.uuid}` on {view.plan.hypervisor}"
    else:
        hint = f"look inside the VM, or `vcrecovery failover {view.name}` destroys it and fails over"
    sentence = f"down{since}: the {view.state.side} does not answer: {course.why}"
    yield Finding(Level.ATTENTION, view.name, sentence, hint, Topic.DOWN)


_DOING = {
    "failover": "failing over",
    "switchover": "switching over",
    "failback": "going back to its VM",
    "move": "moving",
}


def _episode(view: ServiceView) -> Iterator[Finding]:
    name, episode = view.name, view.state.open_episode
    if episode is not None:
        took = max(0.0, view.at - episode.opened_at)
        if view.holder and took < TAKES_LONG:
            yield Finding(
                Level.WARNING,
                name,
                f"{_DOING[episode.request.verb]} (epoch {episode.epoch}) for {span(took)} ({view.holder})",
                f"`vcrecovery explain {name}` shows how far it is",
            )
            return
        who = view.holder or "no controller is at work on it"
        yield Finding(
            Level.ATTENTION,
            name,
            f"epoch {episode.epoch} is not finished after {span(took)} ({who}){_stopped_at(episode)}",
            f"`vcrecovery explain {name}`, then `vcrecovery {episode.request.typed(name)}`",
        )
    elif view.last is not None and view.last.outcome is Outcome.REFUSED and _still_failed(view, view.last):
        yield Finding(
            Level.ATTENTION, name, f"no failover: {view.last.reason}", f"`vcrecovery explain {name}` says what to do"
        )


def _still_failed(view: ServiceView, refused: Episode) -> bool:
    """Whether what was refused is what is wrong now. Of a silent hypervisor: nothing was seen of its VM since."""
    seen = view.state.seen
    silent = view.verdict.kind is Kind.UNKNOWN and view.reading.power is Power.UNREACHABLE
    return view.verdict.kind is Kind.FAILED or (silent and seen is not None and seen.at <= refused.opened_at)


def _stopped_at(episode: Episode) -> str:
    if not episode.steps:
        return ""
    last = episode.steps[-1]
    error = last.error
    return f": {last.step}: {error}" if error else f", at step {last.step}"


def _standby(view: ServiceView) -> Iterator[Finding]:
    name, standby = view.name, view.standby

    def now(sentence: str, hint: str, topic: Topic = Topic.UNPROTECTED) -> Finding:
        return Finding(Level.ATTENTION, name, sentence, hint, topic)

    if standby.state == "unreachable":
        # What a standby serves goes on serving meanwhile.
        what = "nothing can take over" if view.protected else "its standby, which serves, is not started again"
        hint = f"{standby.hint}; until then {what}" if standby.hint else ""
        yield now(standby.detail, hint or f"start LXD there: without it {what}")
    elif standby.state == "missing":
        yield now(standby.detail, "the role `secondary` makes it")
    elif not view.protected:
        if standby.state not in RUNS and view.state.open_episode is None:
            yield now(
                f"the standby is to serve, and its container is {standby.state}{_why_it_ended(view)}",
                f"`vcrecovery failover {name}` brings it up",
                Topic.DOWN,
            )
    elif standby.age is None:
        yield now(
            f"the age of its standby is not known: {standby.detail}",
            "until it is, a failover is refused without --force",
        )
    elif view.too_old:
        why = f" ({standby.detail})" if standby.detail else ""
        yield now(
            f"its standby is {span(standby.age)} old, more than {span(view.plan.max_staleness)}{why}",
            "a failover is refused without --force; check vcrecovery-sync on the primary",
        )


def _why_it_ended(view: ServiceView) -> str:
    """As far as the watcher knows; while it starts it again, there is nothing to say."""
    end, last = view.end, view.last
    if end is not None and end.given_up:
        return f", and is not started again automatically: {end.given_up}"
    if end is not None:
        return f": so wanted by {end.asked_by or 'somebody'} at {day_and_time(end.at)}, and left alone"
    if last is not None and last.request.keeps_up and last.outcome is Outcome.REFUSED:
        return f", and is not started automatically: {last.reason}"
    return ""


def _runs_by_hand(view: ServiceView) -> bool:
    """The copy, which by what it writes is a copy no more; during a move it is meant to run."""
    runs = view.spare is not None and view.spare.state in RUNS
    return runs and view.state.open_episode is None and not view.holder


def _spare(view: ServiceView) -> Iterator[Finding]:
    """That two of it run."""
    spare = view.spare
    if spare is None or not _runs_by_hand(view):
        return
    yield Finding(
        Level.ATTENTION,
        view.name,
        f"its copy on {spare.secondary} runs beside the standby that serves, and nobody has failed over to it: either "
        "may answer, and what the copy writes is lost",
        f"`{spare.client} stop {view.name}` there",
        Topic.UNPROTECTED,
    )


def _mode(view: ServiceView) -> Iterator[Finding]:
    """That the standby does not wait as it is to. Not said of what is just being brought there."""
    name, mode, standby = view.name, view.plan.mode, view.standby
    if not view.protected or standby.age is None or view.state.open_episode is not None or view.holder:
        return
    if (wanted := _WAITS.get(mode)) is None:
        return
    refreshed_at = standby.refreshed_at
    due_at = standby.started_at if refreshed_at is None else refreshed_at + view.plan.refresh_every
    if standby.state not in (wanted, OFF_ON_DEMAND):
        # One that waits frozen runs while it boots, and while it is refreshed.
        begun = (standby.started_at, refreshed_at or 0.0, due_at)
        if (mode, standby.state) == ("frozen", "running") and any(abs(view.at - at) < TAKES_LONG for at in begun):
            return
        said = f"its standby is to wait in mode {mode}, and its container is {standby.state}"
    elif mode == "cold" or view.at - due_at < TAKES_LONG:
        return
    elif refreshed_at is None:
        said = f"its standby was booted for mode {mode} {span(view.at - due_at)} ago, and is not ready"
    else:
        said = f"its standby is {span(view.at - due_at)} late to be refreshed from the files that have arrived"
    yield Finding(
        Level.WARNING,
        name,
        said,
        f"the watcher brings it there; if none runs: `vcrecovery standby set {name} {view.plan.chosen_mode or 'plan'}`",
        Topic.UNPROTECTED,
    )


def _names(view: ServiceView) -> Iterator[Finding]:
    for entry in view.names:
        yield from _other_servers(view, entry)
        if entry.found is not None:
            yield from _tried(view, entry)
        if entry.found is None:
            yield Finding(
                Level.ATTENTION,
                view.name,
                f"{entry.name}: {entry.detail}",
                "fix that: without it DNS cannot follow",
                Topic.UNPROTECTED,
            )
        elif set(entry.found) != set(entry.wanted) and view.state.open_episode is None:
            yield Finding(
                Level.ATTENTION,
                view.name,
                f"{entry.name} points at {', '.join(entry.found) or 'nothing'}, and the {view.state.side} at "
                f"{', '.join(entry.wanted)} serves",
                "correct the record, or the plan",
                Topic.DOWN,
            )


def _address(view: ServiceView) -> Iterator[Finding]:
    if view.protected or view.has_address is not False or view.state.open_episode is not None:
        return
    yield Finding(
        Level.ATTENTION,
        view.name,
        f"the standby serves, and this machine does not have its virtual address {view.plan.virtual_ip}",
        "the watcher tries to take it every 10 s; `journalctl -u vcrecovery-watch` says what stands in its way, such "
        "as another machine that has it",
        Topic.DOWN,
    )


def _other_servers(view: ServiceView, entry: NameView) -> Iterator[Finding]:
    """Of the name servers beside the first: resolvers ask any of them. What they all say is said of the first."""
    last = view.last
    # One may be late for as long as a failover would wait for it.
    closed_at = last.closed_at if last is not None and last.closed_at is not None else None
    is_new = view.state.open_episode is not None or (
        closed_at is not None and 0 <= view.at - closed_at < view.plan.dns_within
    )
    for other in entry.others:
        if other.found is None:
            yield Finding(
                Level.WARNING,
                view.name,
                f"{entry.name}: {other.detail}",
                "see that it runs and gets the zone: no failover is done before it gives the new address",
                Topic.UNPROTECTED,
            )
        elif other.found != entry.found and set(other.found) != set(entry.wanted) and not is_new:
            # Who asks it is sent there now. While the primary serves, it would not follow either.
            yield Finding(
                Level.ATTENTION,
                view.name,
                f"{entry.name} points at {', '.join(other.found) or 'nothing'} on DNS server {other.server}, and the "
                f"{view.state.side} at {', '.join(entry.wanted)} serves",
                "check that server and the zone's transfer to it",
                Topic.UNPROTECTED if view.protected else Topic.DOWN,
            )


def _tried(view: ServiceView, entry: NameView) -> Iterator[Finding]:
    """What the watcher has found when it last tried it, which it does again within minutes while that is wrong."""
    tried = entry.tried
    when = f"when last tried, {day_and_time(tried.at)}"
    if tried.refused:
        yield Finding(
            Level.ATTENTION,
            view.name,
            f"{entry.name} could not be changed {when}: {tried.refused}",
            tried.hint or "fix that: without it DNS cannot follow",
            Topic.UNPROTECTED,
        )
    for late in tried.late:
        yield Finding(
            Level.WARNING,
            view.name,
            f"{entry.name}: {late} ({when})",
            "check the zone's transfer to it: who asks it would not be sent to the standby",
            Topic.UNPROTECTED,
        )


def _sync(view: ServiceView) -> Iterator[Finding]:
    standby, fresh = view.standby, view.standby.fresh
    if not view.protected or standby.age is None or view.too_old or fresh is None:
        return
    if standby.detail:
        said = f"the standby may lack something: {standby.detail}"
        yield Finding(Level.WARNING, view.name, said, topic=Topic.UNPROTECTED)
    if fresh.reconcile is not None and fresh.reconcile.list_error:
        said = f"the exclude list is out of date: {fresh.reconcile.list_error}"
        yield Finding(Level.WARNING, view.name, said, topic=Topic.UNPROTECTED)


def _never_sent(view: ServiceView) -> Iterator[Finding]:
    """Whether the service needs what is there is not known: the failover itself would work."""
    reconcile = view.standby.fresh.reconcile if view.standby.fresh is not None else None
    if not view.protected or reconcile is None or not reconcile.never_sent:
        return
    *others, last = reconcile.never_sent
    are, them = ("are", "them") if others else ("is", "it")
    named = f"{', '.join(others)} and {last}" if others else last
    place = f"/srv/{posixpath.basename(reconcile.never_sent[0]) or 'data'}"
    yield Finding(
        Level.WARNING,
        view.name,
        f"{named} {are} mounted in its VM and never sent: its standby lacks what lies only there",
        f"have the service use {them} elsewhere, such as at {place}, mounted or bound there; or, where it can do "
        f"without, name {them} under `sync: {{exclude: [...]}}`",
        Topic.UNPROTECTED,
    )


def _drills(view: ServiceView) -> Iterator[Finding]:
    """Not once the standby serves: then a failover has shown what a drill would."""
    name, last, every = view.name, view.drills.last, view.plan.drill_every
    if not view.protected:
        return
    if last is not None and last.outcome is DrillOutcome.FAILED:
        yield Finding(
            Level.WARNING,
            name,
            f"its last drill failed on {day_and_time(last.ended_at or last.began_at)}: {last.reason}",
            f"after fixing the cause, `vcrecovery drill {name}`",
            Topic.DRILL,
        )
    if view.drill_overdue and every is not None:
        sentence = overdue_sentence(every, view.drills.good, view.at)
        hint = f"`vcrecovery drill {name}` rehearses now, or says why it cannot"
        yield Finding(Level.WARNING, name, sentence, hint, Topic.DRILL)


def pool_findings(views: Sequence[ServiceView]) -> list[Finding]:
    """Of the pools that hold the standbys, each once."""
    pools = {(view.plan.secondary, view.standby.pool.name): view.standby.pool for view in views if view.standby.pool}
    found = []
    for (secondary, name), pool in pools.items():
        if pool.total <= 0 or pool.free >= _LITTLE_FREE * pool.total:
            continue
        level = Level.ATTENTION if pool.free < _NOTHING_FREE * pool.total else Level.WARNING
        full = 100 * (pool.total - pool.free) / pool.total
        sentence = f"pool {name} is {full:.0f} % full, {pool.free / 1e9:.1f} GB are free"
        hint = "remove what does not belong there, keep fewer restore points, or enlarge it: full, it takes no files"
        found.append(Finding(level, secondary, sentence, hint, Topic.POOL))
    return found


def notice_findings(unreached: Sequence[Unreached]) -> list[Finding]:
    """That people are not told, or were not. Not told to them: the watcher tells those who can be reached."""
    found = []
    for one in unreached:
        given_up = f"{one.given_up} notice(s) of the last day were given up" if one.given_up else ""
        waits = f"not reached since {day_and_time(one.failing_since)}, {one.waiting} wait" if one.failing_since else ""
        said = "; ".join(text for text in (waits, given_up) if text)
        hint = "`vcrecovery notify test` tries it now"
        found.append(Finding(Level.WARNING, f"notify {one.way}", f"{said}: {one.reason}" if one.reason else said, hint))
    return found
