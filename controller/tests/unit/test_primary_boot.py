"""What takes part in a VM's shutdowns and boots, where the VM's boot has no place for it, such as by firewalld."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from local_play import plays_here

CHECKOUT = Path(__file__).resolve().parents[3]
UNITS = ("vcrecovery-last-files.service", "vcrecovery-who-serves.service")
#: Knows of a unit what its file here says.
SYSTEMCTL = """#!/bin/sh
cd "${0%/*}/.." || exit
for word; do unit=$word; done
case $* in
  "show "*) if [ -e "$unit" ]; then echo ActiveState=active; echo UnitFileState=enabled; fi;;
  *is-enabled*) [ -e "$unit" ];;
  "enable --now "*) touch "$unit";;
  "disable "*) rm "$unit";;
esac
"""
#: Looks only whether both would be in the boot.
ANALYZE = """#!/bin/sh
wanted=${SYSTEMD_UNIT_PATH%:}
[ -h "$wanted/multi-user.target.wants/vcrecovery-last-files.service" ] || exit
[ -h "$wanted/basic.target.wants/vcrecovery-who-serves.service" ] || exit
if [ -e "${0%/*}/cycle" ]; then
  echo "basic.target: Found ordering cycle on vcrecovery-who-serves.service/start" >&2
fi
"""


@pytest.fixture
def vm(tmp_path: Path) -> Path:
    own = tmp_path / "ansible_collections/vcrecovery/standby"
    own.mkdir(parents=True)
    for part in ("galaxy.yml", "meta", "plugins", "roles"):
        (own / part).symlink_to(CHECKOUT / part)
    (tmp_path / "bin").mkdir()
    for name, text in (("systemctl", SYSTEMCTL), ("systemd-analyze", ANALYZE)):
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def _changes(vm: Path, *words: str) -> int:
    role = {"ansible.builtin.include_role": {"name": "vcrecovery.standby.primary", "tasks_from": "boot"}}
    play = [{"hosts": "localhost", "gather_facts": False, "tasks": [role]}]
    path = f"{vm}/bin:{os.environ['PATH']}"
    here = {"PATH": path, "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3", "ANSIBLE_NOCOLOR": "1"}
    said = plays_here(vm, play, *words, **here)
    assert ("This VM's boot has an ordering cycle" in said) == (vm / "bin/cycle").exists()
    (count,) = re.findall(r"changed=(\d+)", said)
    return int(count)


def _enabled(vm: Path) -> list[str]:
    return sorted(path.name for path in vm.glob("*.service"))


def test_a_boot_with_a_cycle_is_left_alone_until_it_has_none(vm: Path) -> None:
    (vm / "bin/cycle").touch()
    assert (_changes(vm), _enabled(vm)) == (0, [])
    (vm / "bin/cycle").unlink()
    assert (_changes(vm, "--check"), _enabled(vm)) == (1, [])
    assert (_changes(vm), _enabled(vm)) == (1, list(UNITS))
    assert (_changes(vm), _enabled(vm)) == (0, list(UNITS))


def test_they_are_taken_out_of_a_boot_that_has_a_cycle_now(vm: Path) -> None:
    for unit in UNITS:
        (vm / unit).touch()
    (vm / "bin/cycle").touch()
    assert (_changes(vm, "--check"), _enabled(vm)) == (1, list(UNITS))
    assert (_changes(vm), _enabled(vm)) == (1, [])
    assert (_changes(vm), _enabled(vm)) == (0, [])
