"""What a report says: from its values to sentences, tables and charts. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from vcrecovery.core.text import plain
from vcrecovery.cost.advice import Proposal
from vcrecovery.cost.alternatives import Way
from vcrecovery.report.advice import chosen_in_words
from vcrecovery.report.costs import money
from vcrecovery.report.findings import Level
from vcrecovery.report.periodic.document import (
    Bars,
    Block,
    Document,
    Front,
    Items,
    Lines,
    Points,
    Section,
    Table,
    Text,
)
from vcrecovery.report.periodic.view import Availability, FreshnessOf, ReportView
from vcrecovery.report.periodic.words import count, days, local, moment, percent, seconds
from vcrecovery.report.targets import Kind, Reached, Verdict

#: So many rows of a table are shown, the newest; the data has all.
_ROWS = 200
#: So many services' lines can be told from each other in one chart, and so many rows be read.
_SERIES, _POINT_ROWS = 6, 20


def document(view: ReportView, changed: Sequence[str], compared_with: str) -> Document:
    """`changed`: since the report `compared_with`; empty where there is none to compare with."""
    begin, end = local(view.begin), local(view.made_at)
    zones = " and ".join(dict.fromkeys((f"{begin:%Z}", f"{end:%Z}")))
    found = Document(
        title=f"VCRecovery report {end:%Y-%m-%d}",
        about=f"{moment(view.begin)} to {moment(view.made_at)}, {count(len(view.services), 'service')}; times of "
        f"the controller's zone ({zones})",
        summary=[plain(line) for line in summary(view)],
        sections=[
            Section("attention", "What needs attention", _attention(view)),
            Section("changes", "What has changed", _changes(changed, compared_with)),
            Section("recovery", "Failovers and planned moves", list(_recovery(view))),
            Section("drills", "Drills", list(_drills(view))),
            Section("freshness", "How fresh the standbys were", list(_freshness(view))),
            Section("availability", "Availability", list(_availability(view))),
            Section("cost", "Cost", list(_cost(view))),
        ],
        foot=f"Made by VCRecovery on {moment(view.made_at)}.",
    )
    return replace(found, sections=[_plain(section) for section in found.sections])


def summary(view: ReportView) -> Iterator[str]:
    """What it comes to; the first line is a mail's subject too."""
    now = sum(one.level is Level.ATTENTION for one in view.findings)
    later = len(view.findings) - now
    if not view.findings:
        yield "Nothing needs attention"
    else:
        parts = [f"{now} to be looked at now"] if now else []
        yield ", ".join([*parts, f"{later} that can wait"] if later else parts)
    kinds = [count(len(found), kind.value) for kind in Kind if (found := view.of_kind(kind))]
    missed = sum(one.missed for one in view.counted)
    if kinds:
        yield f"{', '.join(kinds)}; {missed or 'none'} of them missed a target"
    else:
        yield "No failover and no planned move"
    failed = [one for one in view.drills if not one.counts]
    if more := sum(view.drills_left_out.values()):
        yield f"{count(len(view.drills) + more, 'drill')}, the newest {len(view.drills):,} of them listed"
    elif view.drills:
        yield f"{count(len(view.drills), 'drill')}, {len(failed) or 'none'} of them not passed"
    down = [one for one in view.availability if one.seconds > 0]
    if down:
        worst = max(down, key=lambda one: one.seconds)
        services = count(len(down), "service")
        yield f"{services} did not answer for some time; {worst.service} longest, {_span(worst.seconds)}"
    if view.costs is not None and (month := view.costs.alternatives[0].a_month) is not None:
        yield f"This plan costs {money(month)} {view.costs.currency} a month"


def _attention(view: ReportView) -> list[Block]:
    if not view.findings:
        return [Text("Nothing. `vcrecovery status` says how it is now.")]
    blocks: list[Block] = []
    for level, title in ((Level.ATTENTION, "Now:"), (Level.WARNING, "Can wait:")):
        found = [str(one) for one in view.findings if one.level is level]
        if found:
            blocks += [Text(title), Items(found)]
    return blocks


