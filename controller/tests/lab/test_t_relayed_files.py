"""The receiver of a secondary on demand hands files on to the one in its VM while that is on; a folder stands in."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.waiting import wait_for
from vcrecovery.transfer.sessions import end_sessions, holders, lock_file
from vcrecovery_lab.pair.receiver import Receiver, known_host

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

NAME = "web1"


class Relayed:
    """A primary's files, a receiver that has no disk, and one behind it that writes into `tree`."""

    def __init__(self, folder: Path) -> None:
        self.state, self.tree, self.source = folder / "state", folder / "tree", folder / "source"
        for part in (self.tree, self.source, self.state / "standbys", folder / "front", folder / "behind"):
            part.mkdir(parents=True)
        relay = folder / "relay_key"
        self.behind = Receiver(folder / "behind", folder / "none", relay, NAME)
        self.front = Receiver(folder / "front", self.state, folder / "key", NAME)
        (folder / "known_hosts").write_text(known_host(self.behind))
        script = folder / "behind/receive"
        # What may be written to is its own folder, as in a jail.
        script.write_text(f"#!/bin/sh\ncommand=${{SSH_ORIGINAL_COMMAND% /}}\nexec $command {self.tree}/\n")
        script.chmod(0o755)
        keys = folder / "behind/authorized_keys"
        keys.write_text(f'restrict,command="{script}" {relay.with_suffix(".pub").read_text()}')
        entry = {
            "container": NAME,
            "rootfs": str(folder / "none"),
            "disk": str(folder / "none"),
            "note": str(folder / "none"),
            "takes_files": str(folder / "none"),
            "relay": {
                "address": "127.0.0.1",
                "port": str(self.behind.port),
                "key": str(relay),
                "known_hosts": str(folder / "known_hosts"),
            },
        }
        (self.state / f"standbys/{NAME}.json").write_text(json.dumps(entry))
        options = ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"]
        words = [word for option in options for word in ("-o", option)]
        ssh = ["ssh", "-F", "none", "-i", str(folder / "key"), "-p", str(self.front.port), *words]
        self.rsync = [
            "rsync",
            "-rlptgoD",
            "--numeric-ids",
            "-e",
            shlex.join(ssh),
            f"{self.source}/",
            "root@127.0.0.1:/",
        ]


@pytest.fixture
def relayed() -> Iterator[Relayed]:
    folder = Path(tempfile.mkdtemp(prefix="vcrr-", dir="/run"))
    made = Relayed(folder)
    made.behind.start()
    made.front.start()
    yield made
    made.front.stop()
    made.behind.stop()
    shutil.rmtree(folder)


def test_files_are_handed_on(relayed: Relayed) -> None:
    (relayed.source / "file").write_text("one")
    done = subprocess.run(relayed.rsync, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert (relayed.tree / "file").read_text() == "one"


def test_a_session_is_ended_here_as_any_other(relayed: Relayed) -> None:
    with (relayed.source / "large").open("wb") as file:
        file.truncate(1 << 30)
    sends = subprocess.Popen(
        [*relayed.rsync[:1], "--bwlimit=1m", "--whole-file", *relayed.rsync[1:]], stderr=subprocess.PIPE
    )
    try:
        lock = lock_file(relayed.state, NAME)
        wait_for(lambda: lock.exists() and "READ" in holders(lock).values(), "the session", 60)
        assert end_sessions(relayed.state, NAME, 10.0) == 1
        assert sends.wait(60) != 0
    finally:
        sends.kill()
        sends.communicate(timeout=30)


def test_where_the_one_behind_is_away_the_sync_fails_and_tries_again(relayed: Relayed) -> None:
    relayed.behind.stop()
    (relayed.source / "file").write_text("one")
    done = subprocess.run(relayed.rsync, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "Connection refused" in done.stderr
    assert not (relayed.tree / "file").exists()
