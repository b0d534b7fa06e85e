"""What every broken input has to show: one line that helps, and a good list that is still there."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from vcrecovery.cli.excludes import exclude_list as command
from vcrecovery.errors import UsageError
from vcrecovery.excludes import ExcludeError, exclude_list, render, write_if_changed

GOOD = b"/a/good/list/\n"


def survives(root: Path, *packages: str) -> str:
    """The message for a list of a broken root, after the good list at the destination proved to be untouched."""
    with tempfile.TemporaryDirectory() as name:
        destination = Path(name) / "list"
        destination.write_bytes(GOOD)
        before = destination.stat()
        with pytest.raises(ExcludeError) as caught:
            write_if_changed(destination, render(exclude_list(root, packages), "rsync"))
        message = str(caught.value)
        after = destination.stat()
        assert destination.read_bytes() == GOOD
        assert (after.st_ino, after.st_mtime_ns, after.st_mode) == (before.st_ino, before.st_mtime_ns, before.st_mode)
        assert list(Path(name).iterdir()) == [destination]
    # The command says the same, and prints nothing that could be taken for a list.
    arguments = [part for package in packages for part in ("--packages", package)]
    result = CliRunner().invoke(command, ["--root", str(root), *arguments])
    assert isinstance(result.exception, UsageError)
    assert str(result.exception).split() == message.split()
    assert not result.output
    assert message.isprintable()
    # The thing, and after a colon the way out.
    thing, _, way_out = message.rpartition(": ")
    assert thing
    assert way_out
    return message
