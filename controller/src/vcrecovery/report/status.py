"""`vcrecovery status`: a table of all services, or all about one. Pure: values in, lines or data out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vcrecovery.core.drill import Drill
from vcrecovery.core.episode import CAME_TO_NOTHING
from vcrecovery.core.health import Health
from vcrecovery.core.text import cells, clock_or_day, cut, day_and_time, plain, span, took, wrapped
from vcrecovery.core.verdict import Kind
from vcrecovery.report.findings import Finding, Level, all_findings, findings, pool_findings
from vcrecovery.report.protection import protection
from vcrecovery.report.view import NameView, ServerView, ServiceView
from vcrecovery.transfer.freshness import progress_line

#: Colours a text: `paint(text, "red")`. Without colours it gives the text back.
Paint = Callable[[str, str], str]
_WORD_WIDTH = 10


def no_paint(text: str, _colour: str) -> str:
    return text


def shade(view: ServiceView, found: Sequence[Finding]) -> str:
    if any(finding.level is Level.ATTENTION for finding in found):
        return "red"
    return "yellow" if found or view.verdict.kind is not Kind.HEALTHY else "green"


# -- the table -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Column:
    """`rank`: the columns with the highest are left out first when the terminal is narrow."""

    title: str
    rank: int
    text: Callable[[ServiceView], str]


def standby_age(view: ServiceView) -> str:
    if not view.protected:
        return "-"
    return "not known" if view.standby.age is None else f"{span(view.standby.age)} old"


def _points_at(entry: NameView | ServerView) -> str:
    return "no answer" if entry.found is None else ", ".join(entry.found) or "nothing"


def _elsewhere(entry: NameView) -> str:
    """What the name servers say that say something else than the first."""
    others = [f"{other.server}: {_points_at(other)}" for other in entry.others if other.found != entry.found]
    return f" ({'; '.join(others)})" if others else ""


def points(view: ServiceView) -> str:
    return ", ".join(dict.fromkeys(_points_at(entry) for entry in view.names)) or "-"


def health(view: ServiceView) -> str:
    """Whether whoever serves answers."""
    course = view.course
    if course.health is Health.DOWN and course.since is not None:
        return f"down since {clock_or_day(course.since, view.at)}"
    return course.health.value


_COLUMNS = (
    _Column("service", 0, lambda view: view.name),
    _Column("serves", 1, lambda view: view.state.side.value),
    _Column("health", 2, health),
    _Column("epoch", 7, lambda view: str(view.state.epoch)),
    _Column("primary", 3, lambda view: str(view.reading)),
    _Column("standby", 4, lambda view: view.standby.state),
    _Column("mode", 8, lambda view: view.plan.mode),
    _Column("files", 5, standby_age),
    _Column("dns", 6, points),
    _Column("verdict", 1, lambda view: view.verdict.kind.value),
)


def table(
    views: Sequence[ServiceView],
    width: int | None = None,
    paint: Paint = no_paint,
    more: Sequence[Finding] = (),
) -> list[str]:
    """A line for each service, then one for each thing that needs a person. `more`: what is about no service."""
    columns = list(_COLUMNS)
    rows = [[plain(column.text(view)) for column in columns] for view in views]
    while True:
        titles = [column.title for column in columns]
        widths = [max(cells(text) for text in texts) for texts in zip(titles, *rows, strict=True)]
        if width is None or sum(widths) + 2 * (len(widths) - 1) <= width or len(columns) <= 2:
            break
        drop = max(range(len(columns)), key=lambda index: columns[index].rank)
        del columns[drop]
        for row in rows:
            del row[drop]
    lines = [_row(titles, widths, width)]
    for view, row in zip(views, rows, strict=True):
        lines.append(paint(_row(row, widths, width), shade(view, findings(view))))
    found = all_findings(views, more)
    for level, title, colour in (
        (Level.ATTENTION, "needs attention now", "red"),
        (Level.WARNING, "can wait", "yellow"),
    ):
        of_level = [finding for finding in found if finding.level is level]
        if of_level:
            lines += ["", paint(f"{title}:", colour)]
            lines += [line for finding in of_level for line in wrapped("  ", str(finding), width)]
    return lines


def _row(texts: Sequence[str], widths: Sequence[int], width: int | None) -> str:
    padded = [text + " " * (size - cells(text)) for text, size in zip(texts, widths, strict=True)]
    line = "  ".join(padded).rstrip()
    return line if width is None else cut(line, width)


# -- one service -----------------------------------------------------------------------------------------------


def detail(
    view: ServiceView, width: int | None = None, paint: Paint = no_paint, more: Sequence[Finding] = ()
) -> list[str]:
    """All about one service. `more`: what is about all of them."""
    found = findings(view)
    lines = [paint(f"{view.name}  {view.verdict.kind.value}", shade(view, found))]

    def say(word: str, text: str) -> None:
        lines.extend(wrapped(f"  {word:<{_WORD_WIDTH}}", text, width))

    plan = view.plan
    address = plan.primary_address if view.protected else plan.standby_address
    say("serves", f"{view.state.side} at {address}, epoch {view.state.epoch}: {health(view)}")
    if view.ports is not None:
        say("ports", ", ".join(f"{port} answers" if not why else f"{port}: {why}" for port, why in view.ports.items()))
    chosen = " (chosen, not the plan's)" if plan.chosen_mode else ""
    say("primary", f"{view.reading}: VM {plan.uuid} on {plan.hypervisor} (site {plan.site})")
    say("standby", f"{view.standby.state}{_files(view)}; mode {plan.mode}{chosen}, on {plan.secondary}")
    if (spare := view.spare) is not None:
        age = spare.age(view.at)
        files = "never whole" if age is None else f"files {span(age)} old{'' if spare.whole else ', being refreshed'}"
        say(
            "spare", f"{spare.state} on {spare.secondary}, {spare.detail or files}; refreshed every {span(spare.every)}"
        )
    for text in _sync(view):
        say("sync", text)
    if (kept := view.standby.kept) is not None:
        what = f"{kept.restore_point}, what the standby was before its failback, until {day_and_time(kept.until)}"
        # There is no way back to it while the standby serves.
        say("kept", f"{what}: `vcrecovery rollback {view.name}`" if view.protected else what)
    for entry in view.names:
        say("dns", f"{entry.name} -> {_points_at(entry)}{_elsewhere(entry)}")
    if plan.virtual_ip:
        say("address", f"{plan.virtual_ip} {_whose_address(view)}")
    if view.done is not None and view.done.closed_at is not None:
        begun, seconds = view.done.opened_at, took(view.done.opened_at, view.done.closed_at)
        say("failover", f"the last one {day_and_time(begun)}, in {seconds}: `vcrecovery explain {view.done.id}`")
    if view.last is not None and view.last.outcome in CAME_TO_NOTHING:
        say("attempt", f"{day_and_time(view.last.opened_at)}: {view.last.outcome}: {view.last.reason}")
    if (good := view.drills.good) is not None:
        up = f", up {good.recovery:.1f} s after its start" if good.recovery is not None else ""
        say("drill", f"the last good one {day_and_time(good.began_at)}{up}")
    for finding in found:
        text = finding.sentence + (f"; {finding.hint}" if finding.hint else "")
        say("now" if finding.level is Level.ATTENTION else "later", text)
    for finding in more:
        say("now" if finding.level is Level.ATTENTION else "later", str(finding))
    return lines


def _whose_address(view: ServiceView) -> str:
    if view.protected:
        return "of the controller's machine, while the standby serves"
    if view.has_address is None:
        return "of the controller's machine; whether it is there is not known here"
    return "of this machine" if view.has_address else "is to be this machine's, and is not"


def _files(view: ServiceView) -> str:
    age = view.standby.age
    if not view.protected or view.standby.state in ("unreachable", "missing"):
        return ""
    if age is None:
        return f", age not known: {view.standby.detail}"
    return f", files {span(age)} old" + (f", more than {span(view.plan.max_staleness)}" if view.too_old else "")


def _sync(view: ServiceView) -> list[str]:
    """How the sync is doing, as the primary has told it."""
    fresh = view.standby.fresh
    reconcile = fresh.reconcile if fresh is not None else None
    lines = []
    if fresh is not None and reconcile is not None:
        if reconcile.ended is None:
            told = progress_line(reconcile) if reconcile.sent is not None else "has begun"
            lines.append(f"comparing the whole tree: {told}")
        elif not reconcile.error:
            at, seconds = day_and_time(reconcile.ended), reconcile.ended - reconcile.began
            sent = f"{reconcile.files or 0} files, {(reconcile.bytes or 0) / 1e6:.1f} MB"
            lines.append(f"queue {fresh.queue or 0}; last compared {at} in {seconds:.1f} s: {sent}")
    return lines + [f"{path} is replicated by {by}" for path, by in view.plan.replicated_by.items()]


# -- for machines ----------------------------------------------------------------------------------------------


def as_data(view: ServiceView) -> dict[str, Any]:
    state, episode = view.state, view.state.open_episode
    return {
        "service": view.name,
        "serves": state.side.value,
        "epoch": state.epoch,
        "mode": view.plan.mode,
        "hypervisor": view.plan.hypervisor,
        "site": view.plan.site,
        "secondary": view.plan.secondary,
        "spare": asdict(view.spare) if view.spare is not None else None,
        "verdict": view.verdict.kind.value,
        "protection": protection(view).level.value,
        "sentence": view.verdict.sentence,
        "primary": str(view.reading),
        "primary_detail": view.reading.detail,
        "standby": view.standby.as_data(),
        "max_staleness": view.plan.max_staleness,
        "suspended_until": view.suspension.until if view.suspension else None,
        "suspended": view.suspension.reason if view.suspension else None,
        "cools_until": view.cools_until,
        "held_since": view.held_since,
        "unfinished": {"episode": episode.id, "epoch": episode.epoch, "cause": episode.cause} if episode else None,
        "at_work": view.holder or None,
        "last_failover": _done(view),
        "dns": {entry.name: None if entry.found is None else list(entry.found) for entry in view.names},
        "dns_others": {
            entry.name: {other.server: None if other.found is None else list(other.found) for other in entry.others}
            for entry in view.names
        },
        "virtual_ip": view.plan.virtual_ip or None,
        "has_virtual_ip": view.has_address,
        "dns_wanted": {entry.name: list(entry.wanted) for entry in view.names},
        "health": view.course.health.value,
        "down_since": view.course.since if view.course.health is Health.DOWN else None,
        "seconds_to_answer": view.course.seconds,
        "ports": None if view.ports is None else {port: not why for port, why in view.ports.items()},
        "replicated_by": dict(view.plan.replicated_by),
        "drill": {
            "every": view.plan.drill_every,
            "overdue": view.drill_overdue,
            "last_good": _drill(view.drills.good),
            "last": _drill(view.drills.last),
        },
        "findings": [_finding(finding) for finding in findings(view)],
    }


def others_as_data(views: Sequence[ServiceView], more: Sequence[Finding]) -> list[dict[str, str]]:
    """What is about no service."""
    return [{"about": found.service, **_finding(found)} for found in (*pool_findings(views), *more)]


def _finding(finding: Finding) -> dict[str, str]:
    return {"level": finding.level.value, "sentence": finding.sentence, "hint": finding.hint}


def _done(view: ServiceView) -> Mapping[str, Any] | None:
    done = view.done
    if done is None or done.closed_at is None:
        return None
    return {"episode": done.id, "opened_at": done.opened_at, "seconds": done.closed_at - done.opened_at}


def _drill(drill: Drill | None) -> Mapping[str, Any] | None:
    if drill is None:
        return None
    return {
        "drill": drill.id,
        "began_at": drill.began_at,
        "ended_at": drill.ended_at,
        "recovery_seconds": drill.recovery,
        "outcome": drill.outcome.value if drill.outcome else None,
        "reason": drill.reason,
    }


def fingerprint(view: ServiceView) -> object:
    """What makes a new frame of `status --watch` worth printing: all but times that pass by themselves."""
    data = as_data(view)
    reconcile = data["standby"].get("reconcile")
    return (
        {key: value for key, value in data.items() if key not in ("standby", "findings", "seconds_to_answer")},
        (data["standby"]["state"], data["standby"]["detail"], view.standby.age is None, view.too_old),
        bool(reconcile and reconcile["ended"] is None),
        [(finding["level"], finding["hint"]) for finding in data["findings"]],
    )
