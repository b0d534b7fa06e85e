"""`vcrecovery exclude-list`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from vcrecovery.errors import ExternalError, UsageError
from vcrecovery.excludes import FORMATS, render, write_if_changed
from vcrecovery.excludes import exclude_list as list_of
from vcrecovery.excludes import explain as reason
from vcrecovery.excludes.errors import ExcludeError, NotWrittenError


@click.command()
@click.option("--packages", multiple=True, metavar="PATTERN", help="A package name or pattern; repeatable.")
@click.option("--keep", multiple=True, metavar="PATTERN", help="Packages to keep although --packages names them.")
@click.option("--profile", help="A named set of packages, such as vm-to-container.")
@click.option("--root", type=click.Path(path_type=Path, file_okay=False), default=Path("/"), show_default=True)
@click.option("--assume-owned", is_flag=True, help="List a directory even if it holds files that no package owns.")
@click.option("--format", "dialect", type=click.Choice(FORMATS), default="plain", show_default=True)
@click.option("--explain", metavar="PATH", help="Explain why this path is in the list or not.")
@click.option(
    "--output",
    metavar="FILE",
    help="Write the list there, atomically and only if it changed.",
)
def exclude_list(
    packages: tuple[str, ...],
    keep: tuple[str, ...],
    profile: str | None,
    root: Path,
    assume_owned: bool,
    dialect: str,
    explain: str | None,
    output: str | None,
) -> None:
    """Print the shortest list of paths that excludes what the named packages own, and nothing else.

    A directory is listed in place of its files if excluded packages own all of them. Files that no package owns are
    kept.
    """
    if not packages and profile is None:
        raise UsageError("name packages with --packages, or a set of them with --profile")
    try:
        if explain is not None:
            click.echo(reason(root, os.fsencode(explain), packages, keep, profile, assume_owned))
            return
        found = list_of(root, packages, keep, profile, assume_owned)
        text = render(found, dialect)
        if output is None:
            click.echo(text, nl=False)
            return
        changed = write_if_changed(output, text)
        click.echo(f"{output}: {len(found.paths)} paths, {'changed' if changed else 'unchanged'}", err=True)
    except NotWrittenError as error:
        raise ExternalError(str(error)) from error
    except ExcludeError as error:
        raise UsageError(str(error)) from error
