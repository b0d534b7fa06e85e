"""Which secondary a VM sends to, by what they say; and what its heartbeat vouches for there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from vcrecovery.excludes.selection import Selection
from vcrecovery.primary import heartbeat
from vcrecovery.primary.current import Current, current
from vcrecovery.primary.marks import DUE, LOST
from vcrecovery.primary.programs import ProgramError
from vcrecovery.primary.receivers import find_receiver, until_found
from vcrecovery.primary.settings import Settings
from vcrecovery.primary.who_serves import ask, who_serves

SSH_CONFIG = """\
Include /run/vcrecovery/receiver
Host receiver-sec1
  HostName 192.0.2.1
Host receiver-sec2
  HostName 192.0.2.2
  HostKeyAlias vcrecovery-receiver-sec2
Host receiver
  HostName 192.0.2.1
"""


class Vm:
    """`answers`: of each secondary; one that is not there is silent."""

    def __init__(self, folder: Path) -> None:
        (folder / "ssh_config").write_text(SSH_CONFIG)
        self.run_dir, self.state_dir = folder / "run", folder / "state"
        (self.run_dir / "lsyncd").mkdir(parents=True)
        self.settings = Settings(
            selection=Selection(),
            lists={},
            ssh_config=str(folder / "ssh_config"),
            run_dir=str(self.run_dir),
            state_dir=str(self.state_dir),
            receivers=("sec1", "sec2"),
        )
        self.answers: Mapping[str, str] = {}
        self.asked: list[tuple[str, str]] = []
        self.during: Callable[[], None] = lambda: None

    def run(self, command: Sequence[str], _timeout: float) -> str:
        host, question = command[-2:]
        self.asked.append((host, question))
        self.during()
        if (answer := self.answers.get(host.removeprefix("receiver-"))) is None:
            raise ProgramError("ssh: no route to host", 255)
        return answer + "\n"

    def find(self, **answers: str) -> str | None:
        self.answers = answers
        return find_receiver(self.settings, self.run)

    @property
    def current(self) -> Current | None:
        return current(str(self.run_dir), self.settings.receivers)

    def vouches(self, at: float, receiver: str | None = "sec1") -> None:
        heartbeat.stamp(str(self.state_dir), at, None, receiver=receiver, knows=self.settings.receivers)

    @property
    def heartbeat(self) -> dict[str, object]:
        found: dict[str, object] = json.loads((self.state_dir / "heartbeat").read_text())
        return found


@pytest.fixture
def vm(tmp_path: Path) -> Vm:
    return Vm(tmp_path)


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ({"sec1": "primary", "sec2": "elsewhere"}, "sec1"),
        ({"sec1": "elsewhere rank=2", "sec2": "primary rank=2"}, "sec2"),
        # The one that was away does not know that it was left.
        ({"sec1": "primary rank=2", "sec2": "primary rank=4"}, "sec2"),
        ({"sec1": "primary rank=5", "sec2": "primary rank=4"}, "sec1"),
        ({"sec2": "primary rank=4"}, "sec2"),
        # On its way, or it serves.
        ({"sec1": "elsewhere", "sec2": "elsewhere"}, None),
        ({"sec1": "primary rank=2", "sec2": "standby rank=4"}, None),
        ({"sec1": "standby elsewhere rank=4"}, None),
        ({}, None),
        ({"sec1": "primary rank=x", "sec2": "you are wrong"}, "sec1"),
    ],
)
def test_it_sends_to_the_one_at_which_its_standby_waits(vm: Vm, answers: dict[str, str], found: str | None) -> None:
    assert vm.find(**answers) == found
    assert vm.current == Current(found or "sec1")
    assert (vm.run_dir / DUE).exists() == (found == "sec2")


def test_ssh_is_led_there_with_that_ones_own_key(vm: Vm) -> None:
    vm.find(sec2="primary rank=2")
    assert (vm.run_dir / "receiver").read_text() == (
        "# sec2\nHost receiver\n  HostName 192.0.2.2\n  HostKeyAlias vcrecovery-receiver-sec2\n"
    )
    (vm.run_dir / "receiver").write_text("# sec9\nHost receiver\n")
    assert vm.current == Current("sec1")


def plan_has(vm: Vm, **receivers: tuple[str, int]) -> None:
    """What the role writes: of each the address and port, where its standby is at home first."""
    blocks = [f"Include {vm.run_dir}/receiver"]
    for name, (address, port) in receivers.items():
        alias = "" if name == next(iter(receivers)) else f"-{name}"
        blocks.append(
            f"Host receiver-{name}\n  HostName {address}\n  Port {port}\n  HostKeyAlias vcrecovery-receiver{alias}"
        )
    address, port = next(iter(receivers.values()))
    blocks.append(f"Host receiver\n  HostName {address}\n  Port {port}\n  HostKeyAlias vcrecovery-receiver\n")
    Path(vm.settings.ssh_config).write_text("\n".join(blocks))
    vm.settings = vm.settings._replace(receivers=tuple(receivers) if len(receivers) > 1 else ())


def led_to(vm: Vm) -> str:
    """What ssh itself makes of it."""
    words = ["ssh", "-G", "-F", vm.settings.ssh_config, "receiver"]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=30).stdout
    found = dict(line.partition(" ")[::2] for line in said.splitlines())
    return f"{found['hostname']}:{found['port']} {found['hostkeyalias']}"


@pytest.mark.parametrize(("address", "port"), [("192.0.2.2", 2223), ("192.0.2.12", 2222)])
def test_a_receiver_with_another_address_is_found_at_the_next_question(vm: Vm, address: str, port: int) -> None:
    plan_has(vm, sec1=("192.0.2.1", 2222), sec2=("192.0.2.2", 2222))
    vm.find(sec1="elsewhere", sec2="primary rank=2 has-all-of=sec1")
    (vm.run_dir / DUE).unlink()
    plan_has(vm, sec1=("192.0.2.1", 2222), sec2=(address, port))
    said: list[str] = []
    until_found(vm.settings, vm.run, said.append)
    assert said == ["the standby waits on sec2"]
    assert led_to(vm) == f"{address}:{port} vcrecovery-receiver-sec2"
    # It has what it had: nothing is compared for that.
    assert vm.current == Current("sec2", "sec1")
    assert not (vm.run_dir / DUE).exists()
    before = (vm.run_dir / "receiver").stat().st_ino
    assert vm.find(sec2="primary rank=2") == "sec2"
    assert (vm.run_dir / "receiver").stat().st_ino == before


def test_at_home_again_it_heeds_another_port_too(vm: Vm) -> None:
    plan_has(vm, sec1=("192.0.2.1", 2222), sec2=("192.0.2.2", 2222))
    vm.find(sec1="elsewhere", sec2="primary rank=2")
    vm.find(sec1="primary rank=4", sec2="elsewhere")
    plan_has(vm, sec1=("192.0.2.1", 2223), sec2=("192.0.2.2", 2222))
    vm.find(sec1="primary rank=4", sec2="elsewhere")
    assert led_to(vm) == "192.0.2.1:2223 vcrecovery-receiver"


@pytest.mark.parametrize("answers", [{"sec1": "primary rank=5", "sec3": "elsewhere"}, {}])
def test_a_spare_that_has_left_the_plan_is_sent_nothing(vm: Vm, answers: dict[str, str]) -> None:
    plan_has(vm, sec1=("192.0.2.1", 2222), sec2=("192.0.2.2", 2222))
    vm.find(sec1="elsewhere", sec2="primary rank=2")
    vm.vouches(100.0, "sec2")
    (vm.run_dir / DUE).unlink()
    plan_has(vm, sec1=("192.0.2.1", 2222), sec3=("192.0.2.3", 2222))
    assert vm.find(**answers) == ("sec1" if answers else None)
    assert led_to(vm) == "192.0.2.1:2222 vcrecovery-receiver"
    assert vm.current == Current("sec1")
    # What was sent to that one is not here.
    assert (vm.run_dir / DUE).exists()
    assert (vm.heartbeat["good_until"], vm.heartbeat["receiver"]) == (heartbeat.NEVER, "sec1")


def test_without_a_spare_nothing_is_left_that_a_later_one_would_go_by(vm: Vm) -> None:
    plan_has(vm, sec1=("192.0.2.1", 2222), sec2=("192.0.2.2", 2222))
    vm.find(sec1="elsewhere", sec2="primary rank=2")
    plan_has(vm, sec1=("192.0.2.1", 2222))
    assert vm.find() is None
    assert not (vm.run_dir / "receiver").exists()


def test_where_there_is_one_nothing_is_asked(vm: Vm) -> None:
    assert find_receiver(vm.settings._replace(receivers=()), vm.run) is None
    until_found(vm.settings._replace(receivers=()), vm.run, print)
    assert vm.asked == []


def test_what_was_sent_to_another_one_is_vouched_for_only_by_its_own_word(vm: Vm) -> None:
    vm.vouches(100.0)
    vm.find(sec1="elsewhere", sec2="primary rank=2 has-all-of=sec1")
    assert (vm.heartbeat["at"], vm.heartbeat["receiver"]) == (100.0, "sec1")
    vm.find(sec1="primary rank=4", sec2="elsewhere")
    # Nothing was vouched for at the other one meanwhile.
    assert (vm.heartbeat["at"], vm.heartbeat["good_until"], vm.heartbeat["receiver"]) == (100.0, None, "sec1")
    vm.find(sec1="elsewhere", sec2="primary rank=6")
    assert (vm.heartbeat["good_until"], vm.heartbeat["receiver"]) == (heartbeat.NEVER, "sec2")


def test_a_session_that_failed_has_it_ask_until_one_answers(vm: Vm) -> None:
    (vm.run_dir / LOST).touch()
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            vm.answers = {"sec2": "primary rank=2"}

    said: list[str] = []
    until_found(vm.settings, vm.run, said.append, sleep)
    assert said == ["the standby waits on sec2; it was on sec1"]
    assert slept == [1.0, 2.0, 5.0]
    assert not (vm.run_dir / LOST).exists()


@pytest.mark.parametrize(
    ("answers", "serves"),
    [
        ({"sec1": "elsewhere", "sec2": "primary rank=2"}, "primary"),
        ({"sec1": "elsewhere", "sec2": "standby rank=4"}, "standby"),
        ({"sec1": "primary rank=2", "sec2": "standby rank=4"}, "standby"),
        # After a return by hand the other one still believes that it went on to serve.
        ({"sec1": "primary rank=4", "sec2": "standby elsewhere rank=4"}, "primary"),
        ({"sec2": "standby elsewhere rank=4"}, "standby"),
        ({"sec1": "elsewhere"}, None),
        ({}, None),
    ],
)
def test_at_its_boot_it_believes_the_one_that_knows(vm: Vm, answers: dict[str, str], serves: str | None) -> None:
    vm.answers = answers
    assert who_serves(vm.settings, vm.run) == serves


def test_only_where_its_standby_is_at_home_it_gets_orders(vm: Vm) -> None:
    vm.answers = {"sec1": "standby copy 7 rank=14", "sec2": "standby elsewhere"}
    assert ask(vm.settings, vm.run, "who-serves {}", 5.0) == ["standby", "copy", "7", "rank=14"]
    assert vm.asked == [("receiver-sec1", "who-serves {}"), ("receiver-sec2", "who-serves")]
    vm.asked.clear()
    ask(vm.settings, vm.run, "who-serves {}", 5.0, first_is_enough=True)
    assert vm.asked == [("receiver-sec1", "who-serves {}")]


class _OverError(Exception):
    pass


def beats(vm: Vm, *turns: Callable[[], None]) -> list[dict[str, object]]:
    """The heartbeats after each of these, of a machine whose lsyncd sends everything at once."""
    found: list[dict[str, object]] = []
    left = list(turns)
    time = 0.0

    def now() -> float:
        nonlocal time
        time += 100.0
        return time

    def sleep(_seconds: float) -> None:
        (vm.run_dir / "lsyncd/sent").write_text(max((p.name for p in vm.state_dir.glob("probe-*")), default=""))
        if (vm.state_dir / "heartbeat").exists():
            found.append(vm.heartbeat)
        if not left:
            raise _OverError
        left.pop(0)()

    with pytest.raises(_OverError):
        heartbeat.beat(
            str(vm.state_dir),
            str(vm.run_dir),
            1.0,
            now,
            sleep,
            programs=lambda _words, _timeout: "",
            receivers=vm.settings.receivers,
            steady=lambda: time,
        )
    return found


@pytest.mark.parametrize(("word", "keeps"), [(" has-all-of=sec1", True), ("", False)])
def test_a_heartbeat_vouches_for_nothing_newer_until_all_was_compared_there(vm: Vm, word: str, keeps: bool) -> None:
    def switch() -> None:
        vm.find(sec1="elsewhere", sec2=f"primary rank=2{word}")

    def compared() -> None:
        (vm.run_dir / DUE).unlink()

    def nothing() -> None: ...

    found = beats(vm, nothing, nothing, switch, nothing, nothing, compared, nothing, nothing)
    before = [one for one in found if one["receiver"] == "sec1"][-1]
    after = [one for one in found if one["receiver"] == "sec2"]
    assert before["good_until"] is None
    assert after[-1]["good_until"] is None
    suspect = [one for one in after if one["good_until"] is not None]
    assert suspect
    assert {one["good_until"] for one in suspect} == ({before["at"]} if keeps else {heartbeat.NEVER})
