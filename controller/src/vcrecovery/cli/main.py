"""The command `vcrecovery`. Verbs live in their own files and are loaded when they are called."""

from __future__ import annotations

import importlib
import logging
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from vcrecovery.cli.loading import without_collection
from vcrecovery.errors import ExitCode, OperationInterrupted, UsageError, VCRecoveryError, bug_in_words

with without_collection():
    import click

    from vcrecovery.cli import output

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: Verbs that were called otherwise, for scripts that still do.
FORMER = {"pause": "suspend"}
#: The shell's completion asks through this.
COMPLETE_VARIABLE = "_VCRECOVERY_COMPLETE"
#: What Nagios makes of an exit status: nobody could look.
_NAGIOS_UNKNOWN = 3
#: verb -> (module, attribute, one line for --help)
VERBS = {
    "acknowledge": ("protection", "acknowledge", "Re-enable automatic failover after a failover."),
    "commit": ("rollback", "commit", "Remove what a failback keeps for a rollback."),
    "completion": ("completion", "completion", "Print the shell's completion script."),
    "cost": ("cost", "cost", "Show what protection costs, beside other ways to protect the same."),
    "drain": ("drain", "drain", "Move every standby off a secondary, before work on it."),
    "drill": ("drill", "drill", "Rehearse a failover on a clone that production never notices."),
    "event": ("event", "event", "Pass a Zabbix event to the watcher (run by Zabbix's action)."),
    "exclude-list": ("excludes", "exclude_list", "Print the paths that packages own, for rsync or lsyncd."),
    "explain": ("explain", "explain", "Explain a failover, or what it waits for."),
    "failback": ("failback", "failback", "Return a service to its VM, from the standby that serves; nothing is lost."),
    "failover": ("failover", "failover", "Fence a service's primary and start its standby."),
    "history": ("history", "history", "Show past failovers, step by step."),
    "metrics": ("metrics", "metrics", "Print metrics for Prometheus."),
    "move": ("move", "move", "Move a standby to another secondary, whether it serves or waits; nothing is lost."),
    "notify": ("notify", "notify", "Send a test message to those who are told what happens."),
    "plan": ("plan", "plan", "Check the plan file, write a first one, or find a cheaper one."),
    "rebalance": ("rebalance", "rebalance", "Move services off secondaries that are overloaded, to their spares."),
    "receive": ("receive", "receive", "Receive files for one standby (sshd's forced command)."),
    "relay": ("relay", "relay", "Relay VM states from SNMP agents to Zabbix."),
    "report": ("report", "report", "Tell what a period was like: RTO, RPO, freshness, availability, cost."),
    "resume": ("protection", "resume", "Resume automatic failover."),
    "rollback": ("rollback", "rollback", "Undo a failback: back to what the standby was."),
    "secondary": ("secondary", "secondary", "Power a secondary on demand on or off."),
    "snmp-agent": ("snmp_agent", "snmp_agent", "Serve a hypervisor's VM states by SNMP, with traps."),
    "standby": ("standby_verbs", "standby", "Manage the standbys on this secondary."),
    "status": ("status", "status", "Show who serves what, and how fresh the standbys are."),
    "suspend": ("protection", "suspend", "Suspend automatic failover of a service."),
    "switchover": ("switchover", "switchover", "Shut a service's VM down and start its standby; nothing is lost."),
    "undrain": ("drain", "undrain", "Let standbys be moved to a secondary again, after the work on it."),
    "watch": ("watch", "watch", "Watch the primaries and fail over automatically."),
}


class _LazyGroup(click.Group):
    """Loads a verb's module when the verb is called: `receive` runs at every change of a primary."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = FORMER.get(cmd_name, cmd_name)
        if cmd_name not in VERBS:
            return None
        module, attribute, _ = VERBS[cmd_name]
        with without_collection():
            command: click.Command = getattr(importlib.import_module(f"vcrecovery.cli.{module}"), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raises UsageError, which names the verb that was probably meant."""
        said = args[0]
        if said not in VERBS and said not in FORMER and not said.startswith("-") and not ctx.resilient_parsing:
            import difflib

            near = difflib.get_close_matches(said, VERBS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"there is no verb {said[:80]!r}{hint}", "`vcrecovery --help` lists them")
        return super().resolve_command(ctx, args)

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


