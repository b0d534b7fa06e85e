"""`vcrecovery status`."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vcrecovery.cli import complete, output
from vcrecovery.cli.options import Seconds, is_terminal, json_option, known_service, plan_option, read_plan
from vcrecovery.cli.terminal import height, paint, width
from vcrecovery.core.text import day_and_time
from vcrecovery.errors import UsageError, VCRecoveryError

if TYPE_CHECKING:
    from vcrecovery.drivers.clock import Clock
    from vcrecovery.operations.environment import Environment
    from vcrecovery.report.findings import Finding
    from vcrecovery.report.view import ServiceView

    #: Of services, and what is about none.
    Seen = tuple[list[ServiceView], list[Finding]]

#: What Nagios makes of an exit status: 0 OK, 1 WARNING, 2 CRITICAL.
_NAGIOS = {0: ("OK", 0), 6: ("CRITICAL", 2), 7: ("WARNING", 1)}
#: Seconds for which a notice that was given up is shown.
_GIVEN_UP_SHOWN = 86400.0


@click.command()
@click.argument("service", shell_complete=complete.service, required=False)
@json_option
@click.option("--check", is_flag=True, help="One line per finding; exit status 6: needs attention now, 7: later.")
@click.option("--nagios", is_flag=True, help="The same as a Nagios plugin: exit status 0 to 3.")
@click.option("--watch", "again", is_flag=True, help="Refresh continuously; when not on a terminal, print changes.")
@click.option("--every", default=2.0, show_default=True, type=Seconds(86400), help="Seconds between refreshes.")
@click.option("--within", default=5.0, show_default=True, type=Seconds(3600), help="Seconds to wait for answers.")
@plan_option
def status(
    service: str | None,
    as_json: bool,
    check: bool,
    nagios: bool,
    again: bool,
    every: float,
    within: float,
    plan_path: Path,
) -> None:
    """Show who serves what, how fresh each standby is, and what needs attention.

    With SERVICE, everything about that one. Whatever does not answer in time is reported as such.
    """
    from vcrecovery.operations.environment import Environment
    from vcrecovery.report.look import look
    from vcrecovery.report.query_pool import QueryPool
    from vcrecovery.report.secondaries import of_secondaries
    from vcrecovery.report.watcher import of_the_watcher

    if (check or nagios) and (as_json or again):
        raise UsageError(
            "choose one of --check, --nagios, --json and --watch", "of these only --watch and --json go together"
        )
    plan = read_plan(plan_path)
    names = [known_service(plan, plan_path, service)] if service is not None else list(plan.services)
    env, asker = Environment(plan), QueryPool()

    def seen() -> Seen:
        views, of_all = look(env, names, asker, within), of_the_watcher(env)
        return views, of_all if service is not None else [*of_all, *of_secondaries(env), *_not_told(env)]

    if check or nagios:
        sys.exit(_check(seen(), nagios=nagios))
    if again:
        _watch(seen, every, env.clock, detailed=service is not None, as_json=as_json)
        return
    click.echo(_as_json(seen()) if as_json else "\n".join(_lines(seen(), detailed=service is not None)))


def _not_told(env: Environment) -> list[Finding]:
    """To whom the watcher could not tell what happened."""
    if not env.plan.notify:
        return []
    from vcrecovery.report.findings import notice_findings
    from vcrecovery.store.notices import NoticeBook

    ways = [str(destination.url_file) for destination in env.plan.notify]
    return notice_findings(NoticeBook(env.journal).unreached(ways, env.clock.now(), _GIVEN_UP_SHOWN))


def _lines(seen: Seen, *, detailed: bool) -> list[str]:
    from vcrecovery.report.status import detail, table

    views, more = seen
    return detail(views[0], width(), paint, more) if detailed else table(views, width(), paint, more)


def _as_json(seen: Seen, indent: int | None = 2) -> str:
    from vcrecovery.report.status import as_data, others_as_data

    views, more = seen
    data = {"services": [as_data(view) for view in views], "findings": others_as_data(views, more)}
    return json.dumps(data, indent=indent)


def _check(seen: Seen, *, nagios: bool) -> int:
    """Prints what was found. Nothing, when all is well, so that cron sends no mail."""
    from vcrecovery.report.findings import all_findings, exit_code

    views, more = seen
    found = all_findings(views, more)
    code = exit_code(found)
    if nagios:
        word, code_for_nagios = _NAGIOS[code]
        first = f"{found[0]}" if found else f"{len(views)} service(s) are well"
        further = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        # Nagios takes what stands behind a bar for figures.
        click.echo(f"VCRECOVERY {word} - {first}{further}".replace("|", "/"))
        for finding in found[1:]:
            click.echo(f"{finding.level}: {finding}".replace("|", "/"))
        return code_for_nagios
    for finding in found:
        click.echo(paint(f"{finding.level}: {finding}", "red" if code == 6 else "yellow"))
    if not found and sys.stdout.isatty():
        click.echo(f"{len(views)} service(s) are well")
    return code


def _watch(seen: Callable[[], Seen], every: float, clock: Clock, *, detailed: bool, as_json: bool) -> None:
    """Looks again and again, until it is interrupted or nobody reads it any more."""
    from vcrecovery.report.status import fingerprint

    live = is_terminal() and not as_json
    before: object = None
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            begun = clock.now()
            try:
                found = seen()
                now: object = [fingerprint(view) for view in found[0]], [one.hint for one in found[1]]
                lines = [_as_json(found, indent=None)] if as_json else _lines(found, detailed=detailed)
            except VCRecoveryError as error:
                now = str(error)
                lines = [json.dumps({"error": now}) if as_json else f"vcrecovery: error: {now}"]
            if live:
                _redraw(lines, begun, every, first=before is None)
            elif now != before:
                click.echo("\n".join(lines if as_json else [f"--- {day_and_time(begun)}", *lines]))
            before = now
            if output.reader_leaves(sys.stdout, max(0.0, begun + every - clock.now())):
                return


def _redraw(lines: Sequence[str], at: float, every: float, *, first: bool) -> None:
    """Over the last frame, line by line, so that nothing flickers; what does not fit is counted."""
    room = height() - 2
    shown = [f"{day_and_time(at)}, every {every:g} s; Ctrl-C ends this", *lines[:room]]
    if len(lines) > room:
        shown[-1] = f"... and {len(lines) - room + 1} more line(s): make the terminal higher, or name a service"
    frame = "".join(f"{line}\033[K\n" for line in shown)
    click.echo(("\033[2J" if first else "") + f"\033[H{frame}\033[J", nl=False)
