"""`vcrecovery plan`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click

from vcrecovery.cli.options import json_option, plan_option, seconds_of
from vcrecovery.errors import UsageError
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.preflight import check_outside, notify_warnings, warnings_outside
from vcrecovery.plan.commands import missing_commands
from vcrecovery.plan.fields import NAME_PATTERN
from vcrecovery.plan.load import load_with_warnings
from vcrecovery.plan.model import Plan
from vcrecovery.plan.problems import PlanError


@click.group()
def plan() -> None:
    """Check the plan file, write a first one, print its schema, or find a cheaper or faster one."""


@plan.command(short_help="Find everything that is wrong with the plan.")
@click.argument("file", required=False, type=click.Path(path_type=Path, readable=False))
@click.option(
    "--online",
    is_flag=True,
    help="Also ask every hypervisor, secondary and DNS server; one that does not answer is a problem too (status 2).",
)
@json_option
@plan_option
def check(file: Path | None, online: bool, as_json: bool, plan_path: Path) -> None:
    """Find everything that is wrong with the plan, and say where it stands. Changes nothing.

    With --online, what the plan has run on the controller should be on this machine: fence, hooks, commands of ports.
    None is run: try these by hand.
    """
    path = file or plan_path
    problems: list[str] = []
    warnings: list[str] = []
    loaded: Plan | None = None
    remedy = ""
    try:
        loaded, doubtful = load_with_warnings(path)
        warnings = [str(warning) for warning in doubtful]
    except PlanError as error:
        problems, remedy = [str(problem) for problem in error.problems], error.remedy
    if loaded is not None:
        warnings += notify_warnings(Environment(loaded))
    if loaded is not None and online:
        env = Environment(loaded)
        problems = check_outside(env)
        warnings += [*warnings_outside(env), *missing_commands(loaded)]
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
        count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
        if loaded is not None:
            raise UsageError(f"{count} outside plan {path}, which is good by itself", "fix that, then run it again")
        raise UsageError(f"plan {path} has {count}", remedy)
    if loaded is not None and not as_json:
        click.echo(f"{path}: good: {len(loaded.services)} service(s)")


@plan.command()
def schema() -> None:
    """Print the plan's JSON Schema, for editors and other tools."""
    click.echo(json.dumps(Plan.model_json_schema(), indent=2))


def _hypervisors(_context: click.Context, _option: click.Parameter, typed: tuple[str, ...]) -> dict[str, str]:
    """`NAME=URI`, each name once."""
    found: dict[str, str] = {}
    for one in typed or ("hv1=qemu:///system",):
        name, _, uri = one.partition("=")
        if name in found:
            raise UsageError(f"--hypervisor: {name} is given twice", "give each a name of its own")
        if not re.fullmatch(NAME_PATTERN, name) or "://" not in uri:
            raise UsageError(f"--hypervisor: {one!r:.80} is none", "write hv1=qemu+ssh://vcrecovery@192.0.2.31/system")
        found[name] = uri
    return found


@plan.command(short_help="Write a first plan, of what hypervisors and LXD say.")
@click.option(
    "--hypervisor",
    "hypervisors",
    multiple=True,
    callback=_hypervisors,
    metavar="NAME=URI",
    help="A libvirt host; may be given several times.  [default: hv1=qemu:///system]",
)
@click.option(
    "--lxd",
    type=click.Path(path_type=Path),
    default=Path("/var/lib/lxd/unix.socket"),
    show_default=True,
    help="The socket of the LXD that is to hold the standbys; it need not answer yet.",
)
@click.option("--zone", help="The DNS zone of the services' names; needs --name-server.")
@click.option("--name-server", metavar="ADDRESS", help="Where that zone takes updates.")
@click.option("--no-ports", is_flag=True, help="Ask no port of the VMs.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write it to this file, which must not be there yet, instead of standard output.",
)
def init(
    hypervisors: dict[str, str],
    lxd: Path,
    zone: str | None,
    name_server: str | None,
    no_ports: bool,
    output: Path | None,
) -> None:
    """Write a first plan, with comments: the VMs of these hypervisors, their addresses, usual ports that answer.

    Changes nothing but FILE. What was guessed is marked CHECK; VMs without a known address are named at the end.
    """
    from vcrecovery.cli.plan_init import init as carry_out

    carry_out(hypervisors, lxd, zone, name_server, output, probes=not no_ports)


def _amount(_context: click.Context, option: click.Parameter, typed: str | None) -> float | None:
    """`100`, or `100/month`; a year's is spread over its months."""
    if typed is None:
        return None
    number, _, per = typed.partition("/")
    try:
        found = float(number)
    except ValueError:
        found = -1.0
    if not 0 < found < 1e12 or per not in ("", "month", "year"):
        raise UsageError(f"{option.opts[0]}: {typed!r:.40} is no budget", "write 100/month, or 1200/year")
    return found / 12 if per == "year" else found


@plan.command(short_help="Find the secondaries and modes that cost least, or recover fastest.")
@click.option("--rto", callback=seconds_of, metavar="DURATION", help="Within which every service has to be back.")
@click.option("--rpo", callback=seconds_of, metavar="DURATION", help="Of how long writes may be lost at most.")
@click.option("--budget", callback=_amount, metavar="AMOUNT", help="What the secondaries may cost, such as 100/month.")
@click.option(
    "--bear",
    type=click.Choice(["vm", "hypervisor", "site"]),
    default="site",
    show_default=True,
    help="What may fail at once: it decides how large secondaries are.",
)
@click.option("--at-most", type=click.IntRange(1, 50), help="How many secondaries there may be.")
@click.option("--apply", is_flag=True, help="Print the plan's changes as a difference for `patch`, and nothing else.")
@json_option
@plan_option
def advise(
    rto: float | None,
    rpo: float | None,
    budget: float | None,
    bear: str,
    at_most: int | None,
    apply: bool,
    as_json: bool,
    plan_path: Path,
) -> None:
    """Find the cheapest secondaries and modes for each recovery time; nothing else beats one of these rows in both.

    Times are those of this installation's own failovers and drills; what was never measured here is marked. Prices are
    the plan's (`costs.prices`). Without --rto and --budget the cheapest is proposed; with --budget alone the fastest.
    """
    from vcrecovery.cli.advise import advise as carry_out
    from vcrecovery.cost.advice import Bear
    from vcrecovery.report.advice import Wish

    if apply and as_json:
        raise UsageError("--apply and --json exclude each other", "choose one")
    carry_out(plan_path, Wish(rto, rpo, budget), Bear(bear), at_most, apply=apply, as_json=as_json)
