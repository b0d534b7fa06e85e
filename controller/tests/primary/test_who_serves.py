"""What a VM does at its boot with what its secondary answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from vcrecovery.excludes.selection import Selection
from vcrecovery.primary.half_copied import is_marked, mark, mark_path
from vcrecovery.primary.programs import ProgramError
from vcrecovery.primary.settings import Settings
from vcrecovery.primary.who_serves import at_boot

SETTINGS = Settings(selection=Selection(), lists={}, ssh_config="/none/ssh_config")
ISOLATED = ["systemctl", "--no-block", "isolate", "vcrecovery-superseded.target"]


class Machine:
    """`answers`: of the secondary, one after the other; None: it is silent. The last one stays."""

    def __init__(self, *answers: str | None, state: str = "initializing") -> None:
        self._answers, self._state = list(answers), state
        self.time, self.asked = 0.0, 0
        self.said: list[str] = []
        self.done: list[list[str]] = []

    def run(self, command: Sequence[str], _timeout: float) -> str:
        if command[:2] == ["systemctl", "show"]:
            return f"SystemState={self._state}\n"
        if command[0] != "ssh":
            self.done.append(list(command))
            return ""
        assert command[-2:] == ["receiver", "who-serves"]
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is None:
            raise ProgramError("ssh: connect to host 192.0.2.1 port 8022: Connection refused", 255)
        return answer

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def boot(self, settings: Settings = SETTINGS, root: str = "/none") -> list[list[str]]:
        at_boot(settings, self.run, self.said.append, 15.0, lambda: self.time, self.sleep, root)
        return self.done


def test_the_one_that_serves_boots_on() -> None:
    machine = Machine("primary\n")
    assert machine.boot() == []
    assert (machine.said, machine.asked, machine.time) == (["this VM serves"], 1, 0.0)


def test_beside_a_standby_that_serves_no_service_starts() -> None:
    machine = Machine("standby\n")
    assert machine.boot() == [ISOLATED]
    assert machine.said == ["the standby serves: no service is started here"]


def test_a_secondary_that_is_late_is_waited_for() -> None:
    machine = Machine(None, None, "standby\n")
    assert machine.boot() == [ISOLATED]
    assert machine.time == 2.0


@pytest.mark.parametrize("answer", [None, "", "error: LXD does not answer", "primary-ish"])
@pytest.mark.parametrize(("unanswered", "done"), [("serve", []), ("wait", [ISOLATED])])
def test_without_an_answer_the_plan_decides(answer: str | None, unanswered: str, done: list[list[str]]) -> None:
    machine = Machine(answer)
    assert machine.boot(SETTINGS._replace(unanswered=unanswered)) == done
    assert 15.0 <= machine.time < 17.0
    assert "has not said within 15 s who serves" in machine.said[0]


@pytest.fixture
def half_copied(tmp_path: Path) -> Settings:
    """Of a VM into which the standby's files were being copied."""
    settings = SETTINGS._replace(ssh_config=str(tmp_path / "ssh_config"))
    mark(settings)
    return settings


@pytest.mark.parametrize("unanswered", ["serve", "wait"])
def test_a_copy_that_has_not_ended_is_not_served_without_an_answer(half_copied: Settings, unanswered: str) -> None:
    machine = Machine(None)
    assert machine.boot(half_copied._replace(unanswered=unanswered)) == [ISOLATED]
    place = mark_path(half_copied)
    assert "; ".join(machine.said) == (
        "the secondary has not said within 15 s who serves, and a copy of the standby's files into this VM has not"
        f" ended ({place}): no service is started here; if its files are good enough for you, `rm {place}`,"
        " then `systemctl default`"
    )
    assert is_marked(half_copied)
    # The way out.
    Path(place).unlink()
    assert Machine(None).boot(half_copied._replace(unanswered="serve")) == []


def test_beside_a_standby_that_serves_a_copy_has_still_not_ended(half_copied: Settings) -> None:
    machine = Machine("standby\n")
    assert machine.boot(half_copied) == [ISOLATED]
    assert machine.said == ["the standby serves: no service is started here"]
    assert is_marked(half_copied)


def test_who_is_told_to_serve_has_the_files_that_count(half_copied: Settings) -> None:
    machine = Machine("primary\n")
    assert machine.boot(half_copied) == []
    assert machine.said == ["this VM serves"]
    assert not is_marked(half_copied)


def test_a_mark_that_cannot_be_removed_keeps_no_service_from_starting(half_copied: Settings) -> None:
    place = Path(mark_path(half_copied))
    place.unlink()
    (place / "in the way").mkdir(parents=True)
    machine = Machine("primary\n")
    assert machine.boot(half_copied) == []
    assert machine.said == ["this VM serves", f"{place} is left, remove it: Is a directory"]


def test_a_network_that_comes_up_with_the_services_is_not_waited_for(tmp_path: Path) -> None:
    unit = tmp_path / "etc/systemd/system/multi-user.target.wants/NetworkManager.service"
    unit.parent.mkdir(parents=True)
    unit.touch()
    machine = Machine(None)
    assert machine.boot(SETTINGS._replace(unanswered="wait"), str(tmp_path)) == [ISOLATED]
    assert machine.time == 0.0


def test_a_machine_that_has_booted_is_left_as_it_is() -> None:
    """The role starts the unit, too."""
    machine = Machine("standby\n", state="running")
    assert machine.boot() == []
    assert machine.asked == 0
