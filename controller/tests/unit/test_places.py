"""Places for the sessions of one service's key: real processes with real locks."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from vcrecovery.errors import ExternalError
from vcrecovery.transfer.places import PLACES, take_place

#: Has a place, and a child that is another program; both end with the pipe.
CALL = """\
import os, sys
from pathlib import Path
from vcrecovery.transfer.places import take_place
take_place(Path(sys.argv[1]), "web")
if os.fork() == 0:
    print("taken", flush=True)
    os.execvp("cat", ["cat"])
sys.stdin.read()
"""


def test_so_many_sessions_are_open_at_once_and_each_leaves_its_place(tmp_path: Path) -> None:
    with ExitStack() as calls:
        words = [sys.executable, "-c", CALL, str(tmp_path)]
        made = [
            calls.enter_context(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            for _ in range(PLACES)
        ]
        for call in made:
            assert call.stdout is not None
            assert call.stdout.readline() == b"taken\n"
        with pytest.raises(ExternalError, match="16 sessions of the primary of web are open already"):
            take_place(tmp_path, "web")
        take_place(tmp_path, "mail")
        made[3].kill()
        made[3].wait(30)
        take_place(tmp_path, "web")


def test_a_place_that_cannot_be_had_is_said(tmp_path: Path) -> None:
    (tmp_path / "standbys").mkdir()
    (tmp_path / "standbys/web.places").symlink_to("/etc/passwd")
    with pytest.raises(ExternalError, match=r"standbys/web\.places cannot be used: Too many levels of symbolic links"):
        take_place(tmp_path, "web")
