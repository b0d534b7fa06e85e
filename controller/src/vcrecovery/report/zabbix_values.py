"""What Zabbix is told of all services, as its template "VCRecovery controller" takes it apart. Pure.

For each service one document, whose parts are items of their own there; and one of the controller, with a page to read
that answers at once what is wrong, who is unprotected, and what was done about it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from vcrecovery.core.drill import DrillOutcome
from vcrecovery.core.service_state import Serving, Side
from vcrecovery.core.text import day_and_time, plain, span, took
from vcrecovery.core.verdict import Kind
from vcrecovery.report.findings import Finding, Level, all_findings, findings
from vcrecovery.report.protection import Protected, Protection, protection
from vcrecovery.report.status import health
from vcrecovery.report.view import ServiceView

#: As the value maps of the template have them.
SERVES_VM, SERVES_STANDBY, AT_WORK = 0, 1, 2
PROTECTIONS = MappingProxyType({Protection.PROTECTED: 0, Protection.DEGRADED: 1, Protection.UNPROTECTED: 2})
#: In place of the age of a standby in seconds: nobody knows it, or the standby serves and is not behind.
AGE_NOT_KNOWN, SERVES_ITSELF = -1.0, -2.0
#: Of a drill: none is due, the last has failed, none has passed for too long.
DRILLS_WELL, DRILL_FAILED, DRILL_OVERDUE = 0, 1, 2
#: Lines of the page, and characters of a text: Zabbix shows some thousands of these, and names of problems are shorter.
_MOST_LINES, _MOST_TEXT = 60, 400


def serves(who: Serving) -> int:
    if who.at_work:
        return AT_WORK
    return SERVES_VM if who.side is Side.PRIMARY else SERVES_STANDBY


def of_service(view: ServiceView) -> str:
    """Its document, in JSON."""
    found, protected = findings(view), protection(view)
    document = {
        "protection": PROTECTIONS[protected.level],
        "why": _cut(protected.why),
        "age": _age(view),
        "verdict": view.verdict.kind.value,
        "vm": _cut(str(view.reading)),
        "standby": _cut(f"{view.standby.state}, mode {view.plan.mode}, on {view.plan.secondary}"),
        "attention": sum(one.level is Level.ATTENTION for one in found),
        "wrong": _cut("; ".join(filter(None, (found[0].sentence, found[0].hint)))) if found else "",
        "operation": _cut(_operation(view)),
        "failover": _cut(_failover(view)),
        "drill": _drill(view),
        "drilled": "" if view.drills.good is None else day_and_time(view.drills.good.began_at),
        "suspended": 0 if view.suspension is None else max(1, round(view.at - view.suspension.since)),
        "old_primary": int(_runs_unasked(view)),
    }
    return json.dumps(document)


def _runs_unasked(view: ServiceView) -> bool:
    """The old primary, which is not quarantined; with a suspension the operator has it run."""
    return view.verdict.kind is Kind.STALE_PRIMARY and view.held_since is None and view.suspension is None


def of_all(views: Sequence[ServiceView], more: Sequence[Finding] = ()) -> str:
    """The controller's document. `more`: findings that are about no service."""
    protected = {view.name: protection(view) for view in views}
    levels = [one.level for one in protected.values()]
    # Those of services stand at the services.
    others = [one for one in all_findings(views, more) if one.service not in protected]
    document: dict[str, Any] = {
        "services": len(views),
        "protected": levels.count(Protection.PROTECTED),
        "degraded": levels.count(Protection.DEGRADED),
        "unprotected": levels.count(Protection.UNPROTECTED),
        "by_standby": sum(not view.protected for view in views),
        "operations": sum(view.state.open_episode is not None for view in views),
        "attention": sum(one.level is Level.ATTENTION for one in others),
        "wrong": _cut("; ".join(str(one) for one in others)),
        "overview": "\n".join(_overview(views, protected, others)),
    }
    return json.dumps(document)


def _overview(views: Sequence[ServiceView], protected: dict[str, Protected], others: Sequence[Finding]) -> list[str]:
    """Those first of which there is most to say."""
    found = {view.name: findings(view) for view in views}
    order = sorted(views, key=lambda view: (-PROTECTIONS[protected[view.name].level], not found[view.name], view.name))
    lines = [f"{level.value}: {sum(one.level is level for one in protected.values())}" for level in Protection]
    lines = [f"{len(views)} services; {', '.join(reversed(lines))}"]
    lines += [f"{one.level.value}: {one}" for one in others]
    for view in order:
        level, why = protected[view.name].level, protected[view.name].why
        lines.append(f"{view.name}: {_who(view)}; {level.value}{f' ({why})' if why else ''}; {_files(view)}")
        lines += [f"    {one.level.value}: {one.sentence}; {one.hint}" for one in found[view.name]]
        if operation := _operation(view):
            lines.append(f"    under way: {operation}")
        elif failover := _failover(view):
            lines.append(f"    last: {failover}")
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], "... and more: `vcrecovery status` on the controller"]
    return [_cut(line) for line in lines]


def _who(view: ServiceView) -> str:
    return f"{'its VM' if view.protected else 'its standby'} serves, {health(view)}"


def _files(view: ServiceView) -> str:
    if not view.protected:
        return f"the VM is {view.reading}"
    age = view.standby.age
    return "the age of its standby is not known" if age is None else f"its standby is {span(age)} old"


def _age(view: ServiceView) -> float:
    if not view.protected:
        return SERVES_ITSELF
    return AGE_NOT_KNOWN if view.standby.age is None else round(max(0.0, view.standby.age), 3)


def _operation(view: ServiceView) -> str:
    """What is not finished, and how far it is."""
    if (episode := view.state.open_episode) is None:
        return ""
    step = f", at {episode.steps[-1].step}" if episode.steps else ""
    error = f": {episode.steps[-1].error}" if episode.steps and episode.steps[-1].error else ""
    return f"{episode.request.verb}, epoch {episode.epoch}, since {day_and_time(episode.opened_at)}{step}{error}"


def _failover(view: ServiceView) -> str:
    done = view.done
    if done is None or done.closed_at is None:
        return ""
    seconds = took(done.opened_at, done.closed_at)
    return f"{done.request.verb} of {day_and_time(done.opened_at)}, done in {seconds}: {done.cause}"


def _drill(view: ServiceView) -> int:
    last = view.drills.last
    if view.protected and last is not None and last.outcome is DrillOutcome.FAILED:
        return DRILL_FAILED
    return DRILL_OVERDUE if view.drill_overdue else DRILLS_WELL


def _cut(text: str) -> str:
    """A line, whatever is in it."""
    line = plain(text)
    return line if len(line) <= _MOST_TEXT else f"{line[: _MOST_TEXT - 4]} ..."
