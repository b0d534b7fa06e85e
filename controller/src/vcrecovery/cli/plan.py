"""`vcrecovery plan`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from vcrecovery.cli.options import json_option, plan_option
from vcrecovery.errors import UsageError
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.preflight import check_outside, notify_warnings, warnings_outside
from vcrecovery.plan.load import load_with_warnings
from vcrecovery.plan.model import Plan
from vcrecovery.plan.problems import PlanError


@click.group()
def plan() -> None:
    """Check the plan file, or print its schema."""


@plan.command(short_help="Find everything that is wrong with the plan.")
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--online", is_flag=True, help="Also ask every hypervisor, secondary and DNS server.")
@json_option
@plan_option
def check(file: Path | None, online: bool, as_json: bool, plan_path: Path) -> None:
    """Find everything that is wrong with the plan, and say where it stands. Changes nothing."""
    path = file or plan_path
    problems: list[str] = []
    warnings: list[str] = []
    loaded: Plan | None = None
    try:
        loaded, doubtful = load_with_warnings(path)
        warnings = [str(warning) for warning in doubtful]
    except PlanError as error:
        problems = [str(problem) for problem in error.problems]
    if loaded is not None:
        warnings += notify_warnings(Environment(loaded))
    if loaded is not None and online:
        env = Environment(loaded)
        problems = check_outside(env)
        warnings += warnings_outside(env)
    if as_json:
        click.echo(
            json.dumps({"plan": str(path), "ok": not problems, "problems": problems, "warnings": warnings}, indent=2)
        )
    else:
        for problem in problems:
            click.echo(f"{path}: {problem}")
        for warning in warnings:
            click.echo(f"{path}: warning: {warning}")
    if problems:
        count = len(problems)
        raise UsageError(f"plan {path} has {count} problem{'s' if count > 1 else ''}")
    if loaded is not None and not as_json:
        click.echo(f"{path}: good: {len(loaded.services)} service(s)")


@plan.command()
def schema() -> None:
    """Print the plan's JSON Schema, for editors and other tools."""
    click.echo(json.dumps(Plan.model_json_schema(), indent=2))
