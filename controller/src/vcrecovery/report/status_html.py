"""The status as a page for a browser: the same as `vcrecovery status`, without a script. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from vcrecovery.core.text import clock_or_day, day_and_time, plain
from vcrecovery.report.findings import Finding, Level, all_findings, findings
from vcrecovery.report.status import detail, health, points, shade, standby_age
from vcrecovery.report.timeline import of_episode
from vcrecovery.report.view import ServiceView

#: Seconds between two loads of a page that refreshes.
EVERY = 5
_STYLE = """
:root { color-scheme: light dark; --edge: #8a8f98; --back: #fff; --text: #16181d; --soft: #f1f2f4;
  --red: #a3140f; --yellow: #7a5200; --green: #0b6b2e; --link: #0b57d0 }
@media (prefers-color-scheme: dark) { :root { --back: #14161a; --text: #e8eaee; --soft: #22252b;
  --red: #ff9c94; --yellow: #f2c14b; --green: #7fd99a; --link: #9ec1ff } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1rem; max-width: 75rem; background: var(--back); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere }
h1 { font-size: 1.25rem; margin: 0 } h2 { font-size: 1.05rem; margin: 1.5rem 0 .5rem }
header { display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; align-items: baseline }
a { color: var(--link) } a:focus-visible, summary:focus-visible { outline: 2px solid var(--link) }
.red { color: var(--red) } .yellow { color: var(--yellow) } .green { color: var(--green) }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--edge); vertical-align: top }
th { font-weight: 600 } td.state { font-weight: 600; white-space: nowrap }
code, pre { font: .9em/1.45 ui-monospace, monospace } td { min-width: 4.5rem }
pre { background: var(--soft); padding: .75rem; white-space: pre-wrap; margin: .5rem 0 }
ul { padding-left: 1.25rem } li { margin: .25rem 0 } summary { cursor: pointer }
@media (max-width: 40rem) { thead { position: absolute; left: -200vw }
  table, tbody, tr, td { display: block; width: auto; border: 0; padding: .1rem 0 }
  tr { border-bottom: 1px solid var(--edge); padding: .5rem 0 }
  td[data-is]::before { content: attr(data-is) ": "; font-weight: 400 } }
"""
#: What is to be typed.
_COMMAND = re.compile("`([^`]+)`")
#: A state is never told by its colour alone.
_SIGN = {"red": "\N{BLACK UP-POINTING TRIANGLE}", "yellow": "\N{BLACK DIAMOND}", "green": "\N{BLACK CIRCLE}"}


def html_page(views: Sequence[ServiceView], at: float, more: Sequence[Finding] = (), *, refreshes: bool) -> str:
    """`at`: seconds since the epoch (of Unix). `more`: what is about no service."""
    found = all_findings(views, more)
    now = [finding for finding in found if finding.level is Level.ATTENTION]
    later = [finding for finding in found if finding.level is not Level.ATTENTION]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="refresh" content="{EVERY}">' if refreshes else "",
        f"<title>{_title(views, now)}</title><style>{_STYLE}</style></head><body>",
        f"<header><h1>VCRecovery</h1><strong class={_class(now, later)}>{_summary(views, now, later)}</strong>",
        f"<span>{escape(day_and_time(at))}</span>{_refreshing(refreshes=refreshes)}</header><main>",
        *_listed("Needs attention now", "red", now),
        *_under_way(views),
        *_services(views),
        *_listed("Can wait", "yellow", later),
        *_details(views),
        "</main></body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _text(text: object) -> str:
    return escape(plain(text))


def _title(views: Sequence[ServiceView], now: Sequence[Finding]) -> str:
    # Of a tab in the background nothing else is seen.
    return f"({len(now)}) VCRecovery" if now else f"VCRecovery: {_services_are(len(views))} well"


def _services_are(count: int) -> str:
    return f"{count} service is" if count == 1 else f"{count} services are"


def _class(now: Sequence[Finding], later: Sequence[Finding]) -> str:
    return "red" if now else "yellow" if later else "green"


def _summary(views: Sequence[ServiceView], now: Sequence[Finding], later: Sequence[Finding]) -> str:
    if not now and not later:
        return f"{_SIGN['green']} {_services_are(len(views))} well"
    counts = [f"{len(now)} need attention now"] if now else []
    counts += [f"{len(later)} can wait"] if later else []
    return f"{_SIGN[_class(now, later)]} {', '.join(counts)}"


def _refreshing(*, refreshes: bool) -> str:
    if refreshes:
        return f'<span>every {EVERY} s; <a href="?stay">stop refreshing</a></span>'
    return '<span>as it was then; <a href="?">refresh</a></span>'


def _listed(title: str, colour: str, found: Sequence[Finding]) -> Iterable[str]:
    if not found:
        return
    yield f'<h2 class="{colour}">{title}</h2><ul>'
    for finding in found:
        said = _COMMAND.sub(r"<code>\1</code>", _text(finding))
        yield f"<li>{said}</li>"
    yield "</ul>"


def _under_way(views: Sequence[ServiceView]) -> Iterable[str]:
    """Operations that are open, step by step."""
    episodes = [view.state.open_episode for view in views if view.state.open_episode is not None]
    if episodes:
        yield "<h2>Under way</h2>"
    for episode in episodes:
        yield f"<pre>{escape(chr(10).join(of_episode(episode)))}</pre>"


_HEADS = ("service", "serves", "health", "primary", "standby", "files", "DNS", "last good drill", "verdict")


def _services(views: Sequence[ServiceView]) -> Iterable[str]:
    yield "<h2>Services</h2><table><thead><tr>"
    yield "".join(f'<th scope="col">{head}</th>' for head in _HEADS)
    yield "</tr></thead><tbody>"
    for view in views:
        colour = shade(view, findings(view))
        good = view.drills.good
        cells = (
            view.state.side,
            health(view),
            view.reading,
            view.standby.state,
            standby_age(view),
            points(view),
            "never" if good is None else clock_or_day(good.began_at, view.at),
        )
        name = f'<td class="state {colour}">{_SIGN[colour]} <a href="#{_text(view.name)}">{_text(view.name)}</a></td>'
        rest = "".join(
            f'<td data-is="{head}">{_text(cell)}</td>' for head, cell in zip(_HEADS[1:-1], cells, strict=True)
        )
        verdict = f'<td data-is="verdict" class="{colour}">{_text(view.verdict.kind.value)}</td>'
        yield f"<tr>{name}{rest}{verdict}</tr>"
    yield "</tbody></table>"


def _details(views: Sequence[ServiceView]) -> Iterable[str]:
    yield "<h2>Each service</h2>"
    for view in views:
        lines = chr(10).join(detail(view))
        name = _text(view.name)
        yield f'<details id="{name}"><summary>{name}</summary><pre>{escape(lines)}</pre></details>'
