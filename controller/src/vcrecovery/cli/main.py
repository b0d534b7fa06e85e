"""The command `vcrecovery`. Verbs live in their own files and are loaded when they are called."""

from __future__ import annotations

import importlib
import io
import logging
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from vcrecovery.cli.loading import without_collection
from vcrecovery.errors import ExitCode, VCRecoveryError

with without_collection():
    import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: The shell's completion asks through this.
COMPLETE_VARIABLE = "_VCRECOVERY_COMPLETE"
#: verb -> (module, attribute, one line for --help)
VERBS = {
    "acknowledge": ("protection", "acknowledge", "Let a service be failed over again by itself."),
    "completion": ("completion", "completion", "Print the shell's completion script."),
    "event": ("event", "event", "Hand an event of Zabbix to the watcher (Zabbix's action)."),
    "exclude-list": ("excludes", "exclude_list", "Print the paths that packages own, for rsync or lsyncd."),
    "explain": ("explain", "explain", "Why a failover went as it did, and what it waits for."),
    "failover": ("failover", "failover", "Fence a service's primary and start its standby."),
    "history": ("history", "history", "What happened, step by step."),
    "metrics": ("metrics", "metrics", "Print figures for Prometheus."),
    "pause": ("protection", "pause", "Say that what happens to a primary is no failure."),
    "plan": ("plan", "plan", "Check the plan file."),
    "receive": ("receive", "receive", "Take files for one standby (a forced command of sshd)."),
    "relay": ("relay", "relay", "Tell Zabbix what the hypervisors' SNMP agents say."),
    "resume": ("protection", "resume", "End a pause."),
    "snmp-agent": ("snmp_agent", "snmp_agent", "Show a hypervisor's VMs by SNMP, and tell of their changes."),
    "standby": ("standby_verbs", "standby", "Make and fill standbys on this secondary."),
    "status": ("status", "status", "Who serves what, and how fresh the standbys are."),
    "watch": ("watch", "watch", "Watch the primaries and fail over by itself."),
}


class _LazyGroup(click.Group):
    """Loads a verb's module when the verb is called: `receive` runs at every change of a primary."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, attribute, _ = VERBS[cmd_name]
        with without_collection():
            command: click.Command = getattr(importlib.import_module(f"vcrecovery.cli.{module}"), attribute)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Without loading the verbs: this runs at every press of the tab key."""
        from click.shell_completion import CompletionItem

        verbs = [(verb, text) for verb, (_, _, text) in sorted(VERBS.items()) if verb.startswith(incomplete)]
        found = [CompletionItem(verb, help=text) for verb, text in verbs]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, text) for verb, (_, _, text) in sorted(VERBS.items())])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="vcrecovery", prog_name="vcrecovery")
def cli() -> None:
    """Failure recovery of VMs with containers that stand by."""


def main() -> NoReturn:
    """Runs the command line. Errors are one line on stderr; the exit status is an ExitCode."""
    if COMPLETE_VARIABLE in os.environ:
        from vcrecovery.cli.complete import know_the_plan

        know_the_plan()
    # Plugins of other packages have no business here, and to look for some takes time.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # What comes from outside may not be printable here.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        cli.main(standalone_mode=False, prog_name="vcrecovery", complete_var=COMPLETE_VARIABLE)
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
