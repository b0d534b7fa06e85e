"""`vcrecovery completion`."""

from __future__ import annotations

import click
from click.shell_completion import ShellComplete, get_completion_class

from vcrecovery.cli.main import COMPLETE_VARIABLE


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash: vcrecovery completion bash > /etc/bash_completion.d/vcrecovery
    zsh:  vcrecovery completion zsh > /usr/local/share/zsh/site-functions/_vcrecovery
    fish: vcrecovery completion fish > /etc/fish/completions/vcrecovery.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101  click knows these three
    # Not the class's own `source`: for bash that runs bash, to look at its version.
    script = ShellComplete.source(kind(ctx.find_root().command, {}, "vcrecovery", COMPLETE_VARIABLE))
    click.echo(script, nl=False)