def _changes(changed: Sequence[str], compared_with: str) -> list[Block]:
    if not compared_with:
        return [Text("There is no earlier report to compare with.")]
    if not changed:
        return [Text(f"Nothing of note since {compared_with}.")]
    return [Text(f"Since {compared_with}:"), Items(changed)]


# -- recovery --------------------------------------------------------------------------------------------------


def _recovery(view: ReportView) -> Iterator[Block]:
    if view.left_out:
        yield Text(
            f"There were {count(view.left_out, 'more operation')}: only the newest {len(view.operations):,} are listed "
            "and reckoned."
        )
    if not view.operations:
        yield Text("There was none.")
        return
    counted = view.counted
    if counted:
        yield _reached_chart("recovery", "How long services were away", counted)
    shown = view.operations[-_ROWS:]
    yield Table(
        "Failovers and planned moves, newest last",
        ("when", "service", "what", "outcome", "RTO reached", "RPO reached"),
        [
            (moment(one.began_at), one.service, _what(one), _outcome(one), _rto(one), _rpo(one))
            for one in shown
        ],
    )  # fmt: skip
    if len(shown) < len(view.operations):
        yield Text(f"The newest {_ROWS} of {len(view.operations):,}; the report as data has all of these.")
    yield Text(
        "RTO: from when the failure began, or was noticed, to the last step after which clients reach the service; "
        "of a planned move, how long it was away. RPO: how old the standby's files were when the failure began."
    )


def _what(one: Reached) -> str:
    return f"{one.kind.value} {one.number}{', automatic' if one.automatic else ''}"


def _outcome(one: Reached) -> str:
    return f"{one.outcome}: {one.reason}" if one.reason else one.outcome


def _rto(one: Reached) -> str:
    if one.rto is None:
        return "-"
    return f"{seconds(one.rto)} ({one.until}){_against(one.rto_verdict, one.rto_target)}"


def _rpo(one: Reached) -> str:
    if one.rpo is None:
        return "-"
    return f"{'nothing lost' if one.rpo == 0 else seconds(one.rpo)}{_against(one.rpo_verdict, one.rpo_target)}"


def _against(verdict: Verdict, target: float | None) -> str:
    """In words, since colour alone would not reach everybody."""
    match verdict:
        case Verdict.MET:
            return f", met {seconds(target)}"
        case Verdict.MISSED:
            return f", MISSED {seconds(target)}"
        case _:
            return ""


def _reached_chart(name: str, title: str, entries: Sequence[Reached]) -> Points:
    rows: dict[str, list[tuple[str, float]]] = {}
    targets: dict[str, float] = {}
    for one in entries:
        if one.rto is not None:
            rows.setdefault(one.service, []).append((one.kind.value, one.rto))
            if one.rto_target is not None:
                targets[one.service] = one.rto_target
    slowest = sorted(rows, key=lambda service: -max(value for _, value in rows[service]))[:_POINT_ROWS]
    shown = {service: rows[service] for service in slowest}
    about = "; ".join(
        f"{service}: {seconds(min(v for _, v in points))} to {seconds(max(v for _, v in points))}"
        + (f", target {seconds(targets[service])}" if service in targets else "")
        for service, points in list(shown.items())[:8]
    )
    return Points(name, title, f"Seconds for each service. {about}. The table below has all.", shown, targets)


