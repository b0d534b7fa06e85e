"""`man vcrecovery`: every verb, as `--help` shows it."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import cleandoc

import click

from reference_pages.cli_page import commands
from reference_pages.code_page import rows
from vcrecovery.cli.main import cli


def _text(said: str) -> str:
    """As roff takes it: no letter of it is a command."""
    escaped = said.replace("\\", "\\e").replace("-", "\\-").replace("`", "")
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in escaped.splitlines())


def _paragraphs(said: str) -> Iterator[str]:
    for paragraph in cleandoc(said).split("\n\n"):
        if paragraph.startswith("\b\n"):  # click leaves its lines as they are
            yield f".PP\n.nf\n{_text(paragraph.removeprefix(chr(8)).strip())}\n.fi"
        else:
            yield f".PP\n{_text(' '.join(paragraph.split()))}"


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f".SS {_text(usage)}"
    yield from _paragraphs(command.help or "")
    for option in command.get_params(context):
        record = option.get_help_record(context) if isinstance(option, click.Option) else None
        if record and "--help" not in record[0]:
            yield f".TP\n.B {_text(record[0])}\n{_text(' '.join(record[1].split()))}"


def page() -> str:
    root = click.Context(cli, info_name="vcrecovery")
    parts = [
        '.\\" Generated from the verbs in controller/src/vcrecovery/cli by `make docs`. Do not edit it.',
        '.TH VCRECOVERY 1 "" "VCRecovery"',
        ".SH NAME\nvcrecovery \\- keep standby containers of virtual machines, and fail over to them",
        ".SH SYNOPSIS\n.B vcrecovery\n.I VERB\n[\\fIOPTIONS\\fR]",
        ".SH DESCRIPTION",
        *_paragraphs(cli.help or ""),
        "Every verb can be called again: it goes on where an earlier call stopped, or finds nothing to do.",
        ".SH VERBS",
        *(part for command, context in commands(cli, root) for part in _command(command, context)),
        ".SH EXIT STATUS",
        *(f".TP\n.B {status}\n{_text(meaning)}" for status, _, meaning in rows()),
        ".SH FILES",
        ".TP\n.I /etc/vcrecovery/plan.yml\nThe plan; \\fBVCRECOVERY_PLAN\\fR or \\fB\\-\\-plan\\fR names another one.",
        ".TP\n.I /var/lib/vcrecovery\nThe journal, unless the plan says otherwise.",
    ]
    return "\n".join(parts) + "\n"
