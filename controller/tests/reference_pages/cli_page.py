"""`docs/reference/cli.md`: every verb with its arguments and options, as `--help` shows them."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc
from textwrap import fill, indent

import click

from reference_pages.markdown import WIDTH, code, head, table
from vcrecovery.cli.main import cli

_ABOUT = (
    "`vcrecovery VERB --help` shows the same on the machine. Every verb can be called again: it goes on where an "
    "earlier call stopped, or finds nothing to do. [Exit codes](exit-codes.md) are the same for all verbs."
)


def commands(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    if not isinstance(command, click.Group):
        yield command, context
        return
    for name in command.list_commands(context):
        sub = command.get_command(context, name)
        assert sub is not None
        yield from commands(sub, click.Context(sub, info_name=name, parent=context))


def _section(command: click.Command, context: click.Context) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    options = [param for param in command.get_params(context) if isinstance(param, click.Option)]
    records = [record for option in options if (record := option.get_help_record(context))]
    rows = [(code(names), about) for names, about in records if "--help" not in names]
    paragraphs = map(_paragraph, cleandoc(command.help or "").split("\n\n"))
    parts = [f"## {context.command_path}\n", f"    {usage}\n", *paragraphs]
    return "\n".join(parts + ([table(("option", "meaning"), rows)] if rows else []))


def _paragraph(text: str) -> str:
    if text.startswith("\b\n"):  # click leaves its lines as they are
        return indent(text.removeprefix("\b\n"), "    ") + "\n"
    return fill(" ".join(text.split()), WIDTH) + "\n"


def page() -> str:
    root = click.Context(cli, info_name="vcrecovery")
    sections = [_section(command, context) for command, context in commands(cli, root)]
    return "\n".join([head("The command line", "the verbs in `controller/src/vcrecovery/cli`", _ABOUT), *sections])