def _drills(view: ReportView) -> Iterator[Block]:
    rehearsed = {one.service for one in view.drills} | view.drills_left_out.keys()
    if more := sum(view.drills_left_out.values()):
        yield Text(f"There were {count(more, 'more drill')}: only the newest {len(view.drills):,} are listed.")
    never = [one.name for one in view.services if one.name not in rehearsed]
    if view.drills:
        shown = view.drills[-_ROWS:]
        yield Table(
            "Drills, newest last",
            ("when", "service", "outcome", "up after its start"),
            [(moment(one.began_at), one.service, _outcome(one), _rto(one)) for one in shown],
        )
        if len(shown) < len(view.drills):
            yield Text(f"The newest {_ROWS} of {len(view.drills):,}; the report as data has all of these.")
    if never:
        yield Text(f"Without a drill in this time: {_listed(never)}. `vcrecovery drill SERVICE` rehearses one.")


# -- freshness and availability ------------------------------------------------------------------------------------


def _freshness(view: ReportView) -> Iterator[Block]:
    if view.freshness_trouble:
        yield Text(f"Not known: {view.freshness_trouble}.")
        return
    known = [one for one in view.freshness if one.whole.count]
    never = [one.service for one in view.freshness if one.whole.unknown and not one.whole.count]
    without = [one.service for one in view.freshness if not one.whole.unknown and not one.whole.count]
    if known:
        yield _freshness_chart(view, known)
        yield Table(
            "Age of the standbys' files while their primaries ran",
            ("service", "half of the time", "95 %", "99 %", "at most", "RPO target", "not known"),
            [_freshness_row(view, one) for one in known],
            frozenset({1, 2, 3, 4, 6}),
        )
        yield Text("Each percentile is told up to a fifth too high, never too low; the greatest age is exact.")
    if never:
        yield Text(f"Never known of {_listed(never)}, however often it was read: `vcrecovery status` says why.")
    if without:
        yield Text(
            f"No samples of {_listed(without)}: `vcrecovery watch` did not run, the primary was off, or its standby "
            "served."
        )


def _freshness_row(view: ReportView, one: FreshnessOf) -> tuple[str, ...]:
    told = [seconds(one.whole.percentile(part)) for part in (0.5, 0.95, 0.99)]
    target = next((service.rpo for service in view.services if service.name == one.service), None)
    p99 = one.whole.percentile(0.99)
    unknown = one.whole.unknown / max(1, one.whole.unknown + one.whole.count)
    verdict = "-"
    if target is not None and p99 is not None:
        # While nobody knew the age, it may have been any.
        met = "met 99 % of the time" if unknown <= 0.01 else "met while it was known"
        verdict = f"{seconds(target)}: {met if p99 <= target else 'MISSED'}"
    return (one.service, *told, seconds(one.whole.most), verdict, f"{100 * unknown:.1f} %")


def _freshness_chart(view: ReportView, known: Sequence[FreshnessOf]) -> Lines:
    """The stalest ones: they are what a report is read for."""
    worst = sorted(known, key=lambda one: -(one.whole.percentile(0.95) or 0.0))[:_SERIES]
    period = days(view.begin, view.made_at)
    series = {}
    for one in worst:
        values = {day: one.days[day].percentile(0.95) for day in period if day in one.days}
        series[one.service] = {day: value for day, value in values.items() if value is not None}
    about = "; ".join(f"{name}: up to {seconds(max(values.values()))}" for name, values in series.items() if values)
    which = f"The {len(worst)} stalest of {len(known)} services. " if len(worst) < len(known) else ""
    return Lines(
        "freshness",
        "Age of the files, 95 % of each day",
        f"{which}{about}. The table below has the whole time.",
        series,
    )


def _availability(view: ReportView) -> Iterator[Block]:
    if not any(one.outages for one in view.availability) and not any(one.whole.count for one in view.freshness):
        yield Text("Not known: `vcrecovery watch` has left nothing of this period, so it may not have run.")
        return
    whole = max(1.0, view.made_at - view.begin)
    rows = [_availability_row(one, 1 - one.seconds / whole) for one in view.availability]
    yield Table(
        "Whether services answered, as far as `vcrecovery watch` has seen it",
        ("service", "outages", "not answering", "answering", "goes on"),
        rows,
        frozenset({1, 2, 3}),
    )


