"""What a VM does beside a standby that serves, with what its secondary answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from vcrecovery.excludes.selection import Selection
from vcrecovery.primary.fetch import Fetch, Say
from vcrecovery.primary.half_copied import is_marked, mark
from vcrecovery.primary.heartbeat import boot_id
from vcrecovery.primary.programs import ProgramError
from vcrecovery.primary.settings import Settings
from vcrecovery.primary.superseded import until_it_may_serve
from vcrecovery.primary.system_name import own_system, system_of
from vcrecovery.primary.transfer import Transfer
from vcrecovery.transfer.failback_orders import report_of

SETTINGS = Settings(selection=Selection(), lists={}, ssh_config="/none/ssh_config")
BOOTED = [["systemctl", "daemon-reload"], ["systemctl", "--no-block", "default"]]


class Machine(Fetch):
    """`answers`: of the secondary, one after the other; None: it is silent. Each takes it `held` seconds.

    A pass takes 3 s and brings what `passes` say, in the end two files.
    """

    def __init__(self, *answers: str | None, passes: Sequence[Exception] = (), held: float = 0.0) -> None:
        super().__init__(SETTINGS)
        self.settings = SETTINGS
        self._answers, self._passes, self._held = list(answers), list(passes), held
        self.time = 0.0
        self.asked: list[tuple[float, dict[str, Any] | None]] = []
        self.said: list[str] = []
        self.done: list[Any] = []

    def run(self, command: Sequence[str], timeout: float) -> str:
        if command[0] != "ssh":
            self.done.append(list(command))
            return ""
        assert timeout > 20 + self._held
        question, _, said = command[-1].partition(" ")
        assert (command[-2], question) == ("receiver", "who-serves")
        self.asked.append((self.time, json.loads(said) if said else None))
        self.time += self._held
        answer = self._answers.pop(0)
        if answer is None:
            raise ProgramError("ssh: connect to host 192.0.2.1 port 8022: Connection refused", 255)
        return answer + "\n"

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def __call__(self, last: bool, say: Say) -> Transfer:
        self.done.append("last" if last else "copy")
        self.time += 3.0
        if self._passes:
            raise self._passes.pop(0)
        return Transfer([], 100, 2)

    def go(self) -> list[Any]:
        until_it_may_serve(self.settings, self.run, self.said.append, self.sleep, lambda: self.time, self)
        assert self.done[-2:] == BOOTED
        return self.done[:-2]

    def told(self, *keys: str) -> list[Any]:
        """These keys of each report; None where the question came without one."""
        return [said and tuple(said[key] for key in keys) for _, said in self.asked]


def test_without_a_failback_it_only_asks() -> None:
    machine = Machine("standby", None, "standby", "primary")
    assert machine.go() == []
    assert machine.told("boot") == [None, None, None, None]
    assert machine.time == 30.0
    assert machine.said == ["this VM serves again: the services start"]


def test_a_vm_that_is_told_to_serve_has_the_files_that_count(tmp_path: Path) -> None:
    """After a return by hand, say: the copy that had not ended is of no interest any more."""
    machine = Machine("standby", "primary")
    machine.settings = SETTINGS._replace(ssh_config=str(tmp_path / "ssh_config"))
    mark(machine.settings)
    machine.go()
    assert not is_marked(machine.settings)


def test_a_whole_failback() -> None:
    machine = Machine(
        "standby hold 7", "standby hold 7", "standby copy 7", "standby copy 7", "standby last 7", "primary"
    )
    assert machine.go() == ["copy", "copy", "last"]
    first, *others = machine.told("boot", "system")
    assert (first, set(others)) == (None, {(boot_id(), own_system())})
    assert machine.told("epoch", "order", "passes")[1:] == [
        (0, "", 0),
        (0, "", 0),
        (7, "copy", 1),
        (7, "copy", 2),
        (7, "last", 3),
    ]
    assert machine.told("seconds", "files", "bytes", "error")[-1] == (3.0, 2, 100, "")
    assert "last: 2 files, 100 bytes fetched from the standby, 3.0 s" in machine.said


def test_it_says_that_it_is_there_before_it_copies() -> None:
    machine = Machine("standby copy 7", "standby hold 7", "primary")
    assert machine.go() == []
    assert machine.told("epoch") == [None, (0,), (0,)]


@pytest.mark.parametrize(("held", "pause"), [(0.0, 0.5), (0.3, 0.5), (20.0, 20.0)])
def test_it_waits_for_its_turn_without_spinning(held: float, pause: float) -> None:
    machine = Machine(*["standby hold 7"] * 5, "primary", held=held)
    assert machine.go() == []
    times = [at for at, _ in machine.asked[1:]]
    assert [round(after - before, 3) for before, after in pairwise(times)] == [pause] * 4


def test_the_last_pass_is_done_once_unless_it_failed() -> None:
    trouble = ProgramError("rsync: connection unexpectedly closed [rsync: exit status 12]", 12)
    machine = Machine(*["standby last 7"] * 6, "primary", passes=[trouble])
    assert machine.go() == ["last", "last"]
    assert machine.told("passes", "error")[2:] == [
        (0, str(trouble)),
        (0, str(trouble)),
        (1, ""),
        (1, ""),
        (1, ""),
    ]


@pytest.mark.parametrize("trouble", [ProgramError("a\nb " + "x" * 400), OSError(28, "No space left on device")])
def test_a_pass_that_failed_is_told_at_once_and_tried_again_after_a_while(trouble: Exception) -> None:
    machine = Machine(*["standby copy 7"] * 4, "primary", passes=[trouble])
    assert machine.go() == ["copy", "copy"]
    assert [at for at, _ in machine.asked] == [0.0, 0.0, 3.0, 8.0, 11.0]
    (error,) = machine.told("error")[2]
    assert "\n" not in error
    assert 0 < len(error) <= 300


def test_each_failback_begins_anew() -> None:
    machine = Machine(
        "standby copy 7", "standby copy 7", "standby", "standby hold 8", "standby copy 9", "standby copy 9", "primary"
    )
    assert machine.go() == ["copy", "copy"]
    assert machine.told("epoch", "passes") == [None, (0, 0), (7, 1), None, (0, 0), (0, 0), (9, 1)]


def test_a_secondary_that_is_silent_in_between_is_told_afterwards() -> None:
    machine = Machine("standby copy 7", "standby copy 7", None, "standby hold 7", "primary")
    assert machine.go() == ["copy"]
    assert machine.told("epoch", "passes") == [None, (0, 0), (7, 1), (7, 1), (7, 1)]


@pytest.mark.parametrize(
    "answer", ["standby hold", "standby burn 7", "standby copy -7", "standby copy x", "standby copy 0"]
)
def test_an_order_that_it_does_not_know_is_none(answer: str) -> None:
    machine = Machine(answer, "primary")
    assert machine.go() == []
    assert machine.time == 10.0


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('PRETTY_NAME="Debian GNU/Linux 12"\nID=debian\nVERSION_ID="12"\n', "debian 12 x86_64"),
        ("ID='rocky'\nVERSION_ID=9.4\nID_LIKE=rhel\n", "rocky 9.4 x86_64"),
        ("ID=arch\n", "arch x86_64"),
        ('ID="\nVERSION_ID=\n', "linux x86_64"),
        ('ID="a\x1b[31m"\n', "a[31m x86_64"),
    ],
)
def test_a_system_has_a_name(text: str, name: str) -> None:
    assert system_of(text, "x86_64") == name


def test_its_reports_are_understood_by_the_secondary() -> None:
    machine = Machine("standby copy 7", "standby copy 7", "standby hold 7", "primary", passes=[ProgramError("e" * 999)])
    machine.go()
    reports = [report_of(json.dumps(said), 5.0, 1.0) for _, said in machine.asked if said]
    assert [(report.epoch, report.order) for report in reports] == [(0, ""), (7, "copy"), (7, "copy")]
