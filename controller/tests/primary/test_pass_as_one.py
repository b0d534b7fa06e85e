"""Of files that belong together a standby has those of one pass, whatever happens to the next one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_reconcile import Pair

from lab.waiting import wait_for
from vcrecovery.primary.settings import Consistency, Hook

NAMES = ("1-index", "2-data", "3-wal")
#: In the place of ssh: the receiver's rsync as its rules allow it, into a folder.
SSH = """\
#!{python}
import os, sys
from vcrecovery.transfer.rsync_words import server_arguments
words = server_arguments(" ".join(sys.argv[6:]))
os.execv("/usr/bin/rsync", [*words[:-1], "{folder}/standby/"])
"""


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    """Has synced once, and changed since: three files are other ones, one has gone, one has two names."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ssh").write_text(SSH.format(python=sys.executable, folder=tmp_path))
    (tmp_path / "bin/ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    made = Pair(
        tmp_path, engine="periodic", consistency=Consistency("hook", hook=Hook("true", "true", 5)),
        state_dir=str(tmp_path / "tree/var/lib/vcrecovery"), target="receiver:/",
    )  # fmt: skip
    write(made, "first ")
    (made.tree / "srv/gone").write_text("x")
    made.reconcile()
    write(made, "second")
    (made.tree / "srv/gone").unlink()
    (made.tree / "srv/come").write_text("x")
    (made.tree / "srv/other-name").hardlink_to(made.tree / "srv/2-data")
    (made.tree / "srv/holes").write_bytes(bytes(1_000_000) + b"x")
    return made


def write(pair: Pair, what: str) -> None:
    (pair.tree / "srv").mkdir(exist_ok=True)
    for name in NAMES:
        (pair.tree / "srv" / name).write_bytes(what.encode() + os.urandom(400_000))


def cut_off(pair: Pair) -> None:
    """The VM crashes in the middle of a pass: the first file has arrived, and others have not."""
    usual, pair.settings = pair.settings, pair.settings._replace(bandwidth=200)
    with subprocess.Popen(pair.command(), start_new_session=True, stdout=subprocess.DEVNULL) as process:
        arrived = pair.standby / "srv/.~tmp~/1-index"
        wait_for(lambda: arrived.exists() or states(pair)[0] == b"second", "the first file")
        os.killpg(process.pid, signal.SIGKILL)
    pair.settings = usual


def states(pair: Pair) -> list[bytes]:
    return [(pair.standby / "srv" / name).read_bytes()[:6] for name in NAMES]


def left(pair: Pair) -> list[Path]:
    return list(pair.standby.rglob(".~tmp~"))


def test_a_pass_that_is_cut_off_has_changed_no_file_and_the_next_one_does(pair: Pair) -> None:
    cut_off(pair)
    assert states(pair) == [b"first "] * 3
    assert (pair.standby / "srv/gone").exists()
    assert json.loads((pair.standby / "var/lib/vcrecovery/reconcile.json").read_text()).get("ended") is None
    pair.reconcile()
    assert states(pair) == [b"second"] * 3
    assert pair.files(pair.standby) == pair.files(pair.tree)
    assert (pair.standby / "srv/other-name").stat().st_nlink == 2
    assert left(pair) == []
    assert json.loads((pair.standby / "var/lib/vcrecovery/reconcile.json").read_text())["ended"]


def test_what_it_leaves_goes_also_where_nothing_is_sent_any_more(pair: Pair) -> None:
    cut_off(pair)
    assert left(pair)
    for name in (*NAMES, "come", "other-name", "holes"):
        (pair.tree / "srv" / name).unlink()
    pair.reconcile()
    assert left(pair) == []
    assert pair.files(pair.standby) == pair.files(pair.tree)


def test_it_goes_when_files_need_not_belong_together_any_more(pair: Pair) -> None:
    cut_off(pair)
    pair.settings = pair.settings._replace(consistency=Consistency())
    pair.reconcile()
    assert left(pair) == []
