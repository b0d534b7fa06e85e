"""Provisioners: the same contract for each, and what is made of a command that does something else."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import command_cloud
from contracts import provisioner
from contracts.cases import refusal
from made_by_libvirt import MadeByLibvirt
from simulated.cloud import SimulatedCloud
from simulated.machine_host import IMAGE, MachineHost
from vcrecovery.drivers.provisioner import CommandProvisioner, Made
from vcrecovery.errors import ExternalError
from vcrecovery_lab.pair.waiting import wait_until


def _order(lease: str) -> dict[str, Any]:
    return {"lease": lease, "name": "elastic-1", "options": {}, "user_data": "#cloud-config\n{}\n"}


class Command(CommandProvisioner):
    def __init__(self, folder: Path) -> None:
        super().__init__([sys.executable, command_cloud.__file__, str(folder)], 30.0)
        self._machines, self._fault = folder / "machines", folder / "fault"

    def order(self, lease: str) -> dict[str, Any]:
        return _order(lease)

    def everything(self) -> set[str]:
        return {file.name for file in self._machines.glob("*")}

    def strangers(self) -> None:
        self._machines.mkdir()
        (self._machines / "elastic-1").touch()

    def killed(self, order: Mapping[str, Any]) -> Iterator[None]:
        for step in range(3):
            self._fault.write_text(str(step))
            refusal(lambda: self.create(order))
            self._fault.unlink()
            yield

    def break_it(self) -> None:
        self._fault.write_text("broken")

    def hang(self) -> None:
        self._fault.write_text("hang")
        self._timeout = 1.0


class Libvirt(MadeByLibvirt):
    """With a libvirtd that is simulated."""

    def __init__(self, **wanted: Any) -> None:
        self.host = MachineHost()
        super().__init__("qemu+ssh://hv2/system", {"image": IMAGE, "network": "br0", **wanted})
        self._open = self.host.open

    def everything(self) -> set[str]:
        return {*self.host.domains, *self.host.volumes}

    def strangers(self) -> None:
        self.host.defineXML("<domain><name>elastic-1</name></domain>")

    def break_it(self) -> None:
        self.host.broken = True

    def hang(self) -> None:
        self.host.hanging, self._timeout = True, 1.0


class Simulated(SimulatedCloud):
    def order(self, lease: str) -> dict[str, Any]:
        return _order(lease)

    def everything(self) -> set[str]:
        return {one.id for found in self.machines.values() for one in found}

    def strangers(self) -> None:
        self.make("theirs")

    def killed(self, order: Mapping[str, Any]) -> Iterator[None]:
        yield
        self.create(order)
        yield

    def break_it(self) -> None:
        self.faults = {verb: [self.fails] for verb in ("create", "describe", "destroy")}

    def hang(self) -> None:
        self.faults = {verb: [self.hangs] for verb in ("create", "describe", "destroy")}


@provisioner.case.each
def test_the_command(case: Callable[[provisioner.Cloud], None], tmp_path: Path) -> None:
    case(Command(tmp_path))


@provisioner.case.each
def test_the_simulated_one(case: Callable[[provisioner.Cloud], None]) -> None:
    case(Simulated())


@provisioner.case.each
def test_libvirt(case: Callable[[provisioner.Cloud], None]) -> None:
    on = Libvirt()
    try:
        case(on)
    finally:
        on.host.go_on.set()


def saying(script: str, timeout: float = 30.0) -> CommandProvisioner:
    return CommandProvisioner(["sh", "-c", script, "cloud"], timeout)


def describe(command: CommandProvisioner) -> list[Made]:
    return command.describe({"lease": "x", "name": "elastic-1", "options": {}})


def test_what_it_is_given(tmp_path: Path) -> None:
    file = tmp_path / "given"
    assert describe(saying(f'cat > {file}; echo "$0 $1" >&2; echo \'{{"machines": []}}\'')) == []
    assert file.read_text() == '{"version": 1, "lease": "x", "name": "elastic-1", "options": {}}\n'


def test_only_its_last_line_counts() -> None:
    said = 'echo hello >&2; echo \'{"machines": [{"id": "i-1", "address": "192.0.2.7", "port": 9443}]}\''
    assert describe(saying(said)) == [Made("i-1", "192.0.2.7", 9443)]
    assert describe(saying('echo \'{"machines": [{"id": "i-1"}]}\'')) == [Made("i-1", "", 8443)]


@pytest.mark.parametrize(
    "said",
    [
        "",
        "done",
        "[]",
        "{}",
        '{"machines": {}}',
        '{"machines": ["i-1"]}',
        '{"machines": [{"address": "192.0.2.7"}]}',
        '{"machines": [{"id": 7}]}',
        '{"machines": [{"id": ""}]}',
        '{"machines": [{"id": "i-1", "address": "somewhere"}]}',
        '{"machines": [{"id": "i-1", "address": "fd00::1"}]}',
        '{"machines": [{"id": "i-1", "port": "8443"}]}',
        '{"machines": [{"id": "i-1", "port": 70000}]}',
        '{"machines": [{"id": "i-1", "port": true}]}',
    ],
)
def test_an_odd_answer_is_none(said: str) -> None:
    with pytest.raises(ExternalError, match="`sh describe` answers with something else than machines"):
        describe(saying(f"echo '{said}'"))


def test_an_answer_of_brackets_only_is_none() -> None:
    with pytest.raises(ExternalError, match="`sh describe` answers with something else than machines"):
        describe(saying(f"echo '{'[' * 3000}'"))


def test_what_it_says_is_shown_in_one_line() -> None:
    with pytest.raises(ExternalError, match=r"`sh describe` failed with status 3: no quota\\x1b\[2J$"):
        describe(saying(r"echo first; printf 'no quota\033[2J\n' >&2; exit 3"))
    with pytest.raises(ExternalError, match="nothing-there is not installed"):
        describe(CommandProvisioner(["/nothing-there"], 5.0))


def test_one_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    began = time.monotonic()
    with pytest.raises(ExternalError, match=r"`sh describe` did not finish within 0.5 s, and was killed: it printed"):
        describe(saying(f"sleep 600 & echo $! > {pid}; wait", 0.5))
    assert time.monotonic() - began < 20
    stat = Path(f"/proc/{pid.read_text().strip()}/stat")
    wait_until(lambda: not stat.exists() or stat.read_text().split()[2] == "Z", "the end of its child", 20)


def test_the_command_by_hand_gives_what_the_watcher_gives(tmp_path: Path) -> None:
    cloud, given = tmp_path / "my cloud", tmp_path / "given"
    cloud.write_text(f'#!/bin/sh\necho "$@" > {given}; cat >> {given}; echo \'{{"machines": []}}\'\n')
    cloud.chmod(0o755)
    command = CommandProvisioner([str(cloud), "eu"], 30.0)
    order = {"lease": "x", "options": {"name": "a\\nb '%s'"}}
    command.destroy(order)
    by_the_watcher = given.read_text()
    subprocess.run(["sh", "-c", command.by_hand(order)], check=True, timeout=30, stdout=subprocess.DEVNULL)
    assert given.read_text() == by_the_watcher
    assert by_the_watcher.startswith('eu destroy\n{"version": 1, ')


def test_one_that_prints_without_end_is_killed() -> None:
    with pytest.raises(ExternalError, match=r"did not finish within 0\.5 s"):
        describe(saying("yes", 0.5))


def test_an_order_is_not_shown_on_its_command_line(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    secret: Mapping[str, Any] = {**_order("x"), "lxd": {"server_key": "SECRET"}}
    saying(f"tr '\\0' ' ' < /proc/$$/cmdline > {seen}; echo '{{\"machines\": []}}'").create(secret)
    assert "SECRET" not in seen.read_text()
