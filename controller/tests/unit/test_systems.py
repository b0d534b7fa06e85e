"""The roles by the distribution that they find: names of packages, of units, of folders, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from local_play import plays_here

CHECKOUT = Path(__file__).resolve().parents[3]
SNAP = "/var/snap/lxd/common/lxd/unix.socket"
PLAN: dict[str, Any] = {
    "hypervisors": {"hv1": {"uri": "qemu:///system"}},
    "secondaries": {
        name: {
            "storage_pool": "standbys",
            "network": {"bridge": "vcr0", "address": "10.20.0.1/24"},
            "receiver": {"address": "192.0.2.1"},
            **({"lxd": socket} if socket else {}),
        }
        for name, socket in (("packaged", None), ("snapped", SNAP), ("with_incus", "/var/lib/incus/unix.socket"))
    },
    "services": {},
}


def _play(folder: Path, facts: dict[str, str], variables: dict[str, Any], *tasks: dict[str, Any]) -> str:
    """What Ansible prints on a host with those facts; a task that fails does not end it."""
    own = folder / "ansible_collections/vcrecovery/standby"
    own.mkdir(parents=True)
    for part in ("galaxy.yml", "meta", "plugins", "roles"):
        (own / part).symlink_to(CHECKOUT / part)
    lenient = [{"block": [task], "rescue": [{"ansible.builtin.debug": {"msg": "rescued"}}]} for task in tasks]
    found = {"ansible.builtin.set_fact": {"looked": True, **facts, "cacheable": True}}
    play = {
        "hosts": "localhost",
        "gather_facts": False,
        "vars": {"vcrecovery_plan": PLAN, **variables},
        "tasks": [found, *lenient],
    }
    return plays_here(folder, [play], ANSIBLE_PYTHON_INTERPRETER="/usr/bin/python3", ANSIBLE_NOCOLOR="1")


def _preflight(role: str, **variables: Any) -> dict[str, Any]:
    names = {"name": f"vcrecovery.standby.{role}", "tasks_from": "preflight"}
    return {"ansible.builtin.include_role": names, "vars": variables}


def _variables(role: str) -> dict[str, Any]:
    files = (CHECKOUT / "roles" / role / kind / "main.yml" for kind in ("defaults", "vars"))
    return {name: value for file in files for name, value in yaml.safe_load(file.read_text()).items()}


def _python(folder: Path, version: str) -> str:
    """A program that says that it is Python of `version`."""
    file = folder / "python3"
    file.write_text(f"#!/bin/sh\necho {version}\n")
    file.chmod(0o755)
    return str(file)


UBUNTU = {"distribution": "Ubuntu", "os_family": "Debian"}
DEBIAN = {"distribution": "Debian", "os_family": "Debian"}
INCUS = {"secondary_lxd_from": "incus"}
ROCKY = {"distribution": "Rocky", "os_family": "RedHat"}


def test_ubuntus_lxd_is_a_snap_that_has_to_be_there(tmp_path: Path) -> None:
    said = _play(tmp_path, UBUNTU, {}, _preflight("secondary", secondary_name="snapped"))
    assert "has no LXD, which is a snap on this system; run `snap install lxd --channel=5.0/stable` there" in said


def test_a_plan_with_the_packages_socket_is_refused_where_lxd_is_a_snap(tmp_path: Path) -> None:
    (tmp_path / "lxd").touch()
    # No snap is on this machine.
    kinds = yaml.safe_load((CHECKOUT / "roles/secondary/vars/main.yml").read_text())["secondary_lxd_kinds"]
    kinds["snap"]["daemon"] = str(tmp_path / "lxd")
    tasks = [
        _preflight("secondary", secondary_name=name, secondary_lxd_kinds=kinds) for name in ("packaged", "snapped")
    ]
    said = _play(tmp_path, UBUNTU, {}, *tasks)
    assert f"write `lxd: {SNAP}` into secondaries.packaged" in said
    assert "rescued=1 " in said
    assert "secondaries.snapped" not in said


def test_of_incus_only_what_was_tried_with_it_is_taken(tmp_path: Path) -> None:
    tasks = [
        _preflight("secondary", secondary_name="packaged", **INCUS),
        _preflight("secondary", secondary_name="with_incus", **INCUS),
        _preflight("secondary", secondary_name="with_incus", secondary_stateful_moves=True, **INCUS),
    ]
    said = _play(tmp_path, DEBIAN, {}, *tasks)
    assert (
        "secondary packaged, which has Incus; write `lxd: /var/lib/incus/unix.socket` into secondaries.packaged" in said
    )
    assert "secondary_stateful_moves is for LXD only, and secondary with_incus has Incus" in said
    assert "rescued=2 " in said


@pytest.mark.parametrize(
    ("facts", "given", "expected"),
    [
        (DEBIAN, {}, ["/var/lib/lxd", "lxd.service", "/usr/bin/lxd", ["lxd"]]),
        (UBUNTU, {}, ["/var/snap/lxd/common/lxd", "snap.lxd.daemon.unix.socket", "/snap/bin/lxd", []]),
        (DEBIAN, INCUS, ["/var/lib/incus", "incus.service", "/usr/libexec/incus/incusd", ["incus-base"]]),
    ],
)
def test_where_lxd_is_and_what_its_unit_is_called(
    facts: dict[str, str], given: dict[str, str], expected: list[Any], tmp_path: Path
) -> None:
    found = (
        "[secondary_lxd_dir, secondary_lxd_parts.unit, secondary_lxd_parts.daemon, secondary_lxd_parts.packages[:1]]"
        f" == {expected!r}"
    )
    said = _play(
        tmp_path,
        facts,
        {**_variables("secondary"), "secondary_name": "packaged", **given},
        {"ansible.builtin.assert": {"that": found}},
    )
    assert "rescued=0 " in said


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (DEBIAN, [[], ["rsync", "lsyncd", "openssh-client"]]),
        (UBUNTU, [[], ["rsync", "lsyncd", "openssh-client"]]),
        (ROCKY, [["epel-release"], ["rsync", "lsyncd", "openssh-clients"]]),
        # Nobody has looked.
        ({}, [[], ["rsync", "lsyncd", "openssh-client"]]),
    ],
    ids=["debian", "ubuntu", "rocky", "unknown"],
)
def test_what_a_primary_needs(facts: dict[str, str], expected: list[Any], tmp_path: Path) -> None:
    found = f"[primary_repositories, primary_packages] == {expected!r}"
    said = _play(tmp_path, facts, _variables("primary"), {"ansible.builtin.assert": {"that": found}})
    assert "rescued=0 " in said


def test_an_old_python_is_refused_by_every_role_that_installs_the_program(tmp_path: Path) -> None:
    """Ubuntu 22.04 has 3.10."""
    old = {"controller_system_python": _python(tmp_path, "3.10")}
    tasks = [
        _preflight("controller", **old),
        _preflight("secondary", secondary_name="packaged", **old),
        _preflight(
            "hypervisor",
            hypervisor_snmp_agent="vcrecovery",
            hypervisor_snmp_auth="spoken here",
            hypervisor_snmp_privacy="spoken here",
            hypervisor_snmp_host="hv1",
            **old,
        ),
        _preflight("hypervisor", hypervisor_snmp_agent="none", **old),
    ]
    said = _play(tmp_path, DEBIAN, {}, *tasks)
    assert "is 3.10, and the program needs 3.11; upgrade the host" in said
    assert "rescued=3 " in said
    assert "or leave snmp out of hypervisors.hv1 in the plan" in said
