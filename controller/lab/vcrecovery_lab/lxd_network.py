"""Removes what standbys lay on: LXD's pool and its bridge, with the rules that LXD 5.0 forgets in the firewall."""

from __future__ import annotations

import re
import shlex

from vcrecovery.drivers.lxd import LxdServer

from .run import run

_PROGRAMS = ("iptables", "ip6tables")


def remove_pool_and_network(lxd: LxdServer, pool: str, network: str) -> None:
    """Removes them if they are there. Raises ExternalError while something uses them."""
    lxd.remove_pool_and_network(pool, network)
    remove_rules(network)


def remove_rules(network: str) -> None:
    """Those of the firewall that were made for this network."""
    for program in _PROGRAMS:
        for table, rule in rules_of(network, run([f"{program}-save"], timeout=30).stdout):
            # Somebody else may have been faster.
            run([program, "-w", "10", "-t", table, "-D", *rule], timeout=30, check=False)


def rules_of(network: str, saved: str) -> list[tuple[str, list[str]]]:
    """The rules of `saved`, an iptables-save, that LXD made for this very network: table, and the words after -A.

    Or Incus.
    """
    mark = re.compile(rf'--comment "generated for (?:LXD|Incus) network {re.escape(network)}"')
    named = re.compile(rf"-[io] {re.escape(network)} |^-A POSTROUTING -s .* -j MASQUERADE$")
    found, table = [], ""
    for line in saved.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith("-A ") and mark.search(line) and named.search(line):
            found.append((table, shlex.split(line)[1:]))
    return found