def _availability_row(one: Availability, part: float) -> tuple[str, ...]:
    return (one.service, str(one.outages), _span(one.seconds), percent(part), "yes" if one.goes_on else "no")


def _span(amount: float) -> str:
    return "-" if amount <= 0 else seconds(amount)


# -- cost ------------------------------------------------------------------------------------------------------


def _cost(view: ReportView) -> Iterator[Block]:
    costs = view.costs
    if costs is None:
        yield Text(view.cost_trouble)
        return
    this = costs.alternatives[0].a_year
    bars, rows = {}, []
    for entry in costs.alternatives:
        month, year = entry.a_month, entry.a_year
        if month is None or year is None:
            rows.append((entry.title, "-", "-", entry.unknown))
            continue
        against = "" if entry.way is Way.THIS_PLAN or this is None else f"{year - this:+,.2f}"
        rows.append((entry.title, money(month), money(year), against))
        bars[entry.title] = (float(year), money(year))
    told = "; ".join(f"{title}: {text}" for title, (_, text) in bars.items())
    yield Bars("cost", f"A year, in {costs.currency}", f"{told}. The table below has all.", bars)
    yield Table(
        f"This plan beside other ways to protect the same services, in {costs.currency}",
        ("way", "a month", "a year", "a year, against this plan"),
        rows,
        frozenset({1, 2, 3}),
    )
    if len(costs.parts) > 1:
        yield Table(
            f"Who pays for what of this plan, in {costs.currency}",
            ("whose", "a month", "a year"),
            [(part.whose, money(part.a_month), money(part.a_month * 12)) for part in costs.parts],
            frozenset({1, 2}),
        )
    yield Text("`vcrecovery cost --explain` says where each sum comes from.")
    yield from _proposals(view)


def _proposals(view: ReportView) -> Iterator[Block]:
    """What would be cheaper, or faster, when a hypervisor fails."""
    advice = view.advice
    if advice is None:
        if view.advice_trouble:
            yield Text(view.advice_trouble)
        return
    now = advice.now
    front = [one for one in advice.front if math.isfinite(one.recovery)]
    now = now if now is not None and math.isfinite(now.recovery) else None
    steps = [(one.a_month, one.recovery) for one in reversed(front)]
    rows = [] if now is None else [("this plan", f"{now.a_month:,.2f}", seconds(now.recovery), _secondaries(now))]
    rows += [("", f"{one.a_month:,.2f}", seconds(one.recovery), _secondaries(one)) for one in front]
    told = "; ".join(f"{amount:,.2f} a month: {seconds(took)}" for amount, took in steps) or "nothing that is priced"
    yield Front(
        "front",
        f"Recovery of a hypervisor against what it costs, {advice.currency} a month",
        f"{told}. The table below has all.",
        steps,
        None if now is None else (now.a_month, now.recovery),
        advice.currency,
    )
    yield Table(
        f"What is worth its price, in {advice.currency}: nothing that is priced is both cheaper and faster",
        ("", "a month", "recovery", "secondaries and how their standbys wait"),
        rows,
        frozenset({1, 2}),
    )
    yield Text("`vcrecovery plan advise` says which times are measured here, and takes a budget or a recovery time.")


def _secondaries(proposal: Proposal) -> str:
    return "; ".join(chosen_in_words(one) for one in proposal.secondaries)


def _listed(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _plain(section: Section) -> Section:
    """Reasons and names may come from anywhere: nothing that does not print gets any further."""

    def of(block: Block) -> Block:
        match block:
            case Text():
                return Text(plain(block.text))
            case Items():
                return Items([plain(item) for item in block.items])
            case Table():
                return replace(block, rows=[[plain(cell) for cell in row] for row in block.rows])
            case _:
                return replace(block, about=plain(block.about))

    return replace(section, blocks=[of(block) for block in section.blocks])
