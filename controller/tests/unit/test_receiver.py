"""What the receiver takes, word by word."""

from __future__ import annotations

import pytest

from vcrecovery.errors import RefusedError
from vcrecovery.sync.receiver import server_arguments

#: What lsyncd's rsync sends, seen on the wire of rsync 3.2.7.
OF_LSYNCD = "rsync --server -lHogDtpAXrSe.iLsfxCIvu --delete --ignore-errors --force --numeric-ids . /"


def test_what_lsyncd_sends_is_taken() -> None:
    words = server_arguments(OF_LSYNCD)
    assert words[:2] == ["rsync", "--server"]
    assert words[-2:] == [".", "/standby/"]


@pytest.mark.parametrize(
    "command",
    [
        "",
        "id",
        "sh -c id",
        "rsync",
        "rsync --daemon",
        "rsync --server --daemon .",
        "/srv/rsync --server -r . /",
        "rsync --server --sender -r . /",
        "rsync --server -r --sender . /",
        "rsync --server -r . /etc",
        "rsync --server -r . /../etc",
        "rsync --server -r . //",
        "rsync --server -r . .",
        "rsync --server -r . / /etc",
        "rsync --server -r / .",
        "rsync --server -sr . /",
        "rsync --server -Lr . /",
        "rsync --server -kr . /",
        "rsync --server -Kr . /",
        "rsync --server -br . /",
        "rsync --server --log-file=/etc/x -r . /",
        "rsync --server --temp-dir=/etc -r . /",
        "rsync --server -T /etc -r . /",
        "rsync --server --partial-dir=/etc -r . /",
        "rsync --server --backup-dir=/etc -r . /",
        "rsync --server --link-dest=/etc -r . /",
        "rsync --server --compare-dest=/etc -r . /",
        "rsync --server --files-from=/etc/shadow -r . /",
        "rsync --server --write-devices -r . /",
        "rsync --server --copy-unsafe-links -r . /",
        "rsync --server --delete-excluded -r . /",
        "rsync --server --config=/x -r . /",
        "rsync --server --rsync-path=/x -r . /",
        "rsync --server -e/bin/sh -r . /",
        "rsync --server '-e sh' -r . /",
        "rsync --server -r . '/",
        "rsync --server -r . / ; id",
        "rsync --server --timeout=1;id -r . /",
    ],
)
def test_all_else_is_refused(command: str) -> None:
    with pytest.raises(RefusedError, match="refused"):
        server_arguments(command)
