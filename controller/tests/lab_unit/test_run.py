"""How other programs are run."""

import time

import pytest

from vcrecovery_lab.run import LabError, run


def test_a_failure_names_the_command_and_the_last_line_of_stderr() -> None:
    with pytest.raises(LabError, match=r"^sh -c .*: two$"):
        run(["sh", "-c", "echo one >&2; echo two >&2; exit 3"], timeout=10)


def test_a_failure_can_be_allowed() -> None:
    assert run(["sh", "-c", "exit 3"], timeout=10, check=False).returncode == 3


def test_a_missing_program() -> None:
    with pytest.raises(LabError, match="vcrlab-no-such-program: No such file"):
        run(["vcrlab-no-such-program"], timeout=10)


def test_a_timeout_also_ends_children_that_hold_the_output_open() -> None:
    started = time.monotonic()
    with pytest.raises(LabError, match=r"no end after 0\.5 s"):
        run(["sh", "-c", "sleep 30 & sleep 30"], timeout=0.5)
    assert time.monotonic() - started < 10
