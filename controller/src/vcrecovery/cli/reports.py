"""What `vcrecovery report` does, once it is called."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import click

from vcrecovery.cli.options import read_plan
from vcrecovery.cli.output import say
from vcrecovery.errors import UsageError
from vcrecovery.operations.environment import Environment
from vcrecovery.plan.model import Plan
from vcrecovery.report.history import moment
from vcrecovery.report.periodic import charts, files
from vcrecovery.report.periodic.changes import changes
from vcrecovery.report.periodic.contents import document
from vcrecovery.report.periodic.data import as_data
from vcrecovery.report.periodic.document import Document
from vcrecovery.report.periodic.gather import begin_after, gather
from vcrecovery.report.periodic.mail import compose, send
from vcrecovery.report.periodic.markdown import markdown
from vcrecovery.report.periodic.page import page
from vcrecovery.report.periodic.view import ReportView
from vcrecovery.report.periodic.words import day_of


def make(plan_path: Path, since: str, output: Path | None, within: float, *, as_json: bool) -> None:
    plan = read_plan(plan_path)
    env = Environment(plan)
    now = env.clock.now()
    begin = moment(since, now)
    if begin > now:
        raise UsageError(f"--since: {since} is in the future")
    view = gather(env, begin, within)
    directory = output or directory_of(plan)
    if as_json:
        click.echo(json.dumps(as_data(view), indent=2))
    elif output is None:
        click.echo(markdown(_compared(view, as_data(view), directory)), nl=False)
    else:
        data = as_data(view)
        for file in _write(view, data, _compared(view, data, directory), directory)[1]:
            click.echo(file)


def on_schedule(plan_path: Path, within: float) -> None:
    """Writes it first: where it cannot be mailed, it is there."""
    plan = read_plan(plan_path)
    if plan.report is None:
        raise UsageError(f"plan {plan_path} has no `report`: how often, and to whom", "docs/reports.md has an example")
    env = Environment(plan)
    directory, now = directory_of(plan), env.clock.now()
    begin = begin_after(files.newest_scheduled(directory, day_of(now)), plan.report.every, now)
    view = replace(gather(env, begin, within), scheduled=True)
    data = as_data(view)
    found = _compared(view, data, directory)
    texts, written = _write(view, data, found, directory)
    for file in written:
        say(str(file))
    if plan.report.mail is not None:
        send(plan.report.mail, compose(plan.report.mail, found, texts["md"], texts["html"], view.made_at))
        say(f"mailed to {', '.join(plan.report.mail.to)}")


def directory_of(plan: Plan) -> Path:
    """Where reports are kept."""
    chosen = plan.report.directory if plan.report is not None else None
    return chosen or plan.state_dir / "reports"


def _compared(view: ReportView, data: Mapping[str, Any], directory: Path) -> Document:
    """With the newest report of an earlier day that is kept there."""
    name, before = files.newest_before(directory, day_of(view.made_at))
    if before is None:
        changed = [f"{name} cannot be read: nothing is compared."] if name else []
        return document(view, changed, name)
    return document(view, changes(before, data), name.removesuffix(".json"))


def _write(
    view: ReportView, data: Mapping[str, Any], found: Document, directory: Path
) -> tuple[dict[str, str], list[Path]]:
    day: date = day_of(view.made_at)
    texts = {
        "html": page(found, charts.svg if charts.is_available() else None, charts.COLOURS),
        "md": markdown(found),
        # For machines, and without indents ten times as fast: a year of a hundred services has a million values.
        "json": json.dumps(data) + "\n",
    }
    return texts, files.write(directory, day, texts)
