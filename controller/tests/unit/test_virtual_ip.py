"""A virtual address: whether it is held, and given up, so that nothing that leads it on stays behind without a word."""

from __future__ import annotations

from ipaddress import ip_interface
from pathlib import Path

import pytest

from vcrecovery.drivers.virtual_ip import CHAIN, VirtualIp, give_up, holds
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
        "ip -j address show to 192.0.2.50",
        f"iptables -w 5 -t nat -S {CHAIN}",
    ]


def test_rules_that_cannot_be_read_now_are_not_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(tmp_path, monkeypatch, "Another app is currently holding the xtables lock.", 4)
    with pytest.raises(ExternalError, match="holding the xtables lock"):
        give_up(WANTED)


STANDBY = "10.20.0.10"
HELD = """\
case "$*" in
    *"-S {chain}") echo "-A {chain} -d 192.0.2.50/32 -j DNAT --to-destination {standby}" ;;
    *"-C {unhooked} "*) echo "{said}" >&2; exit {status} ;;
esac
"""


def held(folder: Path, monkeypatch: pytest.MonkeyPatch, unhooked: str, said: str = "", status: int = 0) -> None:
    """The address is here, and our chain leads it on; asked for the jump from `unhooked`, `iptables` ends like this."""
    shown = '[{"addr_info": [{"local": "192.0.2.50"}]}]'
    text = HELD.format(chain=CHAIN, standby=STANDBY, unhooked=unhooked, said=said, status=status)
    for name, does in (("ip", f"echo '{shown}'\n"), ("iptables", text)):
        (folder / name).write_text(f"#!/bin/sh\n{does}")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.mark.parametrize("unhooked", ["PREROUTING", "OUTPUT"])
def test_one_that_nothing_is_led_to_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unhooked: str) -> None:
    """A firewall that is loaded anew flushes the built-in chains, and leaves ours: this machine itself answers."""
    held(tmp_path, monkeypatch, "none")
    assert holds(WANTED, STANDBY)
    assert not holds(WANTED, "10.20.0.11")
    said = "iptables: Bad rule (does a matching rule exist in that chain?)."
    held(tmp_path, monkeypatch, unhooked, said, 1)
    assert not holds(WANTED, STANDBY)


def test_whoever_may_not_ask_netfilter_does_not_say_that_it_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held(tmp_path, monkeypatch, "PREROUTING", "can't initialize iptables table nat: Permission denied", 3)
    with pytest.raises(ExternalError, match="Permission denied"):
        holds(WANTED, STANDBY)
    (tmp_path / "iptables").unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ExternalError, match="iptables is not installed"):
        holds(WANTED, STANDBY)


SHOWN = """\
[{}, {"ifname": "eth0", "addr_info": [{"local": "192.0.2.50", "prefixlen": 25}]},
 {"ifname": "eth1", "addr_info": [{"local": "192.0.2.50", "prefixlen": 24}]}]
"""


def test_one_is_given_up_wherever_this_machine_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan's prefix or interface may be others since: whatever stays would answer beside the VM."""
    programs(tmp_path, monkeypatch, "iptables: No chain/target/match by that name.", 1)
    (tmp_path / "ip").write_text(f"""#!/bin/sh
echo "$*" >> {tmp_path}/calls
case "$*" in *" show "*) cat {tmp_path}/shown ;; esac
""")
    (tmp_path / "shown").write_text(SHOWN)
    give_up(WANTED)
    assert (tmp_path / "calls").read_text().splitlines()[1:3] == [
        "-j address del 192.0.2.50/25 dev eth0",
        "-j address del 192.0.2.50/24 dev eth1",
    ]


def test_an_interface_that_has_gone_keeps_nothing_from_being_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a restart with another kernel: a failback goes on."""
    programs(tmp_path, monkeypatch, "iptables: No chain/target/match by that name.", 1)
    (tmp_path / "ip").write_text("""#!/bin/sh
case "$*" in
    *" dev "*) echo 'Device "eth0" does not exist.' >&2; exit 1 ;;
    *) echo "[]" ;;
esac
""")
    give_up(WANTED)
    # Whether it should be here, nobody can tell: this may be another machine than the controller's.
    with pytest.raises(ExternalError, match="does not exist"):
        holds(WANTED, STANDBY)