def _said(error: click.ClickException) -> str:
    """What is wrong with the command line, as one line."""
    context = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and error.option_name == "--plan" and context and not context.parent:
        return "error: --plan stands behind the verb: `vcrecovery status --plan FILE`"
    program = context.command_path if context is not None else "vcrecovery"
    if context is None and (verb := FORMER.get(sys.argv[1], sys.argv[1]) if sys.argv[1:] else "") in VERBS:
        # Of an option without its value click does not say whose it is.
        program = f"vcrecovery {verb}"
    text = " ".join(error.format_message().split()).rstrip(".")
    return f"error: {text[:1].lower()}{text[1:]}; see `{program} --help`"


def _say_interrupted(interruption: BaseException | None) -> None:
    if not isinstance(interruption, OperationInterrupted):
        output.say("vcrecovery: interrupted; run the same command to continue", err=True)
        return
    for line in interruption.how_far:
        output.say(line, err=True)
    again = f"to continue: `{shlex.join(['vcrecovery', *sys.argv[1:]])}`"
    output.say(f"vcrecovery: interrupted; {again if interruption.is_left else 'nothing is left to be done'}", err=True)


def _failed(text: str, code: int) -> NoReturn:
    if sys.argv[1:2] == ["status"] and "--nagios" in sys.argv:
        # Nagios reads stdout only, and takes 1 and 2 for what was found; what stands behind a bar is figures to it.
        output.say(f"VCRECOVERY UNKNOWN - {text.removeprefix('error: ')}".replace("|", "/"))
        sys.exit(_NAGIOS_UNKNOWN)
    output.say(f"vcrecovery: {text}", err=True)
    sys.exit(code)


def main() -> NoReturn:
    """Runs the command line. Errors are one line on stderr; the exit status is an ExitCode."""
    # Plugins of other packages have no business here, and to look for some takes time.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    with errors_told():
        cli.main(standalone_mode=False, prog_name="vcrecovery", complete_var=COMPLETE_VARIABLE)
        output.finish()
    sys.exit(ExitCode.DONE)


@contextmanager
def errors_told() -> Iterator[None]:
    """An error of the block ends the program, with one line on stderr."""
    output.prepare()
    try:
        yield
    except click.ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # of a verb's group without its verb; older clicks have none
            output.say(error.format_message(), err=True)
            sys.exit(ExitCode.USAGE)
        _failed(_said(error), ExitCode.USAGE)
    except (click.Abort, KeyboardInterrupt) as error:
        # What click raises in its place has it as its cause.
        _say_interrupted(error.__cause__ if isinstance(error, click.Abort) else error)
        sys.exit(130)
    except VCRecoveryError as error:
        _failed(f"error: {error}", error.exit_code)
    except BrokenPipeError:
        sys.exit(ExitCode.DONE)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "libvirt":
            # The wheel alone has none: distributions ship the one that fits their libvirt, and the roles take that.
            how = "run the role `controller`, which takes python3-libvirt, or `pip install 'vcrecovery[libvirt]'`"
            _failed(f"error: libvirt's binding for Python is not installed; {how}", ExitCode.EXTERNAL)
        if isinstance(error, OSError) and output.is_of_output(error):
            why = f"the output cannot be written: {error.strerror}; write it elsewhere"
            _failed(f"error: {why}", ExitCode.EXTERNAL)
        logging.getLogger("vcrecovery").debug("unexpected", exc_info=True)
        if os.environ.get("VCRECOVERY_DEBUG"):
            output.say(f"vcrecovery: internal error: {bug_in_words(error)}", err=True)
            raise
        _failed(f"internal error: {bug_in_words(error)}; VCRECOVERY_DEBUG=1 shows where", ExitCode.INTERNAL)
    finally:
        for stream in (sys.stdout, sys.stderr):
            if output.broken(stream):
                output.give_up(stream)
