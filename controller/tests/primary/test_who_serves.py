"""What a VM does at its boot with what its secondary answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from vcrecovery.excludes.selection import Selection
from vcrecovery.primary.programs import ProgramError
from vcrecovery.primary.settings import Settings
from vcrecovery.primary.who_serves import at_boot

SETTINGS = Settings(selection=Selection(), lists={})
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
