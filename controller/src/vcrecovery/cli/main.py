"""The command `vcrecovery`. Verbs live in their own files and are loaded when they are called."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from typing import NoReturn

import click

from vcrecovery.errors import ExitCode, VCRecoveryError

#: verb -> (module, attribute, one line for --help)
_VERBS = {
    "exclude-list": ("excludes", "exclude_list", "Print the paths that packages own, for rsync or lsyncd."),
    "failover": ("recovery", "failover", "Fence a service's primary and start its standby."),
    "history": ("report", "history", "What happened, step by step."),
    "pause": ("protection", "pause", "Say that what happens to a primary is no failure."),
    "plan": ("plan", "plan", "Check the plan file."),
    "receive": ("receive", "receive", "Take files for one standby (a forced command of sshd)."),
    "resume": ("protection", "resume", "End a pause."),
    "standby": ("standby_verbs", "standby", "Make and fill standbys on this secondary."),
    "status": ("report", "status", "Who serves what, and how fresh the standbys are."),
    "watch": ("watch", "watch", "Watch the primaries and fail over by itself."),
}


class _LazyGroup(click.Group):
    """Loads a verb's module when the verb is called: `receive` runs at every change of a primary."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        module, attribute, _ = _VERBS[cmd_name]
        command: click.Command = getattr(importlib.import_module(f"vcrecovery.cli.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, text) for verb, (_, _, text) in sorted(_VERBS.items())])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="vcrecovery", prog_name="vcrecovery")
def cli() -> None:
    """Failure recovery of VMs with containers that stand by."""


def main() -> NoReturn:
    """Runs the command line. Errors are one line on stderr; the exit status is an ExitCode."""
    try:
        cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(ExitCode.USAGE)
    except (click.Abort, KeyboardInterrupt):
        click.echo("vcrecovery: interrupted; the same command goes on from here", err=True)
        sys.exit(130)
    except VCRecoveryError as error:
        click.echo(f"vcrecovery: error: {error}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.DONE)
    except Exception as error:
        logging.getLogger("vcrecovery").debug("unexpected", exc_info=True)
        text = " ".join(str(error).split()) or "no message"
        click.echo(
            f"vcrecovery: internal error: {type(error).__name__}: {text}; this is a bug; "
            "VCRECOVERY_DEBUG=1 shows where",
            err=True,
        )
        if os.environ.get("VCRECOVERY_DEBUG"):
            raise
        sys.exit(ExitCode.INTERNAL)
    sys.exit(ExitCode.DONE)
