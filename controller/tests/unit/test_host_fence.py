"""The fence command: what proves a hypervisor off, and that it runs once for all services of it."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from set_clock import SetClock

from vcrecovery.drivers.fence import power_off
from vcrecovery.errors import ExternalError
from vcrecovery.operations.environment import Environment
from vcrecovery.operations.host_fence import fence_host
from vcrecovery.plan.load import load_plan
from vcrecovery.plan.model import Fence


def test_the_last_line_is_the_proof() -> None:
    assert power_off("hv1", ["printf", "one\\n\\033[31mChassis Power is off\\n\\n"], 10) == "?[31mChassis Power is off"
    assert power_off("hv1", ["true"], 10) == "it printed nothing"


@pytest.mark.parametrize(
    ("command", "timeout", "said"),
    [
        (["sh", "-c", "echo BMC: no route >&2; exit 1"], 10, "failed with status 1: BMC: no route"),
        (["sh", "-c", "echo on stdout; exit 3"], 10, "failed with status 3: on stdout"),
        (["/nonexistent/fence"], 10, "is not installed"),
        (["/etc/hostname"], 10, "cannot be run"),
        (["sleep", "60"], 0.2, "did not finish"),
        (["sh", "-c", "sleep 60 & sleep 60"], 0.2, "did not finish"),
        # It has left to a child what it was to do.
        (["sh", "-c", "sleep 60 & echo off"], 0.5, "did not finish"),
        (["yes", "Password: " * 100], 30, "yes prints without end"),
        (["sh", "-c", "exec yes >&2"], 30, "sh prints without end"),
    ],
)
def test_anything_but_status_0_is_no_proof(command: list[str], timeout: float, said: str) -> None:
    begun = time.monotonic()
    with pytest.raises(ExternalError) as caught:
        power_off("hv1", command, timeout)
    assert said in caught.value.message
    assert "hypervisor hv1 was not fenced" in caught.value.message
    assert "--primary-is-down" in caught.value.hint
    assert time.monotonic() - begun < 30


def test_a_daemon_that_it_leaves_behind_is_not_waited_for(tmp_path: Path) -> None:
    """Such as an ssh with `ControlPersist`: it has a session of its own, and the errors' pipe open."""
    pid = tmp_path / "pid"
    command = f"setsid sh -c 'echo $$ > {pid}; exec sleep 60' & until [ -s {pid} ]; do :; done; echo off"
    begun = time.monotonic()
    try:
        assert power_off("hv1", ["sh", "-c", command], 30) == "off"
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)
    assert time.monotonic() - begun < 20


def test_no_shell_sees_the_command() -> None:
    assert power_off("hv1", ["echo", "$HOME; id"], 10) == "$HOME; id"


NOT_FENCED = "hypervisor hv1 was not fenced: sh failed with status 1: off"
WAY_OUT = (
    "see that it works, or power hv1 off by hand and say so: `vcrecovery failover SERVICE --primary-is-down SERVICE`"
)
START = 1_790_000_000.0
fence_it = partial(fence_host, refuse_what_answers=lambda: None, still_answering=list)


@pytest.fixture
def env(plan_file: Path) -> Environment:
    return Environment(load_plan(plan_file))


def lock_of(env: Environment) -> Path:
    """Where the processes of this machine find each other."""
    lock = env.plan.state_dir / "locks/hypervisors/hv1"
    lock.parent.mkdir(parents=True)
    return lock


def fence(folder: Path, status: int, lasts: float = 0.05) -> Fence:
    counter = folder / "runs"
    return Fence(command=["sh", "-c", f"echo run >> {counter}; sleep {lasts}; echo off; exit {status}"], timeout=20)


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


