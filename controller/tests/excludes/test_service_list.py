"""The whole list of a service: what each machine has of its own, and the paths that the plan adds."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from package_trees import make_directory, make_file, make_link
from test_dialects import LSYNCD, RSYNC, lsyncd, run_rsync, wait_for

from vcrecovery.excludes.selection import Selection
from vcrecovery.excludes.service import DIALECTS, service_rules

#: Files of a machine's own, and data of services beside them.
OWN = (b"/swap.img", b"/swapfile", b"/var/lib/dhcp/dhclient.leases", b"/var/lib/dhcp/dhclient.eth0.leases")
DATA = (
    b"/var/lib/dhcp/dhcpd.leases",
    b"/var/lib/dhcp/dhcpd6.leases",
    b"/srv/var/lib/dhcp/dhclient.leases",
    b"/srv/swap.img",
)


def there(top: Path, paths: tuple[bytes, ...]) -> tuple[bytes, ...]:
    return tuple(path for path in paths if os.path.lexists(os.fsencode(top) + path))


@pytest.mark.skipif(RSYNC is None, reason="needs rsync")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_leases_of_a_server_are_synced_and_those_of_the_machine_are_not(dialect: str, tmp_path: Path) -> None:
    source, target, rules = tmp_path / "source", tmp_path / "target", tmp_path / "rules"
    for path in OWN + DATA:
        make_file(source, path)
    make_file(target, OWN[2])
    rules.write_bytes(service_rules(source, Selection(), [dialect])[dialect])
    if dialect == "rsync-filter":
        words = [RSYNC or "", "-a", "--delete", f"--filter=merge {rules}", f"{source}/", f"{target}/"]
        subprocess.run(words, check=True, timeout=60)
    else:
        run_rsync(source, target, rules)
    assert there(target, DATA) == DATA
    assert there(target, OWN) == (OWN[2],)  # the standby's own


@pytest.mark.skipif(LSYNCD is None, reason="needs lsyncd")
def test_lsyncd_sends_the_leases_of_a_server_too(tmp_path: Path) -> None:
    source, target, rules = tmp_path / "source", tmp_path / "target", tmp_path / "rules"
    make_file(source, b"/var/lib/dhcp/first")
    target.mkdir()
    rules.write_bytes(service_rules(source, Selection(), ["lsyncd"])["lsyncd"])
    config = tmp_path / "lsyncd.conf"
    config.write_text(
        f'settings {{ nodaemon = true, logfile = "{tmp_path}/log" }}\n'
        f'sync {{ default.rsync, source = "{source}", target = "{target}", delay = 1, excludeFrom = "{rules}" }}\n'
    )
    with lsyncd(config):
        wait_for(os.fsencode(target) + b"/var/lib/dhcp/first")
        for path in (*OWN, *DATA, b"/last"):
            make_file(source, path)
        wait_for(os.fsencode(target) + b"/last")
        for path in DATA:
            wait_for(os.fsencode(target) + path)
    assert there(target, OWN) == ()


def added(root: Path, *paths: str) -> dict[str, list[bytes]]:
    """What the list has because of these paths, in each dialect."""
    lists = [service_rules(root, Selection(paths=wanted), DIALECTS) for wanted in ((), paths)]
    none, some = ({dialect: rules.split(b"\n")[:-1] for dialect, rules in one.items()} for one in lists)
    return {dialect: some[dialect][len(none[dialect]) :] for dialect in DIALECTS}


def test_a_path_of_the_plan_behind_a_symlink_is_left_out_where_it_is(tmp_path: Path) -> None:
    make_directory(tmp_path, b"/usr/lib/firmware")
    make_link(tmp_path, b"/lib", b"usr/lib")
    make_directory(tmp_path, b"/srv/mysql")
    make_link(tmp_path, b"/var/lib/mysql", b"/srv/mysql")
    make_file(tmp_path, b"/srv/dump")
    make_link(tmp_path, b"/var/dump", b"/srv/dump")
    make_link(tmp_path, b"/var/all", b"/")
    for wanted, made in (
        ("/lib/firmware", [b"/usr/lib/firmware"]),
        ("/lib/firmware/", [b"/usr/lib/firmware"]),
        ("/var/lib/mysql", [b"/var/lib/mysql", b"/srv/mysql"]),
        ("/var/lib/mysql/ibdata1", [b"/srv/mysql/ibdata1"]),
        ("/var/dump", [b"/var/dump"]),
        ("/var/all", [b"/var/all"]),
        ("/lib/not/there", [b"/usr/lib/not/there"]),
        ("/srv/plain", [b"/srv/plain"]),
    ):
        found = added(tmp_path, wanted)
        assert found == {"rsync": made, "lsyncd": made, "rsync-filter": [b"- " + path for path in made]}, wanted


def test_a_path_of_the_plan_that_is_there_twice_is_listed_once(tmp_path: Path) -> None:
    make_directory(tmp_path, b"/usr/lib/firmware")
    make_link(tmp_path, b"/lib", b"usr/lib")
    assert added(tmp_path, "/lib/firmware", "/usr/lib/firmware")["rsync"] == [b"/usr/lib/firmware"]


def test_a_path_with_a_wildcard_that_is_not_there_hides_nothing_from_lsyncd(tmp_path: Path) -> None:
    """For lsyncd it would be a pattern, and what happens to match would be sent by the next comparison only."""
    make_file(tmp_path, b"/srv/store/a/data")
    make_file(tmp_path, b"/srv/log/xoldx")
    make_file(tmp_path, b"/srv/tmp/what?")
    for wanted, escaped, for_lsyncd in (
        ("/srv/store/*", rb"/srv/store/\*", []),
        ("/srv/later/*", rb"/srv/later/\*", []),
        ("/srv/log/[old]", rb"/srv/log/\[old]", []),
        ("/srv/tmp/what?", rb"/srv/tmp/what\?", [b"/srv/tmp/what?"]),
    ):
        found = added(tmp_path, wanted)
        assert found == {"rsync": [escaped], "lsyncd": for_lsyncd, "rsync-filter": [b"- " + escaped]}, wanted
