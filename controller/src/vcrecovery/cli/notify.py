"""`vcrecovery notify`."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import click

from vcrecovery.cli.options import json_option, operator, plan_option, read_plan
from vcrecovery.drivers.runtime import results
from vcrecovery.errors import ExternalError, UsageError
from vcrecovery.operations.environment import Environment


@click.group()
def notify() -> None:
    """Tell people what happens: by mail, chat, or a webhook."""


@notify.command(short_help="Send a test message to those whom the plan tells.")
@click.argument("url_file", required=False, type=click.Path(path_type=Path))
@json_option
@plan_option
def test(url_file: Path | None, as_json: bool, plan_path: Path) -> None:
    """Send a test message to every destination of the plan, or to that of URL_FILE alone.

    Exit status 4: some of them were not reached.
    """
    plan = read_plan(plan_path)
    files = [destination.url_file for destination in plan.notify]
    if url_file is not None and url_file not in files:
        raise UsageError(f"plan {plan_path} has no destination {url_file}", "see its key notify")
    if not files:
        raise UsageError(f"plan {plan_path} tells nobody", "add a destination under its key notify")
    lines = tell_all(Environment(plan), [url_file] if url_file is not None else files)
    failed = [line for line in lines if line["error"]]
    if as_json:
        click.echo(json.dumps({"sent": lines}, indent=2))
    else:
        for line in lines:
            click.echo(f"{line['url_file']}" + (f" (URL {line['url']})" if line["url"] else "") + f": {line['said']}")
    if failed:
        raise ExternalError(f"{len(failed)} of {len(lines)} test messages were not sent", "fix that, then run it again")


def tell_all(env: Environment, files: list[Path]) -> list[dict[str, object]]:
    """Each URL at the same time; what came of it."""
    title = "VCRecovery: a test message"
    body = f"From {socket.gethostname()}, asked for by {operator()}. Next: nothing."
    ways: list[tuple[Path, int, str]] = []
    for file in files:
        try:
            ways += [(file, number + 1, "") for number in range(env.notifier.count(file))]
        except ExternalError as error:
            ways.append((file, 0, str(error)))

    def tell(way: tuple[Path, int, str]) -> dict[str, object]:
        file, url, error = way
        if not error:
            try:
                env.notifier.send(file, url, title, body)
            except ExternalError as caught:
                error = str(caught)
        return {"url_file": str(file), "url": url, "error": error, "said": error or "sent"}

    return results(env.runtime, tell, ways, "notify", at_once=8)
