"""A virtual address that is given up: nothing that leads it on stays behind without a word."""

from __future__ import annotations

from ipaddress import ip_interface
from pathlib import Path

import pytest

from vcrecovery.drivers.virtual_ip import CHAIN, VirtualIp, give_up
from vcrecovery.errors import ExternalError

WANTED = VirtualIp(ip_interface("192.0.2.50/24"), "eth0")
PROGRAM = """\
echo "{said}" >&2
exit {status}
"""


def programs(folder: Path, monkeypatch: pytest.MonkeyPatch, said: str, status: int) -> None:
    """An `ip` that knows no address, and an `iptables` that fails like this. Both note their words in `calls`."""
    noted = f'#!/bin/sh\necho "${{0##*/}} $*" >> {folder}/calls\n'
    for name, text in (("ip", "echo []\n"), ("iptables", PROGRAM.format(said=said, status=status))):
        text = noted + text
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("iptables: No chain/target/match by that name.", 1),
        ("iptables v1.8.9 (legacy): can't initialize iptables table nat: Table does not exist", 3),
    ],
)
def test_without_our_chain_nothing_is_to_be_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, status: int
) -> None:
    programs(tmp_path, monkeypatch, said, status)
    give_up(WANTED)
    # It has looked at both places, and changed neither.
    assert (tmp_path / "calls").read_text().splitlines() == [
        "ip -j address show dev eth0",
        f"iptables -w 5 -t nat -S {CHAIN}",
    ]


def test_rules_that_cannot_be_read_now_are_not_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(tmp_path, monkeypatch, "Another app is currently holding the xtables lock.", 4)
    with pytest.raises(ExternalError, match="holding the xtables lock"):
        give_up(WANTED)