@pytest.mark.parametrize("status", [0, 1])
def test_fifty_services_power_their_hypervisor_off_once(env: Environment, tmp_path: Path, status: int) -> None:
    said: list[str] = []

    together = threading.Barrier(50)

    def one() -> None:
        together.wait(60)
        try:
            said.append(fence_it(env, "hv1", fence(tmp_path, status, 1.0), opened_at))
        except ExternalError as error:
            said.append(f"{error.message}; {error.hint}")

    opened_at = env.clock.now()
    threads = [threading.Thread(target=one) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(said) == 50
    # On a slow machine one may come only after the failed run: it tries for itself.
    assert runs(tmp_path) == 1 if status == 0 else runs(tmp_path) < 10
    # Those that have waited are told the same as the one that has run it.
    off = {"hv1 is off: off", "hv1 is off: off (for all its services)"}
    assert set(said) == (off if status == 0 else {f"{NOT_FENCED}; {WAY_OUT}"})


def test_a_proof_of_before_the_failure_is_none(env: Environment, tmp_path: Path) -> None:
    fence_it(env, "hv1", fence(tmp_path, 0), env.clock.now())
    fence_it(env, "hv1", fence(tmp_path, 0), env.clock.now())
    assert runs(tmp_path) == 2


@pytest.mark.parametrize(("later", "again"), [(59.9, False), (60.0, True), (-1.0, True)])
def test_a_proof_counts_for_a_minute(plan_file: Path, tmp_path: Path, later: float, again: bool) -> None:
    """Somebody may have powered it on since; and how old it is nobody knows once the clock was set back."""
    clock = SetClock()
    env, opened_at = Environment(load_plan(plan_file), clock), clock.now() - 10
    fence_it(env, "hv1", fence(tmp_path, 0), opened_at)
    clock.set_by = later
    fence_it(env, "hv1", fence(tmp_path, 0), opened_at)
    assert runs(tmp_path) == (2 if again else 1)


def test_a_proof_of_another_failover_counts_for_one_whose_own_try_has_failed(env: Environment, tmp_path: Path) -> None:
    opened_at = env.clock.now()
    with pytest.raises(ExternalError):
        fence_it(env, "hv1", fence(tmp_path, 1), opened_at)
    fence_it(env, "hv1", fence(tmp_path, 0), opened_at)
    assert "for all its services" in fence_it(env, "hv1", fence(tmp_path, 0), opened_at)
    assert runs(tmp_path) == 2


def test_what_goes_on_for_a_moment_is_off_all_the_same(plan_file: Path, tmp_path: Path) -> None:
    env = Environment(load_plan(plan_file), SetClock())
    answers = [("web (10.10.0.10:80)",), ("web (10.10.0.10:80)",), ()]
    found = fence_host(env, "hv1", fence(tmp_path, 0), env.clock.now(), lambda: None, lambda: answers.pop(0))
    assert (found, answers) == ("hv1 is off: off", [])


def test_what_goes_on_proves_nothing_to_any_service(plan_file: Path, tmp_path: Path) -> None:
    env = Environment(load_plan(plan_file), SetClock())
    opened_at = env.clock.now()
    with pytest.raises(ExternalError, match=r"hv1 says that it is off, but web \(:80\), shop \(:443\) answers"):
        fence_host(env, "hv1", fence(tmp_path, 0), opened_at, lambda: None, lambda: ("web (:80)", "shop (:443)"))
    env.clock.sleep(1.0)
    # For one whose ports do not answer anyway, too, the command is run again.
    fence_it(env, "hv1", fence(tmp_path, 0), opened_at)
    assert runs(tmp_path) == 2


def test_a_failure_is_tried_again(env: Environment, tmp_path: Path) -> None:
    opened_at = env.clock.now()
    with pytest.raises(ExternalError):
        fence_it(env, "hv1", fence(tmp_path, 1), opened_at)
    assert fence_it(env, "hv1", fence(tmp_path, 0), opened_at) == "hv1 is off: off"


@pytest.mark.parametrize("note", ['{"at": "now", "ok": true}', f'{{"at": {START - 5}}}', '{"ok": true, "said": "off"}'])
def test_a_damaged_note_is_none(plan_file: Path, tmp_path: Path, note: str) -> None:
    env = Environment(load_plan(plan_file), SetClock(START))
    lock_of(env).write_text(note)
    fence_it(env, "hv1", fence(tmp_path, 0), 0.0)
    assert runs(tmp_path) == 1


def test_what_another_process_has_proved_up_to_the_moment_of_the_failure_counts(
    plan_file: Path, tmp_path: Path
) -> None:
    env = Environment(load_plan(plan_file), SetClock(START))
    lock_of(env).write_text(f'{{"at": {START}, "ok": true, "said": "Chassis Power is off"}}')
    said = fence_it(env, "hv1", fence(tmp_path, 0), START)
    assert said == "hv1 is off: Chassis Power is off (for all its services)"
    assert not (tmp_path / "runs").exists()


def test_what_has_just_failed_for_another_process_is_not_run_again(plan_file: Path, tmp_path: Path) -> None:
    env = Environment(load_plan(plan_file), SetClock(START))
    lock_of(env).write_text(f'{{"at": {START}, "ok": false, "said": "BMC: no route", "way_out": "see the BMC"}}')
    with pytest.raises(ExternalError, match=r"^BMC: no route; see the BMC$"):
        fence_it(env, "hv1", fence(tmp_path, 0), START)
    assert not (tmp_path / "runs").exists()


def test_a_run_of_another_process_is_waited_for_as_long_as_the_command_may_take_and_no_longer(
    plan_file: Path, tmp_path: Path
) -> None:
    env = Environment(load_plan(plan_file), SetClock(START))
    with lock_of(env).open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(ExternalError) as caught:
            fence_it(env, "hv1", fence(tmp_path, 0), START)
    assert str(caught.value) == "the fence command of hv1 has been running for over 30 s; see what it waits for"
    assert 30 <= env.clock.now() - START < 31
    assert not (tmp_path / "runs").exists()
